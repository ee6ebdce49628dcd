package sim

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmring/warmring/test/sim/simnet"
)

// Options are how a scenario is run. The zero value suits most.
type Options struct {
	Seeds    int           // how many, from 1 on; 0: 5, or 1 with -short. SIM_SEEDS, SIM_BASE and SIM_SEED have precedence
	Most     int           // of seeds, whatever SIM_SEEDS says, for a scenario that takes long; 0: no limit
	Net      simnet.Config // zero: simnet.Default; the seed is put in
	Limit    time.Duration // of virtual time, for what waits for ever; 0: an hour
	Patience time.Duration // real time in which virtual time must move; 0: 30 s

	hooks *hooks // for tests of the harness
}

// hooks take the place of a failing test.
type hooks struct {
	failed func(text string)
	stuck  func(culprits string)
}

// over ends a scenario that failed into hooks.
type over struct{}

// Run runs f once for each seed, as parallel subtests. When all are over it logs how long each Soon took.
func Run(t *testing.T, o Options, f func(*World)) {
	t.Helper()
	seeds, err := o.seeds(t.Name())
	if err != nil {
		t.Fatal(err)
	}
	waits := newTable()
	t.Cleanup(func() { waits.print(t.Output()) })
	for _, seed := range seeds {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			o.run(t, seed, waits, f)
		})
	}
}

// run is one seed: a bubble, and the watchdog outside of it.
func (o Options) run(t *testing.T, seed uint64, waits *table, f func(*World)) {
	t.Helper()
	var p pulse
	stop := p.watch(o.patience(), o.whenStuck(t.Name()))
	defer stop()
	synctest.Test(t, func(t *testing.T) {
		p.enter()
		w := newWorld(t, o, seed, waits, &p)
		defer w.finish()
		defer func() {
			if r := recover(); r != nil && r != any(over{}) {
				panic(r)
			}
		}()
		f(w)
	})
}

// seeds are those that the environment asks for, or else the scenario. SIM_SHARD=1/2 leaves every second of them to another
// process; which ones depends on the scenario's name, so that those of one seed do not all fall to the same process.
func (o Options) seeds(scenario string) ([]uint64, error) {
	first, count, only := uint64(1), 5, false
	if o.Seeds > 0 {
		count = o.Seeds
	}
	if testing.Short() {
		count = 1
	}
	for _, v := range []struct {
		name string
		set  func(n uint64)
	}{
		{"SIM_BASE", func(n uint64) { first = n }},
		{"SIM_SEEDS", func(n uint64) { count = o.atMost(int(n)) }},
		{"SIM_SEED", func(n uint64) { first, only = n, true }},
	} {
		text := os.Getenv(v.name)
		if text == "" {
			continue
		}
		n, err := strconv.ParseUint(text, 10, 63)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", v.name, err)
		}
		v.set(n)
	}
	if only {
		return []uint64{first}, nil
	}
	shard, shards := 1, 1
	if text := os.Getenv("SIM_SHARD"); text != "" {
		if _, err := fmt.Sscanf(text, "%d/%d", &shard, &shards); err != nil || shard < 1 || shard > shards {
			return nil, fmt.Errorf("SIM_SHARD: %q is not one of several, such as 1/2", text)
		}
	}
	var out []uint64
	for i := (shard + len(scenario)) % shards; i < count; i += shards {
		out = append(out, first+uint64(i))
	}
	return out, nil
}

func (o Options) atMost(seeds int) int {
	if o.Most > 0 {
		return min(seeds, o.Most)
	}
	return seeds
}

func (o Options) patience() time.Duration {
	if o.Patience > 0 {
		return o.Patience
	}
	return 30 * time.Second
}

func (o Options) limit() time.Duration {
	if o.Limit > 0 {
		return o.Limit
	}
	return time.Hour
}

func (o Options) network(seed uint64) *simnet.Network {
	cfg := o.Net
	if cfg == (simnet.Config{}) {
		cfg = simnet.Default()
	}
	cfg.Seed = seed
	return simnet.New(cfg)
}

// whenStuck ends the process unless a test of the harness wants to know: a bubble whose time stands still cannot be left.
func (o Options) whenStuck(test string) func(string) {
	if o.hooks != nil && o.hooks.stuck != nil {
		return o.hooks.stuck
	}
	return func(culprits string) {
		panic(fmt.Sprintf("%s: virtual time stands still, because of\n\n%s", test, culprits))
	}
}

// here is this package's path as go test takes it from the module's root.
func here() string {
	dir, err := os.Getwd()
	if err != nil {
		return "."
	}
	for root := dir; root != filepath.Dir(root); root = filepath.Dir(root) {
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
			if rel, err := filepath.Rel(root, dir); err == nil {
				return "./" + filepath.ToSlash(rel)
			}
		}
	}
	return "."
}
