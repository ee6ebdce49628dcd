package gossip

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/memberlist"
)

// note is a message that takes the place of the last one by the same name.
type note struct{ name, text string }

func (n note) Invalidates(other memberlist.Broadcast) bool { return n.name == other.(note).name }
func (n note) Name() string                                { return n.name }
func (n note) Message() []byte                             { return []byte(n.text) }
func (n note) Finished()                                   {}

// This is why there are repeats. When it fails, memberlist has been mended and they can go.
func TestTheQueueLosesAMessage(t *testing.T) {
	queue := memberlist.TransmitLimitedQueue{NumNodes: func() int { return 20 }, RetransmitMult: 8}
	for _, n := range []note{{"a", "a1"}, {"a", "a2"}, {"b", "b1"}, {"c", "c1"}} {
		queue.QueueBroadcast(n)
	}
	var sent []string
	for _, message := range queue.GetBroadcasts(0, 1000) {
		sent = append(sent, string(message))
	}
	slices.Sort(sent)
	if !slices.Equal(sent, []string{"b1", "c1"}) {
		t.Errorf("it sends %q; a2 is no longer lost", sent)
	}
}

func TestNewsAreRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r repeats
		r.begin()
		began, told := time.Now(), 0
		for r.due != nil {
			<-r.due
			told++
			r.wait()
		}
		if took := time.Since(began); told != 4 || took < 8*time.Second || took > 25*time.Second {
			t.Errorf("told %d times in %s, want 4 times in 8 to 25 s", told, took)
		}
	})
}
