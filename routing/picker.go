package routing

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmring/warmring/routing/hot"
)

// PickerConfig sets how a replica ejects model servers. Zero values are defaults.
type PickerConfig struct {
	// Ejection is how long the first ejection lasts (5 s); each further one without
	// a success between them lasts twice as long, up to EjectionMax (5 min).
	Ejection, EjectionMax time.Duration
	// Failures is how many failures in a row eject (3).
	Failures int
}

// Picker holds this replica's view and chooses in it. It is safe for concurrent
// use.
type Picker struct {
	cfg   PickerConfig
	epoch atomic.Pointer[Epoch] // written under mu

	mu    sync.Mutex         // guards what follows, every load and every lease
	start time.Time          // the first time that was passed in
	loads map[identity]*load // all that is in the fleet or carries requests
	named map[name]*load     // those that are in the fleet
	pools []pool             // by group.ordinal of the epoch

	directory directory
	lessons   map[string]*lesson // by endpoint
	capacity  map[string]int     // KV capacity of model servers in tokens, by id
	origins   map[string]*origin // what was heard of the other replicas' placements
	placed    []Placement        // to be told
	synced    bool               // all other replicas' placements arrive
	others    int                // replicas beside this one
	age       time.Duration      // of what is known of the others
	rate      rate               // of own picks with `auto`
	burst     rate               // the same, of a shorter time
	fleet     uint32             // counts epochs
	decisions uint64
	latest    time.Duration // of the decisions with `auto`
	tabled    time.Duration // when the first hot table was put in use; 0: not yet

	sketch  *hot.Sketch   // has a lock of its own
	counted atomic.Uint64 // what draws may be at most for a request to be counted

	changed chan struct{} // holds one; nil until somebody listens
	dirty   []*load       // changed since TakeChanged
	told    []*load       // of which TakeChanged said that they succeeded
	review  bool          // rumours have to be weighed again
}

// NewPicker returns a picker with an epoch without a fleet.
func NewPicker(cfg PickerConfig) *Picker {
	if cfg.Ejection <= 0 {
		cfg.Ejection = defaultEjection
	}
	if cfg.EjectionMax <= 0 {
		cfg.EjectionMax = defaultEjectionMax
	}
	if cfg.Failures <= 0 {
		cfg.Failures = defaultFailures
	}
	p := &Picker{
		cfg: cfg, loads: map[identity]*load{}, lessons: map[string]*lesson{}, capacity: map[string]int{}, origins: map[string]*origin{},
		synced: true, rate: rate{window: 10 * time.Second}, burst: rate{window: time.Second}, sketch: hot.NewSketch(leastCounters),
	}
	p.directory.init(leastPins)
	p.counted.Store(math.MaxUint64)
	p.epoch.Store(NewEpoch(0, 0))
	return p
}

// Epoch is the epoch in use.
func (p *Picker) Epoch() *Epoch { return p.epoch.Load() }

// SetEpoch puts an epoch in use; one that is older than the present one is
// ignored. Counts of model servers that remain are kept.
func (p *Picker) SetEpoch(e *Epoch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e.Compare(p.epoch.Load()) < 0 {
		return
	}
	p.adopt(e)
}

// Pick chooses a model server and reserves a slot on it in one step. tried are
// the ids that failed this request already; draw is a random number, which
// settles what is left to chance. A place from an epoch that has been replaced is
// carried over to the present one, so that no server is chosen after its drain
// began. The errors are ErrNoBackend and ErrSaturated.
func (p *Picker) Pick(pl *Place, tried []string, draw uint64, now time.Time) (*Lease, error) {
	l := new(Lease)
	if err := p.PickInto(l, pl, tried, draw, now); err != nil {
		return nil, err
	}
	return l, nil
}

// PickInto is Pick with memory of the caller's: a lease that has been released,
// or was never given. On an error it is left as it was.
func (p *Picker) PickInto(l *Lease, pl *Place, tried []string, draw uint64, now time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	c, err := p.choice(pl, tried, draw, p.clock(now))
	if err != nil {
		return err
	}
	i, err := c.choose()
	if err != nil {
		return err
	}
	p.reserve(l, &c, i)
	return nil
}

func (p *Picker) reserve(l *Lease, c *choice, i int) {
	ld := c.loads[i]
	*l = Lease{
		Backend: *ld.backend, Epoch: c.place.epoch, Home: c.place.Home(), Decision: c.decision(i),
		picker: p, load: ld, prefill: c.charge(i), successes: ld.successes, size: c.place.size,
	}
	if c.form() == auto {
		p.place(l, c, i)
	}
	ld.picks++
	ld.inflight++
	ld.prefill += l.prefill
	l.number = ld.picks
	if ld.ejections > 0 || ld.rumoured {
		ld.probe = l.number
	}
	p.touch(ld)
}

// clock returns the time since the first call, which is above 0 from then on. It
// is monotonic where now is, and one word.
func (p *Picker) clock(now time.Time) time.Duration {
	if p.start.IsZero() {
		p.start = now.Add(-1)
	}
	return now.Sub(p.start)
}
