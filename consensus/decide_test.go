package consensus

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// newcomer is a view of a blank replica "a" with server s1 that expects three and sees
// blank b (s2) and c (s3).
func newcomer(change ...func(*view)) view {
	v := view{
		self: Hello{Server: "s1", Name: "a", Blank: true, Expect: 3}, name: "a", expect: 3, patience: time.Minute, known: 3,
		others: []neighbour{blankNeighbour("b", "s2"), blankNeighbour("c", "s3")},
	}
	for _, c := range change {
		c(&v)
	}
	return v
}

func blankNeighbour(name, server string) neighbour {
	return neighbour{
		Member: Member{Name: name, Server: server, Address: name + ":1", Blank: true}, answered: true,
		hello: Hello{Server: server, Name: name, Blank: true, Expect: 3, Members: []string{"s1", "s2", "s3"}},
	}
}

// widow is a view of a voter that lost its quorum for long, with b and c in the same
// position.
func widow(change ...func(*view)) view {
	v := newcomer(func(v *view) {
		v.self.Blank, v.self.Cluster, v.self.Generation, v.self.Number = false, "X", 1, 7
		v.lost, v.calm = 2*time.Minute, time.Minute
		for i := range v.others {
			h := &v.others[i].hello
			v.others[i].Blank, h.Blank, h.Cluster, h.Generation, h.Number = false, false, "X", 1, 7
		}
	})
	for _, c := range change {
		c(&v)
	}
	return v
}

func bound(i int, cluster string, generation, number uint64, quorum bool) func(*view) {
	return func(v *view) {
		h := &v.others[i].hello
		h.Blank, h.Cluster, h.Generation, h.Number, h.Quorum = false, cluster, generation, number, quorum
	}
}

// seatsOf makes the viewer believe that it has a seat, and c say who has one.
func seatsOf(servers ...string) func(*view) {
	return func(v *view) { v.seated, v.others[1].hello.Seats = true, servers }
}

func TestDecide(t *testing.T) {
	tests := []struct {
		name string
		v    view
		deed deed
		want string // in why, or cluster/generation/voters
	}{
		{"all blank, I am lowest", newcomer(), deedFound, "/1/[s1 s2 s3]"},
		{"all blank, another is lowest", newcomer(func(v *view) { v.self.Server = "s9"; v.others[0].hello.Members = nil; v.others[1].hello.Members = nil }), deedNone, "waiting for router b (server s2)"},
		{"too few", newcomer(func(v *view) { v.others = v.others[:1]; v.others[0].hello.Members = nil }), deedNone, "waiting for 3 replicas (cluster.expect), 2 seen: a, b"},
		{"one who leaves does not count", newcomer(func(v *view) { v.others[1].Leaving = true }), deedNone, "2 seen: a, b"},
		{"silence is not blank", newcomer(func(v *view) { v.others[1].answered = false }), deedNone, "an answer from router c at c:1"},
		{"other expectations", newcomer(func(v *view) { v.others[1].hello.Expect = 5 }), deedNone, "cluster.expect is 3 on router a and 5 on router c"},
		{"half of the seeds", newcomer(func(v *view) { v.seeds, v.reached = 4, 2 }), deedNone, "half of the 4 seeds (cluster.join), 2 reached"},
		{"more than half of the seeds", newcomer(func(v *view) { v.seeds, v.reached = 4, 3 }), deedFound, "/1/[s1 s2 s3]"},
		{"another sees more", newcomer(func(v *view) { v.others[0].hello.Members = []string{"s1", "s2", "s4"} }), deedNone, "server s4, which router b sees"},
		{"restarted in between", newcomer(func(v *view) { v.others[0].hello.Server = "s7" }), deedNone, "router b, which began as a new server"},
		{"more than expected: the lowest", newcomer(func(v *view) { v.others = append(v.others, blankNeighbour("d", "s0")) }), deedNone, "waiting for router d (server s0)"},
		{"a cluster lives", newcomer(bound(0, "X", 2, 9, true), bound(1, "X", 1, 4, false)), deedBind, "X/2/[]"},
		{"a cluster without quorum", newcomer(bound(0, "X", 1, 9, false)), deedBind, "X/1/[]"},
		{"a cluster being founded", newcomer(bound(0, "X", 1, 0, false)), deedNone, "cluster X, which is being founded (router b)"},
		{"two clusters", newcomer(bound(0, "X", 1, 9, true), bound(1, "Y", 1, 9, true)), deedNone, "several clusters are visible (X, Y)"},
		{"expect one", newcomer(func(v *view) { v.expect, v.others = 1, nil }), deedFound, "/1/[s1]"},

		{"quorum lost, survivors agree", widow(), deedFound, "X/2/[s1 s2 s3]"},
		{"quorum here", widow(func(v *view) { v.self.Quorum = true }), deedNone, ""},
		{"quorum there", widow(bound(0, "X", 1, 7, true)), deedNone, ""},
		{"not lost for long", widow(func(v *view) { v.lost = time.Second }), deedNone, "until a new generation is founded after 1m0s"},
		{"they see each other again", widow(func(v *view) { v.calm = time.Second }), deedNone, "have 5s to elect a leader"},
		{"never a new generation", widow(func(v *view) { v.patience = 0 }), deedNone, "changes are refused until it is back"},
		{"a minority of those known", widow(func(v *view) { v.known = 6 }), deedNone, "only 3 of 6 routers"},
		{"a newcomer is not in yet", widow(func(v *view) { v.others[0] = blankNeighbour("b", "s2") }), deedNone, "router b to join cluster X"},
		{"above the highest generation", widow(bound(1, "X", 4, 0, false)), deedFound, "X/5/[s1 s2 s3]"},
		{"superseded", widow(bound(1, "X", 3, 2, true)), deedFollow, "X/3/[]"},
		{"unseated", widow(bound(1, "X", 1, 9, true), seatsOf("s2", "s3")), deedFollow, "X/1/[]"},
		{"seated", widow(bound(1, "X", 1, 9, true), seatsOf("s1", "s3")), deedNone, ""},
		{"unseated, but it hears the leader", widow(func(v *view) { v.self.Quorum = true }, bound(1, "X", 1, 9, true), seatsOf("s2", "s3")), deedNone, ""},
		{"a later generation without quorum", widow(bound(1, "X", 3, 2, false), func(v *view) { v.lost = 0 }), deedNone, "no majority"},
		{"a foreign cluster", widow(bound(1, "Y", 3, 2, true)), deedNone, "router c to join cluster X"},
		{"founding, another cluster lives", widow(func(v *view) { v.self.Number = 0 }, bound(1, "Y", 1, 2, true)), deedFollow, "Y/1/[]"},
		{"founding has begun", widow(func(v *view) { v.self.Number, v.lost = 0, time.Second }), deedNone, "cluster X, which is being founded"},
		{"founding has failed", widow(func(v *view) { v.self.Number = 0 }), deedForget, "/0/[]"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := decide(test.v)
			text := got.why
			if got.deed != deedNone {
				text = fmt.Sprintf("%s/%d/%v", got.cluster, got.generation, got.voters)
			}
			if got.deed != test.deed || !strings.Contains(text, test.want) || (test.want == "" && text != "") {
				t.Errorf("got deed %d %q, want %d %q", got.deed, text, test.deed, test.want)
			}
		})
	}
}

func TestSeats(t *testing.T) {
	v := func(server string) holder { return holder{server: server, voter: true, alive: true} }
	dead := func(server string) holder { return holder{server: server, voter: true, silent: deadAfter} }
	gone := func(server string) holder { return holder{server: server, voter: true, silent: deadAfter - 1} }
	left := func(server string) holder { return holder{server: server, voter: true, alive: true, left: true} }
	fed := func(server string) holder { return holder{server: server, alive: true, fed: caughtUp} }
	fresh := func(server string) holder { return holder{server: server, alive: true} }
	tests := []struct {
		name    string
		expect  int
		holders []holder
		standby []string
		want    move
	}{
		{"all is well", 3, []holder{v("a"), v("b"), v("c")}, nil, move{}},
		{"three seats for four", 3, []holder{v("a"), v("b"), v("c")}, []string{"d"}, move{}},
		{"five seats for five", 3, []holder{v("a"), v("b"), v("c")}, []string{"d", "e"}, move{step: stepAdd, server: "d"}},
		{"and the fifth", 3, []holder{v("a"), v("b"), v("c"), v("d")}, []string{"e"}, move{step: stepAdd, server: "e"}},
		{"one of two votes", 1, []holder{v("a")}, []string{"b"}, move{}},
		{"grow from one", 1, []holder{v("a")}, []string{"b", "c"}, move{step: stepAdd, server: "b"}},
		{"no more than five", 3, []holder{v("a"), v("b"), v("c"), v("d"), v("e")}, []string{"f"}, move{}},
		{"wait until it is fed", 3, []holder{v("a"), v("b"), fresh("c")}, []string{"d"}, move{}},
		{"promote", 3, []holder{v("a"), v("b"), fed("c")}, nil, move{step: stepPromote, server: "c"}},
		{"one that vanished while fed", 3, []holder{v("a"), v("b"), {server: "c", fed: caughtUp}}, []string{"d"}, move{step: stepRemove, server: "c"}},
		{"not needed any more", 3, []holder{v("a"), v("b"), v("c"), fed("d")}, nil, move{step: stepRemove, server: "d"}},
		{"gone for less long", 3, []holder{v("a"), v("b"), gone("c")}, []string{"d"}, move{}},
		{"dead: first the replacement", 3, []holder{v("a"), v("b"), dead("c")}, []string{"d"}, move{step: stepAdd, server: "d"}},
		{"dead: then the removal", 3, []holder{v("a"), v("b"), dead("c"), v("d")}, nil, move{step: stepRemove, server: "c"}},
		{"dead, nobody to replace it", 3, []holder{v("a"), v("b"), dead("c")}, nil, move{}},
		{"five became four", 3, []holder{v("a"), v("b"), v("c"), v("d"), dead("e")}, nil, move{step: stepRemove, server: "e"}},
		{"five became four, five expected", 5, []holder{v("a"), v("b"), v("c"), v("d"), dead("e")}, nil, move{}},
		{"leaving, with a standby", 3, []holder{v("a"), left("b"), v("c")}, []string{"d", "e"}, move{step: stepAdd, server: "d"}},
		{"leaving, replaced", 3, []holder{v("a"), left("b"), v("c"), v("d")}, nil, move{step: stepRemove, server: "b"}},
		{"leaving, nobody to replace it", 3, []holder{v("a"), left("b"), v("c")}, nil, move{}},
		{"leaving, more than expected", 1, []holder{v("a"), left("b")}, nil, move{step: stepRemove, server: "b"}},
		{"leaving, while another one was replaced", 3, []holder{v("a"), left("b"), dead("c"), v("d")}, nil, move{step: stepRemove, server: "c"}},
		{"leaving, while another one is not replaced yet", 3, []holder{v("a"), left("b"), dead("c")}, nil, move{}},
		{"the leader is leaving", 1, []holder{left("a"), v("b")}, nil, move{}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := seats("a", test.expect, test.holders, test.standby)
			got.why = ""
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(move{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}
