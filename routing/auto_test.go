package routing

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/warmring/warmring/routing/prefix"
)

// letterText makes a prompt of 256-byte chunks, one for each letter.
func letterText(letters string) *prefix.Text {
	var b []byte
	for _, c := range letters {
		b = append(b, strings.Repeat(string(c), prefix.ChunkSize)...)
	}
	return &prefix.Text{Bytes: b}
}

func (b *bench) auto(letters string) Place {
	b.Helper()
	pl, err := b.Epoch().Map(&Request{Endpoint: "demo", Text: letterText(letters)})
	if err != nil {
		b.Fatal(err)
	}
	return pl
}

func (b *bench) send(letters string) *Lease {
	b.Helper()
	pl := b.auto(letters)
	l, err := b.Pick(&pl, nil, 1, b.now)
	if err != nil {
		b.Fatal(err)
	}
	return l
}

// chunks are the hashes of a prompt.
func chunks(e *Epoch, letters string) []uint64 {
	g := e.group("demo", "AllTraffic")
	return prefix.AppendChain(nil, prefix.Root(g.root, "", ""), letterText(letters))
}

// heat makes runs hot: from the chunk at first to the one at last of the letters.
func heat(tb testing.TB, e *Epoch, runs ...hotRun) *Epoch {
	tb.Helper()
	table := &HotTable{}
	for _, r := range runs {
		c := chunks(e, r.letters)
		table.Runs = append(table.Runs, Run{First: c[r.first], Last: c[len(c)-1], Length: len(c) - r.first, Servers: r.servers})
	}
	return apply(tb, e, Change{Hot: table})
}

type hotRun struct {
	letters        string
	first, servers int
}

func TestHotPrefixesNarrow(t *testing.T) {
	e := fleet(t, 8, adaptive())
	empty := heat(t, e)
	b := newBench(t, heat(t, empty, hotRun{"s", 0, 8}, hotRun{"sab", 1, 3}, hotRun{"sabc", 3, 2}))
	for name, tt := range map[string]struct {
		letters string
		chunk   string // whose last chunk is the pin; "" for a pin of its own
		members int
		levels  int
		hot     int // bytes
	}{
		"cold":           {"xyz", "x", 8, 0, 0},
		"system prompt":  {"sxyz", "sx", 8, 1, 256},
		"tenant":         {"sabx", "sabx", 3, 2, 768},
		"document":       {"sabcd", "sabcd", 2, 3, 1024},
		"leaves midway":  {"saxx", "", 3, 2, 512},
		"ends midway":    {"sa", "", 3, 2, 512},
		"hot to its end": {"sabc", "", 2, 3, 1024},
	} {
		t.Run(name, func(t *testing.T) {
			pl := b.auto(tt.letters)
			if tt.chunk != "" && pl.Pin() != chunks(e, tt.chunk)[len(tt.chunk)-1] {
				t.Error("another pin")
			}
			members := 0
			for i := range pl.group.backends {
				if pl.contains(i) {
					members++
				}
			}
			if members != tt.members || len(pl.Levels()) != tt.levels || pl.Hot() != tt.hot || !pl.contains(pl.home) {
				t.Errorf("%d candidates, %d levels, %d bytes hot, home among them: %v", members, len(pl.Levels()), pl.Hot(), pl.contains(pl.home))
			}
			if order := pl.order(); order[0] != pl.home || len(order) != 8 {
				t.Errorf("%v, home %d", order, pl.home)
			}
		})
	}
	// Who leaves midway does not share a pin with who has another first part.
	if x, y := b.auto("saxx"), b.auto("sayy"); x.Pin() != y.Pin() {
		t.Error("those who leave one run have one pin")
	}
}

// A place that needs no more text is that of the whole text, wherever the text was cut; one that does says how much.
func TestAShortTextIsNoticed(t *testing.T) {
	empty := heat(t, fleet(t, 8, adaptive()))
	table := []hotRun{{"s", 0, 8}, {"sab", 1, 3}, {"sabccccccccccccccccccccccccccccccccccccccccccccc", 3, 2}, {"x", 0, 2}}
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(0, len(table)).Draw(rt, "runs before")
		e := heat(t, heat(t, empty, table[:n]...), table[:rapid.SampledFrom([]int{4, 3, 2, 1, 0}).Draw(rt, "runs")]...)
		run := rapid.SampledFrom(table).Draw(rt, "run").letters
		text := letterText(run[:rapid.OneOf(rapid.Just(len(run)), rapid.IntRange(0, len(run))).Draw(rt, "of it")] + rapid.StringMatching("[a-c]{0,3}").Draw(rt, "tail"))
		alike := func(a, b Place) bool {
			return a.pin == b.pin && a.before == b.before && a.level == b.level && a.hot == b.hot && a.home == b.home
		}
		place := func(size int) Place {
			r := Request{Endpoint: "demo", Text: &prefix.Text{Bytes: text.Bytes[:size], Cut: size < len(text.Bytes)}, Size: len(text.Bytes), Uncounted: true}
			pl, err := e.Map(&r)
			if err != nil {
				rt.Fatal(err)
			}
			r.Uncounted = false // so the whole chain is read
			if counted, err := e.Map(&r); err != nil || !alike(counted, pl) || counted.needs != pl.needs {
				rt.Fatalf("%+v counted, %+v not, %v", counted, pl, err)
			}
			return pl
		}
		least := min(startText, len(text.Bytes))
		if rapid.Bool().Draw(rt, "settled") {
			e.settled.Store(true)
			least = 0
		}
		few := rapid.IntRange(max(least, len(text.Bytes)-800), len(text.Bytes))
		place(few.Draw(rt, "first")) // before it is known how much a request needs
		full := place(len(text.Bytes))
		for range 8 {
			cut := place(rapid.OneOf(few, rapid.IntRange(least, len(text.Bytes))).Draw(rt, "cut"))
			if full.needs > 0 || cut.needs == 0 && !alike(cut, full) {
				rt.Fatalf("%+v cut, %+v uncut", cut, full)
			}
		}
		size, _ := e.TextLimit("demo", false)
		again := place(min(size, len(text.Bytes)))
		for range table { // a level for each reading, at most
			if again.needs == 0 {
				break
			}
			if again.needs <= size {
				rt.Fatalf("%+v of %d bytes", again, size)
			}
			size = again.needs
			again = place(min(size, len(text.Bytes)))
		}
		if again.needs > 0 || !alike(again, full) {
			rt.Fatalf("%+v of %d bytes, %+v uncut", again, size, full)
		}
	})
}

// Beyond so many a second a router counts a share of its requests, of long ones sooner.
func TestFewerAreCountedOfMany(t *testing.T) {
	b := newBench(t, fleet(t, 16, adaptive()))
	for _, tt := range []struct{ perSecond, tokens, want int }{
		{100, 0, 1000}, {500, 16000, 1000}, {5120, 0, 100}, {200, 0, 1000}, {1024, 32768, 250}, {1024, 10_000_000, 125},
	} {
		for range 60 * tt.perSecond {
			b.now = b.now.Add(time.Second / time.Duration(tt.perSecond))
			b.pick(fmt.Sprint("x:", tt.tokens)).Release()
		}
		counted := 0
		for i := range uint64(1000) {
			if b.Counts(i * (math.MaxUint64 / 1000)) {
				counted++
			}
		}
		if counted < tt.want*9/10 || counted > tt.want*11/10 {
			t.Errorf("%d requests of %d tokens a second: %d of 1,000 are counted, want %d", tt.perSecond, tt.tokens, counted, tt.want)
		}
	}
	pl, err := b.Epoch().Map(&Request{Endpoint: "demo", Text: letterText("abc"), Uncounted: true})
	if err != nil {
		t.Fatal(err)
	}
	l, err := b.Pick(&pl, nil, 1, b.now)
	if err != nil {
		t.Fatal(err)
	}
	before := b.Sketch().Stats()
	b.Count(&pl, l)
	if diff := cmp.Diff(before, b.Sketch().Stats()); diff != "" {
		t.Error(diff)
	}
}

// Every replica maps alike: a table that came as a change and one that came as an image give the same places, whatever
// was asked first.
func TestPlacesDependOnTheEpochAlone(t *testing.T) {
	e := heat(t, heat(t, fleet(t, 9, adaptive())), hotRun{"s", 0, 7}, hotRun{"sa", 1, 4}, hotRun{"sab", 2, 2})
	image, err := e.Image().Epoch()
	if err != nil {
		t.Fatal(err)
	}
	if image.Digest() != e.Digest() {
		t.Fatal("another digest")
	}
	one, two := newBench(t, e), newBench(t, image)
	texts := []string{"sabx", "sax", "sx", "x", "sab", "s"}
	for _, s := range texts {
		one.auto(s)
	}
	slices.Reverse(texts)
	for _, s := range texts {
		x, y := one.auto(s), two.auto(s)
		if x.Pin() != y.Pin() || x.Home() != y.Home() || !slices.Equal(x.order(), y.order()) {
			t.Errorf("%s: %s and %s", s, x.Home(), y.Home())
		}
	}
}

// A place is carried over into an epoch with another fleet through the levels that both have.
func TestPlaceKeepsItsLevels(t *testing.T) {
	e := heat(t, heat(t, fleet(t, 8, adaptive())), hotRun{"sa", 0, 4})
	b := newBench(t, e)
	pl := b.auto("sax")
	smaller := apply(t, e, Change{RemoveBackends: []string{pl.Home()}})
	moved := pl.in(smaller)
	again, err := smaller.Map(&Request{Endpoint: "demo", Text: letterText("sax")})
	if err != nil {
		t.Fatal(err)
	}
	if moved.Home() != again.Home() || !slices.Equal(moved.order(), again.order()) {
		t.Errorf("carried over: %s, mapped anew: %s", moved.Home(), again.Home())
	}
	if cold := pl.in(apply(t, e, Change{Hot: &HotTable{}})); cold.level != nil || cold.Home() == "" {
		t.Errorf("%+v", cold)
	}
}

func TestAWarmServerIsPreferred(t *testing.T) {
	b := newBench(t, heat(t, fleet(t, 6, adaptive())))
	long := strings.Repeat("d", 200) // 12,800 tokens
	first := b.send(long)
	first.FirstToken(b.now)
	for i := range 10 {
		l := b.send(long)
		if l.Backend.ID != first.Backend.ID {
			t.Fatalf("request %d went to %s, %s holds it", i, l.Backend.ID, first.Backend.ID)
		}
		if l.Decision != DecisionHome && l.Decision != DecisionPlaced {
			t.Errorf("decision %s", l.Decision)
		}
		l.FirstToken(b.now)
	}
}

// A cold prompt goes to the least loaded of the first four of its ranking.
func TestFirstTouch(t *testing.T) {
	b := newBench(t, heat(t, fleet(t, 12, adaptive())))
	for i := range 200 {
		letters := string(rune(0x100 + i))
		pl := b.auto(letters)
		l := b.send(letters)
		rank := slices.IndexFunc(pl.Ranking(), func(s Backend) bool { return s.ID == l.Backend.ID })
		if rank > 3 {
			t.Fatalf("rank %d", rank)
		}
	}
	mean := 200.0 / 12
	for _, l := range b.Snapshot(b.now) {
		if math.Abs(float64(l.InFlight)-mean) > 3 {
			t.Errorf("%s has %d of 200", l.Backend.ID, l.InFlight)
		}
	}
	// The more others send unseen, the fewer it looks at.
	b.SetReplicas(30, true, time.Second)
	if c, err := b.choice(new(b.auto("zz")), nil, 0, b.clock(b.now)); err != nil || c.warm.first != 2 {
		t.Errorf("%d, %v", c.warm.first, err)
	}
}

// Of idle model servers a cold prompt goes to the one that wrote least to its cache, so that none evicts what it holds while
// another has room.
func TestColdPromptsFillTheEmptiestCache(t *testing.T) {
	b := newBench(t, heat(t, fleet(t, 4, adaptive())))
	at := map[string]int{}
	for i := range 20 {
		at[b.finish(string(rune('A'+i))+strings.Repeat("d", 50))]++
	}
	for id, n := range at {
		if n != 5 {
			t.Errorf("%s was sent %d of 20", id, n)
		}
	}
}

// A prompt that became hot stays where it is held while that has nothing else to do; a copy is made once it has.
func TestAHotPromptIsCopiedForLoad(t *testing.T) {
	hot := strings.Repeat("d", 50)
	for i := range 20 {
		b := newBench(t, heat(t, fleet(t, 6, adaptive())))
		b.send(string(rune('A' + i))) // wherever: it keeps its server busy
		holder := b.finish(hot)
		b.SetEpoch(heat(t, b.Epoch(), hotRun{hot, 0, 3}))
		for q := range 10 {
			if at := b.finish(hot + string(rune('a'+q))); at != holder {
				t.Fatalf("question %d went to %s, which was not sent the prompt; %s was", q, at, holder)
			}
		}
		used := map[string]bool{}
		for q := range 30 {
			l := b.send(hot + string(rune('A'+q)))
			used[l.Backend.ID] = true
		}
		if len(used) < 3 {
			t.Errorf("30 requests at once went to %v", used)
		}
	}
}

// Chats that begin alike, one after the other, begin on all servers in the end: where the prompt is held the cache fills.
func TestChatsEvenOutTheCaches(t *testing.T) {
	system := strings.Repeat("s", 20)
	b := newBench(t, heat(t, fleet(t, 4, adaptive())))
	b.finish(system)
	b.SetEpoch(heat(t, b.Epoch(), hotRun{system, 0, 4}))
	at := map[string]int{}
	for i := range 100 {
		at[b.finish(system+strings.Repeat(string(rune(0x100+i)), 20))]++
	}
	for _, server := range b.Snapshot(b.now) {
		if n := at[server.Backend.ID]; n < 10 {
			t.Errorf("%s has %d of 100 chats: %v", server.Backend.ID, n, at)
		}
	}
}

// A hot prompt stays where it is held also when its run is divided.
func TestADividedRunIsHeldByWhoHeldIt(t *testing.T) {
	hot := strings.Repeat("d", 50)
	for i := range 20 {
		b := newBench(t, heat(t, fleet(t, 6, adaptive())))
		b.send(string(rune('A' + i)))
		holder := b.finish(hot)
		b.SetEpoch(heat(t, b.Epoch(), hotRun{hot, 0, 3}))
		b.finish(hot + "a")
		b.SetEpoch(heat(t, b.Epoch(), hotRun{hot[:10], 0, 4}, hotRun{hot, 10, 3}))
		for q := range 10 {
			if at := b.finish(hot + string(rune('b'+q))); at != holder {
				t.Fatalf("question %d went to %s, which was not sent the prompt; %s was", q, at, holder)
			}
		}
	}
}

// A server that shares the last hot level but was not sent it yet holds what is before that.
func TestWhatIsAboveAHotLevelIsHeld(t *testing.T) {
	b := newBench(t, heat(t, fleet(t, 8, adaptive())))
	system, document := strings.Repeat("s", 20), strings.Repeat("d", 20)
	b.SetEpoch(heat(t, b.Epoch(), hotRun{system, 0, 6}, hotRun{system + document, 20, 3}))
	holder := b.finish(system + document + "q")
	pl := b.auto(system + document + "r")
	shares := 0
	for _, c := range b.Explain(&pl, b.now) {
		want := 0
		switch {
		case c.Backend.ID == holder:
			continue
		case c.Hot:
			shares++
			want = 20 * 64
		}
		if c.Have != want {
			t.Errorf("%s is taken to hold %d tokens, want %d: %+v", c.Backend.ID, c.Have, want, c)
		}
	}
	if shares < 2 {
		t.Errorf("%d share the level without holding it", shares)
	}
}

// What was placed counts as long as the model server has not written over it.
func TestPlacementsAreForgottenWithTheCache(t *testing.T) {
	b := newBench(t, heat(t, fleet(t, 1, adaptive())))
	b.SetCapacity("gpu-0", 10_000)
	b.send(strings.Repeat("d", 60)).Release() // 3,840 tokens
	have := func() int {
		pl := b.auto(strings.Repeat("d", 60))
		return b.Explain(&pl, b.now)[0].Have
	}
	if have() != 3840 {
		t.Fatalf("%d", have())
	}
	b.send(strings.Repeat("e", 80)).Release() // 5,120
	if have() != 3840 {
		t.Errorf("forgotten after half of the cache: %d", have())
	}
	b.send(strings.Repeat("f", 80)).Release()
	if have() != 0 {
		t.Errorf("still believed to be held: %d", have())
	}
}

// What another replica placed is known here, clocks included, however often it is told.
func TestPlacementsOfOthers(t *testing.T) {
	e := heat(t, fleet(t, 5, adaptive()))
	one, two := newBench(t, e), newBench(t, e)
	one.SetReplicas(1, true, 0)
	two.SetReplicas(1, true, 0)
	long := strings.Repeat("d", 100)
	l := one.send(long)
	l.FirstToken(one.now)
	told := one.TakePlacements(nil)
	if len(told) != 1 || told[0].ID != l.Backend.ID || told[0].Depth != 6400 || told[0].Written != 6400 {
		t.Fatalf("%+v", told)
	}
	for range 3 {
		two.HearPlacements("one", told, two.now)
	}
	if got := two.send(long); got.Backend.ID != l.Backend.ID || got.writes != 0 {
		t.Errorf("%s, %d tokens to write", got.Backend.ID, got.writes)
	}
	if got := two.loads[l.Backend.identity()].clock; got.heard != 6400 {
		t.Errorf("%+v", got)
	}
	// What is heard of an earlier turn does not make the prompt shorter.
	two.HearPlacements("three", []Placement{{Pin: told[0].Pin, ID: told[0].ID, Incarnation: told[0].Incarnation, Depth: 100, Written: 100}}, two.now)
	again := two.auto(long)
	if c, err := two.choice(&again, nil, 0, two.clock(two.now)); err != nil || c.have(slices.Index(c.loads, two.loads[l.Backend.identity()])) != 6400 {
		t.Errorf("shorter than it was, %v", err)
	}
	// A repeat is not told again; its clock is.
	one.send(long)
	if again := one.TakePlacements(nil); len(again) != 0 {
		t.Errorf("%+v", again)
	}
	two.HearPlacements("one", []Placement{{Pin: 1, ID: "nobody", Depth: 5, Written: 5}}, two.now)
	// Without all placements the home is trusted.
	two.SetReplicas(1, false, 0)
	pl := two.auto("new")
	if c := two.Explain(&pl, two.now); c[0].Have != pl.Tokens() || c[1].Have != 0 {
		t.Errorf("%+v", c[:2])
	}
}

// A prompt that grows in steps too small to be news is told all the same once they add up.
func TestSmallStepsAreTold(t *testing.T) {
	b := newBench(t, heat(t, fleet(t, 5, adaptive())))
	b.SetReplicas(1, true, 0)
	told := 0
	for n := 100; n < 200; n += 5 {
		b.finish(strings.Repeat("d", n))
		for _, p := range b.TakePlacements(nil) {
			if p.Pin != 0 {
				told = p.Depth
			}
		}
		if depth := 64 * n; depth-told > told/8 {
			t.Fatalf("%d tokens, and the others know of %d", depth, told)
		}
	}
}

// A pin that the table before this one had leads to what it placed.
func TestPinsOfTheTableBefore(t *testing.T) {
	b := newBench(t, heat(t, fleet(t, 6, adaptive())))
	long := "s" + strings.Repeat("d", 100)
	l := b.send(long)
	l.FirstToken(b.now)
	b.SetEpoch(heat(t, b.Epoch(), hotRun{"s", 0, 6}))
	pl := b.auto(long)
	if pl.Pin() == l.pin {
		t.Fatal("the table does not move the pin")
	}
	if got := b.send(long); got.Backend.ID != l.Backend.ID {
		t.Errorf("%s, but %s holds it", got.Backend.ID, l.Backend.ID)
	}
}

// newcomer is a bench with n model servers of which gpu-n joined last, and prompts sent before that whose home it is.
func newcomer(t *testing.T, n, prompts int) (*bench, []string) {
	t.Helper()
	b := newBench(t, heat(t, fleet(t, n, adaptive())))
	bigger := apply(t, b.Epoch(), Change{PutBackends: []Backend{backend(n)}})
	id := backend(n).ID
	var out []string
	for i := 0; len(out) < prompts; i++ {
		text := fmt.Sprintf("%c", rune('A'+i)) + strings.Repeat("d", 50)
		pl, err := bigger.Map(&Request{Endpoint: "demo", Text: letterText(text)})
		if err != nil {
			t.Fatal(err)
		}
		if pl.Home() == id {
			b.finish(text)
			out = append(out, text)
		}
	}
	b.SetEpoch(bigger)
	return b, out
}

// finish sends a prompt and has it answered.
func (b *bench) finish(letters string) string {
	l := b.send(letters)
	l.FirstToken(b.now)
	l.Release()
	return l.Backend.ID
}

// A model server that joins takes over its pins while it has nothing to do, and then is preferred to who held them before.
func TestPinsMoveToANewHome(t *testing.T) {
	b, prompts := newcomer(t, 4, 2)
	l := b.send(prompts[0])
	if l.Backend.ID != "gpu-4" || l.Decision != DecisionHome {
		t.Errorf("%s, %s", l.Backend.ID, l.Decision)
	}
	if got := b.finish(prompts[1]); got == "gpu-4" {
		t.Error("a second pin moves while the first is processed")
	}
	l.FirstToken(b.now)
	if got := b.finish(prompts[0]); got != "gpu-4" {
		t.Errorf("%s, though the home holds it and has only decoding to do", got)
	}
	for range 2 { // a chance that was missed is not the last
		if got := b.finish(prompts[1]); got != "gpu-4" {
			t.Errorf("%s", got)
		}
	}
}

// While the new home is busy, who held its pins before serves them; what others placed counts alike.
func TestABusyNewHomeLeavesPinsWhereTheyWere(t *testing.T) {
	b, prompts := newcomer(t, 4, 1)
	b.SetReplicas(1, true, 0)
	b.SetPeers([]PeerLoad{{ID: "gpu-4", Incarnation: b.load("gpu-4").Backend.Incarnation, Prefill: 5000, InFlight: 1}}, b.now)
	before := b.finish(prompts[0])
	if before == "gpu-4" {
		t.Fatal("moved to a busy server")
	}
	pl := b.auto(prompts[0])
	told := Placement{Pin: pl.Pin(), ID: "gpu-4", Incarnation: b.load("gpu-4").Backend.Incarnation, Depth: 3000, Written: 3000}
	b.HearPlacements("other", []Placement{told}, b.now)
	if got := b.finish(prompts[0]); got != before {
		t.Errorf("%s, though the home is busy and %s holds the prompt", got, before)
	}
	b.SetPeers([]PeerLoad{{ID: "gpu-4", Incarnation: told.Incarnation}}, b.now)
	if got := b.finish(prompts[0]); got != "gpu-4" {
		t.Errorf("%s", got)
	}
}

// The more of the fleet is new, the smaller the part of the requests that move their pins.
func TestFewPinsMoveAtOnceInAFleetThatGrew(t *testing.T) {
	for _, tt := range []struct {
		joined int
		share  float64
	}{{1, 1}, {4, 0.5}, {12, 1.0 / 3}} {
		b, prompts := newcomer(t, 4, 1)
		for i := 1; i < tt.joined; i++ { // weighing next to nothing they take no pin
			extra := backend(4 + i)
			extra.Weight = 1e-6
			b.SetEpoch(apply(t, b.Epoch(), Change{PutBackends: []Backend{extra}}))
		}
		pl, moved := b.auto(prompts[0]), 0.0
		for i := range 1000 {
			c, err := b.choice(&pl, nil, uint64(i)*(math.MaxUint64/1000), b.clock(b.now))
			if err != nil {
				t.Fatal(err)
			}
			if c.succeeds() {
				moved++
			}
		}
		if got := b.finish(prompts[0]); got != "gpu-4" {
			t.Fatal(got)
		}
		if c, err := b.choice(&pl, nil, math.MaxUint64, b.clock(b.now)); err != nil || !c.succeeds() {
			t.Errorf("%d joined 4: a pin that moved goes back, %v", tt.joined, err)
		}
		if math.Abs(moved/1000-tt.share) > 0.01 {
			t.Errorf("%d joined 4: %.3f of the requests move, want %.3f", tt.joined, moved/1000, tt.share)
		}
	}
}

// A stalled server is out of the running as soon as its first token is overdue, and a slow one is seen to be slow.
func TestPaceAndLateness(t *testing.T) {
	b := newBench(t, heat(t, fleet(t, 3, adaptive())))
	speed := map[string]float64{"gpu-0": 1, "gpu-1": 1, "gpu-2": 4}
	for i := range 900 {
		l := b.send(fmt.Sprintf("%c%c", rune('A'+i%60), rune(0x100+i/60)))
		b.now = b.now.Add(time.Duration(1e6 * speed[l.Backend.ID] * (10 + l.ahead/100)))
		l.FirstToken(b.now)
		l.Release()
	}
	pl := b.auto("other")
	got := map[string]float64{}
	for _, c := range b.Explain(&pl, b.now) {
		got[c.Backend.ID] = c.Pace
	}
	if got["gpu-2"] < 1.5*got["gpu-0"] || got["gpu-0"] != got["gpu-1"] && math.Abs(got["gpu-0"]-got["gpu-1"]) > 0.2 {
		t.Errorf("%v", got)
	}
	long := strings.Repeat("L", 100)
	stuck := b.send(long)
	b.now = b.now.Add(30 * time.Second)
	if l := b.send(long); l.Backend.ID == stuck.Backend.ID {
		t.Error("a request follows one that has been waiting for 30 s")
	}
}

// A request that waits is not late while work that came after it explains the wait.
func TestWorkThatCameLaterExplainsAWait(t *testing.T) {
	b := newBench(t, heat(t, fleet(t, 1, adaptive())))
	b.SetReplicas(1, true, 0)
	for i := range 50 {
		l := b.send(fmt.Sprintf("%c", rune('A'+i)) + strings.Repeat("p", i))
		b.now = b.now.Add(time.Duration(l.ahead) * 100 * time.Microsecond)
		l.FirstToken(b.now)
		l.Release()
	}
	b.send("z") // 64 tokens, 6.4 ms
	late := func() float64 {
		pl := b.auto("z")
		return b.Explain(&pl, b.now)[0].Late
	}
	b.now = b.now.Add(100 * time.Millisecond)
	if late() < 10 {
		t.Errorf("late %v after 100 ms instead of 6", late())
	}
	b.SetPeers([]PeerLoad{{ID: "gpu-0", Incarnation: b.load("gpu-0").Backend.Incarnation, Prefill: 1000}}, b.now)
	if late() != 1 {
		t.Errorf("late %v, though 1,000 tokens came in between", late())
	}
	b.now = b.now.Add(time.Second)
	if late() < 5 {
		t.Errorf("late %v after 1.1 s with work for 0.1", late())
	}
}

// The work of a request whose first token cannot be seen is taken off when it should be done.
func TestUnaryWorkDrains(t *testing.T) {
	b := newBench(t, heat(t, fleet(t, 1, adaptive())))
	pl := func() Place {
		p, err := b.Epoch().Map(&Request{Endpoint: "demo", Text: letterText(strings.Repeat("u", 100)), Unary: true})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	place := pl()
	l, err := b.Pick(&place, nil, 1, b.now)
	if err != nil {
		t.Fatal(err)
	}
	b.now = b.now.Add(time.Hour)
	if b.auto("x"); b.load("gpu-0").Prefill == 0 {
		t.Error("taken off though nothing was learnt")
	}
	l.Release()
	for i := range 20 {
		s := b.send(fmt.Sprintf("%c", rune('A'+i)))
		b.now = b.now.Add(50 * time.Millisecond)
		s.FirstToken(b.now)
		s.Release()
	}
	place = pl()
	if l, err = b.Pick(&place, nil, 1, b.now); err != nil {
		t.Fatal(err)
	}
	b.now = b.now.Add(time.Minute)
	b.send("x").Release()
	if got := b.load("gpu-0"); got.Prefill != 0 || got.InFlight != 1 {
		t.Errorf("%+v", got)
	}
	l.Release()
	b.atRest()
}

// Tokens are as long as the answers say.
func TestLearntTokens(t *testing.T) {
	b := newBench(t, heat(t, fleet(t, 2, adaptive())))
	for i := range 50 {
		l := b.send(fmt.Sprintf("%cx", rune('A'+i)))
		l.Learn(256, 10, b.now) // 512 bytes: two a token
		l.Release()
	}
	pl := b.auto("yyyy")
	if n := b.PromptTokens(&pl); n != 512 {
		t.Errorf("%d tokens of 1,024 bytes", n)
	}
	l := b.send("zz")
	l.Learn(256, 100, b.now)
	depth := 0
	for _, at := range b.directory.get(l.pin) {
		depth = max(depth, int(at.depth))
	}
	if depth != 356 {
		t.Errorf("depth %d after an answer of 100 tokens", depth)
	}
	l.Learn(-1, 5, b.now)
	l.Learn(1, -5, b.now)
	l.Learn(math.MaxInt, 1, b.now)
	l.Learn(maxPromptTokens, 1, b.now)
	if n := b.PromptTokens(&pl); n < 400 || n > 600 {
		t.Errorf("%d tokens of 1,024 bytes after an absurd answer", n)
	}
	for range 2000 { // pictures: few tokens of many bytes
		l.Learn(1, 1, b.now)
	}
	if n := b.PromptTokens(&pl); n != 2 {
		t.Errorf("%d tokens of 1,024 bytes, want those that the answers told", n)
	}
}

// The directory is a bounded LRU: the model of it is a list.
func TestDirectory(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var d directory
		d.init(8)
		var model []uint64 // the latest last
		rt.Repeat(map[string]func(*rapid.T){
			"put": func(rt *rapid.T) {
				pin := rapid.Uint64Range(1, 20).Draw(rt, "pin")
				d.put(pin, place{load: rapid.Uint32Range(1, 9).Draw(rt, "load"), depth: 1})
				model = append(slices.DeleteFunc(model, func(p uint64) bool { return p == pin }), pin)
				model = model[max(0, len(model)-8):]
			},
			"": func(rt *rapid.T) {
				if len(d.pins) != len(model) || len(d.slots) > 8 {
					rt.Fatalf("%d pins, want %d", len(d.pins), len(model))
				}
				for _, pin := range model {
					if at := d.get(pin); len(at) == 0 || len(at) > placesOfPin {
						rt.Fatalf("pin %d: %v", pin, at)
					}
				}
			},
		})
	})
}

// What was placed on a model server that was restarted since is void, and what is placed from then on counts.
func TestRestartedServer(t *testing.T) {
	b := newBench(t, fleet(t, 1, Policy{Strategy: PrefixAware}))
	placed := func() int {
		pl := b.auto("abcdef")
		return b.Explain(&pl, b.now)[0].Placed
	}
	backend := b.Epoch().Backends()[0]
	for _, tt := range []struct {
		name      string
		is        Life
		restarted bool
	}{
		{"first", Life{0, 1000}, false},
		{"more", Life{0, 1001}, false},
		{"nothing told", Life{}, false},
		{"fewer", Life{0, 12}, true},
		{"more after that", Life{0, 13}, false},
		{"with a start", Life{100, 14}, false},
		{"same start", Life{100, 3}, false},
		{"later start", Life{101.5, 500}, true},
		{"earlier start", Life{100, 1}, false}, // two behind one address, or a clock that was set
	} {
		b.send("abcdef").Release()
		if placed() == 0 {
			t.Fatalf("%s: it is placed nowhere", tt.name)
		}
		lease := b.send("abcdef")
		if got := b.SetLife(backend.ID, backend.Incarnation, tt.is); got != tt.restarted {
			t.Errorf("%s: restarted: %t", tt.name, got)
		}
		if n := placed(); (n == 0) != tt.restarted {
			t.Errorf("%s: %d tokens are taken for cached", tt.name, n)
		}
		lease.Learn(400, 5, b.now) // it was answered, so it is there
		lease.Release()
		if placed() == 0 {
			t.Errorf("%s: the answer was not placed", tt.name)
		}
	}
	if b.SetLife(backend.ID, backend.Incarnation+1, Life{200, 1}) || b.SetLife("who", 1, Life{200, 1}) {
		t.Error("somebody was restarted who is not there")
	}
}

// Once no pin of the time before the first table is looked up any more, no more text is read than the table needs.
func TestLessIsReadOnceSettled(t *testing.T) {
	b := newBench(t, fleet(t, 3, adaptive()))
	b.send("before")
	b.SetEpoch(heat(t, b.Epoch()))
	for _, tt := range []struct {
		after time.Duration
		want  int
	}{{0, startText}, {settling - time.Second, startText}, {time.Second, fewChunks * prefix.ChunkSize}} {
		b.now = b.now.Add(tt.after)
		b.send("abcd")
		if usual, _ := b.Epoch().TextLimit("demo", false); usual != tt.want {
			t.Errorf("%v later %d bytes are read, want %d", tt.after, usual, tt.want)
		}
	}
	deep := strings.Repeat("s", 20)
	b.SetEpoch(heat(t, b.Epoch(), hotRun{deep, 0, 2}))
	b.send(deep)
	if usual, _ := b.Epoch().TextLimit("demo", false); usual != manyChunks*prefix.ChunkSize {
		t.Errorf("%d bytes are read at first of a prompt of which 20 chunks are hot", usual)
	}
}
