package consensus

import (
	"math/rand/v2"
	"testing"
	"time"
)

var five = []string{"a", "b", "c", "d", "e"}

func fiveSeeds() (int, int) { return 5, 5 }

func TestFiveFromSeedsMakeOneCluster(t *testing.T) {
	seeds(t, 100, func(w *world) {
		random := rand.New(rand.NewPCG(w.seed, 1))
		for _, i := range random.Perm(5) {
			w.start(five[i], options{expect: 5, seeds: fiveSeeds})
			time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond)
		}
		w.settled(15*time.Second, 5)
		w.put(5*time.Second, 7)
		w.within(2*time.Second, "the epoch everywhere", func() bool {
			for _, r := range w.all() {
				if !hasBackend(r.epoch.Load(), 7) {
					return false
				}
			}
			return true
		})
	})
}

// Nobody leads whom a founder would have to wait for, nor anybody beside who is alone.
func TestWhoKnowsThatNobodyLeadsIsElectedAtOnce(t *testing.T) {
	bubble(t, 1, func(w *world) {
		elected := func(what string) {
			took := w.within(5*time.Second, what, func() bool { return len(w.leaders()) == 1 })
			if took > Default().Heartbeat/2 {
				t.Errorf("%s took %v", what, took)
			}
		}
		alone := w.start("a", options{expect: 1, dir: t.TempDir()})
		elected("a founding alone")
		w.put(time.Second, 7)
		alone.stop()
		again := w.start("a", alone.opts)
		elected("a restart alone")
		if !hasBackend(again.epoch.Load(), 7) {
			t.Error("it has not the epoch that it had")
		}
		again.stop()
		for _, host := range five {
			w.start(host, options{expect: 5})
		}
		elected("a founding by five")
		w.settled(time.Second, 5)
	})
}
