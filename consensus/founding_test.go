package consensus

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// nursery is a model of replicas that found clusters: who sees whom is arbitrary and
// changes, answers are old, messages are late or lost, and candidates pause between
// any two steps. decide is the real one; promise and seal are the rules of promise.go.
type nursery struct {
	choose    func(n int) int
	unanimous bool // the rule under test: a founding needs all its voters sealed
	now       time.Duration
	babies    []*baby
	mail      []letter
	founded   []*founded
	ids       int
}

type baby struct {
	hello   Hello
	promise Ballot
	until   time.Duration
	mine    Ballot
	began   time.Duration
	asked   []*baby
	yes     map[*baby]bool
	old     []Hello // of itself, newest last: others may know any of them
}

type letter struct {
	to, from *baby
	ballot   Ballot
}

// founded is a founding that was begun: by whom, and who has been sealed into it.
type founded struct {
	ballot Ballot
	sealed map[string]bool
	done   bool
}

func (n *nursery) newServer() string { n.ids++; return fmt.Sprintf("s%02d", n.choose(50)*100+n.ids) }

// step does one random thing.
func (n *nursery) step() {
	b := n.babies[n.choose(len(n.babies))]
	switch n.choose(6) {
	case 0:
		n.now += time.Duration(n.choose(6000)) * time.Millisecond
	case 1, 2:
		n.decide(b)
	case 3:
		n.deliver()
	case 4:
		n.bootstrap(b)
	case 5:
		n.raft()
	}
	for _, b := range n.babies {
		b.old = append(b.old, b.hello)
	}
}

func (n *nursery) decide(b *baby) {
	if !b.hello.Blank {
		return
	}
	v := view{self: b.hello, name: b.hello.Name, expect: b.hello.Expect}
	var visible []*baby
	for _, o := range n.babies {
		if o == b || n.choose(3) == 0 {
			continue
		}
		visible = append(visible, o)
		hello := o.old[max(0, len(o.old)-1-n.choose(8))]
		hello.Members = nil
		v.others = append(v.others, neighbour{Member: Member{Name: hello.Name, Server: hello.Server}, answered: true, hello: hello})
	}
	a := decide(v)
	if a.deed != deedFound || (b.promise.Cluster != "" && b.promise.Candidate != b.hello.Server && n.now < b.until) {
		return
	}
	if b.mine.Candidate != b.hello.Server || !slices.Equal(b.mine.Voters, a.voters) {
		b.mine = Ballot{Candidate: b.hello.Server, Cluster: "cluster of " + n.newServer(), Generation: 1, Voters: a.voters}
	}
	b.promise, b.until, b.began, b.yes, b.asked = b.mine, n.now+promiseTime, n.now, map[*baby]bool{}, visible
	for _, o := range visible {
		n.mail = append(n.mail, letter{o, b, b.mine})
	}
}

// deliver takes any letter that is under way; some are lost.
func (n *nursery) deliver() {
	if len(n.mail) == 0 {
		return
	}
	i := n.choose(len(n.mail))
	l := n.mail[i]
	n.mail = slices.Delete(n.mail, i, i+1)
	o := l.to
	if n.choose(10) == 0 || !o.hello.Blank || (o.promise.Cluster != "" && o.promise.Candidate != l.ballot.Candidate && n.now < o.until) {
		return
	}
	o.promise, o.until = l.ballot, n.now+promiseTime
	if l.from.mine.Cluster == l.ballot.Cluster {
		l.from.yes[o] = true
	}
}

func (n *nursery) bootstrap(b *baby) {
	if !b.hello.Blank || b.mine.Cluster == "" || b.promise.Cluster != b.mine.Cluster || len(b.yes) < len(b.asked) {
		return
	}
	// The age of the promises is not looked at: the candidate pauses just after it looked.
	b.hello.Blank, b.hello.Cluster, b.hello.Generation = false, b.mine.Cluster, 1
	n.founded = append(n.founded, &founded{ballot: b.mine, sealed: map[string]bool{b.hello.Server: true}})
}

// raft lets one founding reach one voter, and the leader write what it may.
func (n *nursery) raft() {
	if len(n.founded) == 0 {
		return
	}
	f := n.founded[n.choose(len(n.founded))]
	for _, b := range n.babies {
		promised := b.promise.Cluster == f.ballot.Cluster && slices.Contains(f.ballot.Voters, b.hello.Server)
		if b.hello.Blank && promised && n.choose(2) == 0 {
			b.hello.Blank, b.hello.Cluster, b.hello.Generation = false, f.ballot.Cluster, 1
			f.sealed[b.hello.Server] = true
		}
	}
	need := len(f.ballot.Voters)
	if !n.unanimous {
		need = need/2 + 1
	}
	if len(f.sealed) >= need {
		f.done = true
	}
}

// conflict finds two founded clusters with a common voter.
func (n *nursery) conflict() string {
	owner := map[string]string{}
	for _, f := range n.founded {
		if !f.done {
			continue
		}
		for _, voter := range f.ballot.Voters {
			if other, ok := owner[voter]; ok && other != f.ballot.Cluster {
				return fmt.Sprintf("server %s is a voter of two founded clusters", voter)
			}
			owner[voter] = f.ballot.Cluster
		}
	}
	return ""
}

func newNursery(choose func(int) int, unanimous bool) *nursery {
	n := &nursery{choose: choose, unanimous: unanimous}
	for i := range 5 + choose(3) {
		b := &baby{hello: Hello{Server: n.newServer(), Name: fmt.Sprint("r", i), Blank: true, Expect: 3}, yes: map[*baby]bool{}}
		b.old = []Hello{b.hello}
		n.babies = append(n.babies, b)
	}
	return n
}

func TestFoundingsNeverShareAVoter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		n := newNursery(random.IntN, true)
		for range 400 {
			n.step()
			if c := n.conflict(); c != "" {
				t.Fatal(c)
			}
		}
	})
}

// The model can fail, and foundings do happen in it: with a majority of sealed voters
// in place of all, some schedule makes two clusters with a common voter.
func TestFoundingByMajorityWouldShareVoters(t *testing.T) {
	conflicts, done := 0, 0
	for seed := range uint64(400) {
		random := rand.New(rand.NewPCG(seed, 2))
		n := newNursery(random.IntN, false)
		for range 400 {
			n.step()
		}
		if n.conflict() != "" {
			conflicts++
		}
		if slices.ContainsFunc(n.founded, func(f *founded) bool { return f.done }) {
			done++
		}
	}
	if conflicts == 0 || done < 20 {
		t.Errorf("%d conflicts, %d runs with a founded cluster", conflicts, done)
	}
	t.Logf("%d conflicts, %d of 400 runs with a founded cluster", conflicts, done)
}
