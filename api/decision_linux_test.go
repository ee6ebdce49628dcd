package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/warmring/warmring/api/openai"
	"github.com/warmring/warmring/routing"
)

// crowded is a router that has all to look at that it can have: requests on every model server, and a hot table and a
// directory with room for nothing more.
type crowded struct {
	picker  *routing.Picker
	scanner openai.Scanner
	lease   routing.Lease
	chain   []uint64
	bodies  [][]byte
	mark    int // place of a number in a body that makes a new document of it
	draw    *rand.Rand
	now     time.Time
	err     error // the last one
}

// known is the number in the documents that come again and again.
const known = "00000000"

func newCrowded(b *testing.B, servers, size int) *crowded {
	b.Helper()
	f := &crowded{picker: routing.NewPicker(routing.PickerConfig{}), draw: rand.New(rand.NewPCG(1, 1)), now: time.Now()}
	change := routing.Change{PutEndpoints: []routing.Endpoint{{Name: "llama", Variants: []routing.Variant{
		{Name: "blue", Weight: 1, Policy: routing.Policy{Strategy: routing.PrefixAware}},
	}}}}
	for i := range servers {
		change.PutBackends = append(change.PutBackends, routing.Backend{
			ID: fmt.Sprintf("gpu-%d", i), URL: fmt.Sprintf("http://10.0.%d.%d:8000", i/256, i%256),
			Endpoint: "llama", Variant: "blue", Weight: 1, State: routing.Active,
		})
	}
	epoch, err := routing.NewEpoch(1, 42).Apply(change)
	if err != nil {
		b.Fatal(err)
	}
	for i := range 256 {
		f.bodies = append(f.bodies, question(size, i))
	}
	f.mark = bytes.Index(f.bodies[0], []byte(known))
	f.picker.SetEpoch(epoch)
	if epoch, err = epoch.Apply(routing.Change{Hot: f.table(servers)}); err != nil {
		b.Fatal(err)
	}
	f.picker.SetEpoch(epoch)
	f.burden(epoch)
	for i := range f.bodies {
		f.decide(i)
	}
	return f
}

// question is a chat of about size bytes: a system prompt that all have, then a document.
func question(size, document int) []byte {
	prose := strings.Repeat("Nobody noticed until the morning. ", size/68)
	system, _ := json.Marshal("You answer questions. " + prose)
	user, _ := json.Marshal(fmt.Sprintf("%s Document %d: %s", known, document, prose))
	return fmt.Appendf(nil, `{"model":"llama","messages":[{"role":"system","content":%s},{"role":"user","content":%s}],"stream":true}`, system, user)
}

// decide places a body, and gives the place back.
func (f *crowded) decide(i int) {
	if err := decide(&f.scanner, f.picker, &f.lease, &f.chain, f.bodies[i], f.now); err != nil {
		f.err = err
		return
	}
	f.lease.Release()
}

// table is the system prompt, every second document, and as many others as there may be.
func (f *crowded) table(servers int) *routing.HotTable {
	f.decide(0)
	first := slices.Clone(f.chain)
	t := &routing.HotTable{}
	for i := 1; i < len(f.bodies) && len(t.Runs) < 4*servers; i += 2 {
		f.decide(i)
		shared := 0
		for f.chain[shared] == first[shared] {
			shared++
		}
		if i == 1 {
			t.Runs = append(t.Runs, routing.Run{First: first[0], Last: first[shared-1], Length: shared, Servers: servers})
		}
		t.Runs = append(t.Runs, routing.Run{First: f.chain[shared], Last: f.chain[len(f.chain)-2], Length: len(f.chain) - 1 - shared, Servers: min(2+i%4, servers)})
	}
	for len(t.Runs) < max(64, 8*servers) {
		t.Runs = append(t.Runs, routing.Run{First: f.draw.Uint64(), Last: f.draw.Uint64(), Length: 2, Servers: 2})
	}
	return t
}

// burden puts other routers' requests on the model servers, and their prompts into the directory.
func (f *crowded) burden(e *routing.Epoch) {
	var sums []routing.PeerLoad
	var placed []routing.Placement
	backends := e.Backends()
	for _, s := range backends {
		sums = append(sums, routing.PeerLoad{ID: s.ID, Incarnation: s.Incarnation, InFlight: 1 + f.draw.IntN(8), Prefill: f.draw.Int64N(20_000)})
	}
	for range max(1<<14, 2048*len(backends)) {
		s := &backends[f.draw.IntN(len(backends))]
		placed = append(placed, routing.Placement{Pin: f.draw.Uint64(), ID: s.ID, Incarnation: s.Incarnation, Depth: 2000})
	}
	f.picker.SetReplicas(2, true, 100*time.Millisecond)
	f.picker.SetPeers(sums, f.now)
	f.picker.HearPlacements("peer", placed, f.now)
}

// BenchmarkCrowdedDecision is a decision as in BenchmarkDecision where there is most to look at. Three of four prompts are
// known, half of those by the hot table; the fourth nobody has seen. Each decision is timed, the release included, and
// none is left out: by the wall clock, and by the processor time of its thread, which other processes do not lengthen.
func BenchmarkCrowdedDecision(b *testing.B) {
	for _, servers := range []int{7, 1000} {
		for _, kib := range []int{4, 32} {
			b.Run(fmt.Sprintf("%d/%dK", servers, kib), func(b *testing.B) { newCrowded(b, servers, kib<<10).measure(b) })
		}
	}
}

func (f *crowded) measure(b *testing.B) {
	b.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	wall, cpu := make([]time.Duration, 0, 1<<20), make([]time.Duration, 0, 1<<20)
	b.ReportAllocs()
	for b.Loop() {
		i := f.draw.IntN(len(f.bodies))
		if len(wall)%4 == 0 {
			copy(f.bodies[i][f.mark:], fmt.Sprintf("%08d", 1+len(wall)))
		}
		start, used := time.Now(), f.processorTime()
		f.decide(i)
		cpu = append(cpu, f.processorTime()-used)
		wall = append(wall, time.Since(start))
		copy(f.bodies[i][f.mark:], known)
	}
	if f.err != nil {
		b.Fatal(f.err)
	}
	slices.Sort(wall)
	slices.Sort(cpu)
	for name, share := range map[string]float64{"p50": 0.5, "p99": 0.99} {
		at := int(share * float64(len(wall)-1))
		b.ReportMetric(float64(wall[at])/1e3, name+"-us")
		b.ReportMetric(float64(cpu[at])/1e3, name+"-cpu-us")
	}
	b.ReportMetric(float64(len(wall)), "decisions")
}

// processorTime is what this thread has used so far, in nanoseconds as the kernel counts them.
func (f *crowded) processorTime() time.Duration {
	const threadClock = 3 // CLOCK_THREAD_CPUTIME_ID
	var t syscall.Timespec
	if _, _, failed := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, threadClock, uintptr(unsafe.Pointer(&t)), 0); failed != 0 {
		f.err = failed
	}
	return time.Duration(t.Nano())
}
