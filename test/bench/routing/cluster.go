package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/warmring/warmring/routing"
	"github.com/warmring/warmring/routing/hot"
	"github.com/warmring/warmring/routing/prefix"
	"github.com/warmring/warmring/test/workload"
)

const (
	endpoint = "bench"
	// tableEvery is the period of the hot table, tableFirst while the cluster is younger than tableYoung.
	tableEvery, tableFirst, tableYoung = 5 * time.Second, time.Second, 10 * time.Second
	// countsMost bounds what a router tells of its sketch.
	countsMost = 1 << 16
)

// links is how routers hear of each other.
type links struct {
	gap, delay time.Duration // between two messages, and of one
}

// cluster is routers with the real routing code. Only time and messages are simulated.
type cluster struct {
	clock    *clock
	links    links
	policy   routing.Policy
	epoch    *routing.Epoch // the newest one
	backends map[string]routing.Backend
	numbers  map[string]int // of the model servers
	routers  []*router
	kv       int
	tabled   []time.Duration // when a hot table was agreed on
	err      error           // the first thing that should not be

	text  prefix.Text
	chain []uint64
}

// router is one of them.
type router struct {
	name   string
	picker *routing.Picker
	draw   *rand.Rand
}

func newCluster(c *clock, l links, p routing.Policy, routers, kv int, seed uint64) *cluster {
	out := &cluster{
		clock: c, links: l, policy: p, kv: kv, epoch: routing.NewEpoch(1, seed+1),
		backends: map[string]routing.Backend{}, numbers: map[string]int{},
	}
	for i := range routers {
		r := &router{name: "r" + strconv.Itoa(i), picker: routing.NewPicker(routing.PickerConfig{}), draw: rand.New(rand.NewPCG(seed, uint64(i)))}
		r.picker.SetReplicas(routers-1, true, l.gap+l.delay)
		out.routers = append(out.routers, r)
	}
	out.change(routing.Change{PutEndpoints: []routing.Endpoint{{
		Name: endpoint, Variants: []routing.Variant{{Name: "all", Weight: 1, Policy: p}},
	}}})
	if routers > 1 && l.gap > 0 {
		c.every(l.gap, out.exchange)
	}
	if out.auto() {
		c.after(tableFirst, out.tabulate)
	}
	return out
}

func (c *cluster) auto() bool {
	return c.policy.Strategy == routing.PrefixAware && c.policy.PrefixLength == 0
}

// fleet makes these model servers the ones that there are.
func (c *cluster) fleet(up []int) {
	var change routing.Change
	wanted := map[string]bool{}
	for _, n := range up {
		id := "s" + strconv.Itoa(n)
		wanted[id] = true
		if _, known := c.backends[id]; known {
			continue
		}
		c.numbers[id] = n
		change.PutBackends = append(change.PutBackends, routing.Backend{
			ID: id, URL: fmt.Sprintf("http://10.0.0.%d:8000", n+1), Endpoint: endpoint, Variant: "all", Weight: 1, State: routing.Active,
		})
	}
	for id := range c.backends {
		if !wanted[id] {
			change.RemoveBackends = append(change.RemoveBackends, id)
		}
	}
	c.change(change)
	clear(c.backends)
	for _, b := range c.epoch.Backends() {
		c.backends[b.ID] = b
		for _, r := range c.routers {
			r.picker.SetCapacity(b.ID, c.kv)
		}
	}
}

// change makes a new epoch, which the routers use a moment later, but from the beginning.
func (c *cluster) change(change routing.Change) {
	next, err := c.epoch.Apply(change)
	if err != nil {
		c.fail(err)
		return
	}
	c.epoch = next
	for i, r := range c.routers {
		if i == 0 || c.clock.now == 0 {
			r.picker.SetEpoch(next)
			continue
		}
		c.clock.after(c.links.delay, func() { r.picker.SetEpoch(next) })
	}
}

func (c *cluster) fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

// exchange has each router tell the others what it has on the model servers, and what it placed.
func (c *cluster) exchange() {
	now := c.clock.wall()
	told := make([]message, len(c.routers))
	for i, r := range c.routers {
		told[i].own = r.picker.Own(nil, now)
		told[i].placed = r.picker.TakePlacements(nil)
	}
	c.clock.after(c.links.delay, func() { c.hear(told) })
}

// message is what a router tells the others.
type message struct {
	own    []routing.Own
	placed []routing.Placement
}

func (c *cluster) hear(told []message) {
	now := c.clock.wall()
	for i, r := range c.routers {
		sums := make(map[string]routing.PeerLoad, len(c.backends))
		for _, b := range c.backends { // one that nobody has anything on is told too
			sums[b.ID] = routing.PeerLoad{ID: b.ID, Incarnation: b.Incarnation}
		}
		for k := range told {
			if k == i {
				continue
			}
			r.picker.HearPlacements(c.routers[k].name, told[k].placed, now)
			for _, o := range told[k].own {
				s := sums[o.ID]
				s.ID, s.Incarnation = o.ID, o.Incarnation
				s.InFlight += o.InFlight
				s.Prefill += o.Prefill
				sums[o.ID] = s
			}
		}
		list := make([]routing.PeerLoad, 0, len(sums))
		for _, s := range sums {
			list = append(list, s)
		}
		r.picker.SetPeers(list, now)
	}
}

// tabulate makes a hot table of what all routers counted, as the leader does.
func (c *cluster) tabulate() {
	period := tableEvery
	if c.clock.now < tableYoung {
		period = tableFirst
	}
	reports := make([]hot.Report, len(c.routers))
	for i, r := range c.routers {
		reports[i] = r.picker.Sketch().Report(hot.Floor(len(c.routers)), countsMost)
		r.picker.Sketch().Decay(hot.Factor(period))
	}
	var before []hot.Run
	table := c.epoch.Hot()
	if table != nil {
		before = table.Runs
	}
	made := hot.Make(before, reports, hot.Config{Servers: len(c.backends), Capacity: float64(c.kv)})
	if table == nil || !slices.Equal(made.Runs, before) {
		c.tabled = append(c.tabled, c.clock.now)
		c.change(routing.Change{Hot: &routing.HotTable{Runs: made.Runs}})
	}
	c.clock.after(period, c.tabulate)
}

// tables is how many hot tables a minute were agreed on between two times; nil without hot tables.
func (c *cluster) tables(from, to time.Duration) *float64 {
	if !c.auto() {
		return nil
	}
	n := 0
	for _, at := range c.tabled {
		if at >= from && at < to {
			n++
		}
	}
	rate := float64(n) / (to - from).Minutes()
	return &rate
}

// place maps a prompt in an epoch. It holds until the next call.
func (c *cluster) place(e *routing.Epoch, t *workload.Turn) routing.Place {
	_, most := e.TextLimit(endpoint, true)
	t.Text(&c.text, most)
	request := routing.Request{Endpoint: endpoint, Text: &c.text, Size: t.Size(), Chain: c.chain}
	pl, err := e.Map(&request)
	if err != nil {
		c.fail(err)
	}
	c.chain = request.Chain
	return pl
}

// pick has a router choose.
func (c *cluster) pick(q *call) (int, bool) {
	r := c.routers[q.router]
	pl := c.place(r.picker.Epoch(), q.turn)
	if err := r.picker.PickInto(&q.lease, &pl, nil, r.draw.Uint64(), c.clock.wall()); err != nil {
		c.fail(err)
		return 0, false
	}
	r.picker.Count(&pl, &q.lease)
	return c.numbers[q.lease.Backend.ID], q.lease.Decision == routing.DecisionOverflow
}

func (c *cluster) first(q *call) {
	q.lease.FirstToken(c.clock.wall())
	q.lease.Report(routing.Succeeded, c.clock.wall())
}

func (c *cluster) done(q *call) {
	q.lease.Learn(q.turn.Tokens, q.turn.Answer.Tokens, c.clock.wall())
	q.lease.Release()
}

// agree asks every router what it would choose, and returns how many of the pairs of them agree.
func (c *cluster) agree(t *workload.Turn) (agreed, pairs int) {
	if c.policy.Strategy != routing.PrefixAware {
		return 0, 0 // they draw lots
	}
	votes := map[string]int{}
	var pl routing.Place
	for _, r := range c.routers {
		if e := r.picker.Epoch(); pl.Epoch() != e {
			pl = c.place(e, t)
		}
		votes[c.would(r, &pl)]++
	}
	n := len(c.routers)
	for _, v := range votes {
		agreed += v * (v - 1) / 2
	}
	return agreed, n * (n - 1) / 2
}

// would is what a router would choose.
func (c *cluster) would(r *router, pl *routing.Place) string {
	if !c.auto() { // giving a pick back leaves no trace there
		l, err := r.picker.Pick(pl, nil, 0, c.clock.wall())
		if err != nil {
			c.fail(err)
			return ""
		}
		l.Release()
		return l.Backend.ID
	}
	best, low, full := "", 0.0, 0.0
	for _, x := range r.picker.Explain(pl, c.clock.wall()) {
		if x.Eligible && !x.Beyond && (best == "" || x.Cost < low || x.Cost == low && x.Filled < full) {
			best, low, full = x.Backend.ID, x.Cost, x.Filled
		}
	}
	return best
}

// home is where the newest epoch's map puts a prompt, and under which key.
func (c *cluster) home(t *workload.Turn) (key uint64, id string) {
	if c.policy.Strategy != routing.PrefixAware {
		return 0, ""
	}
	pl := c.place(c.epoch, t)
	return pl.Pin(), pl.Home()
}
