package peer

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/warmring/warmring/api/peer/peerpb"
	"github.com/warmring/warmring/routing/hot"
)

func counted(n int) hot.Report {
	r := hot.Report{Requests: 12345.678, Written: 890.12}
	for i := range n {
		r.Counts = append(r.Counts, hot.Count{Chunk: uint64(i+1) << 40, Parent: uint64(i) << 40, Visits: float64(i) + 0.5})
	}
	return r
}

func TestHot(t *testing.T) {
	inBubble(t, 0, func(c *cluster) {
		asker, r := c.add("r00"), c.add("r01")
		var floor float64
		var most int
		size := 3
		r.hot = func(f float64, m int) hot.Report {
			floor, most = f, m
			return counted(size)
		}
		asker.start()
		r.start()
		c.know(c.routers...)
		got, err := asker.client.Hot(c.Context(), r.address, 6.5, 100)
		if err != nil || floor != 6.5 || most != 100 {
			c.Errorf("%v, asked for %v and %d", err, floor, most)
		}
		if diff := cmp.Diff(counted(3), got); diff != "" {
			c.Error(diff)
		}
		if _, err := asker.client.Hot(c.Context(), r.address, 1, 2); err == nil || !strings.Contains(err.Error(), "3 chunks where at most 2 were asked for") {
			c.Errorf("more than asked for: %v", err)
		}
		size = hotMost
		if got, err := asker.client.Hot(c.Context(), r.address, 1, math.MaxInt); err != nil || len(got.Counts) != hotMost || most != hotMost {
			c.Errorf("the largest report: %d, %v", len(got.Counts), err)
		}
		size = 0
		if got, err := asker.client.Hot(c.Context(), r.address, 1, -1); err != nil || len(got.Counts) != 0 || most != 0 {
			c.Errorf("none asked for: %d, %v", len(got.Counts), err)
		}
		for _, bad := range []float64{-1, math.NaN(), math.Inf(1)} {
			if _, err := asker.client.Hot(c.Context(), r.address, bad, 1); err == nil || !strings.Contains(err.Error(), "a floor of") {
				c.Errorf("floor %v: %v", bad, err)
			}
		}
		if _, err := r.client.Hot(c.Context(), asker.address, 1, 1); status.Code(err) != codes.Unimplemented && !strings.Contains(err.Error(), "not implemented") {
			c.Errorf("one that does not count: %v", err)
		}
	})
}

func TestMalformedReports(t *testing.T) {
	tests := map[string]struct {
		change func(r *peerpb.HotReply)
		ok     bool
	}{
		"as it should be":   {func(*peerpb.HotReply) {}, true},
		"nothing":           {func(r *peerpb.HotReply) { proto.Reset(r) }, true},
		"no parent":         {func(r *peerpb.HotReply) { r.Parent = r.Parent[1:] }, false},
		"no visits":         {func(r *peerpb.HotReply) { r.Visits = nil }, false},
		"no chunk":          {func(r *peerpb.HotReply) { r.Chunk = r.Chunk[1:] }, false},
		"negative visits":   {func(r *peerpb.HotReply) { r.Visits[1] = -1 }, false},
		"no number":         {func(r *peerpb.HotReply) { r.Visits[1] = float32(math.NaN()) }, false},
		"infinite visits":   {func(r *peerpb.HotReply) { r.Visits[1] = float32(math.Inf(1)) }, false},
		"negative requests": {func(r *peerpb.HotReply) { r.Requests = -1 }, false},
		"infinite requests": {func(r *peerpb.HotReply) { r.Requests = math.Inf(1) }, false},
		"no mean":           {func(r *peerpb.HotReply) { r.Written = math.NaN() }, false},
		"not in order":      {func(r *peerpb.HotReply) { r.Chunk[1] = 0 }, false},
		"a chunk twice":     {func(r *peerpb.HotReply) { r.Chunk[1] = r.Chunk[0] }, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			wire := reportToWire(counted(3))
			tt.change(wire)
			if _, err := reportFromWire(wire, 3); (err == nil) != tt.ok {
				t.Error(err)
			}
		})
	}
}

// Whatever a router answers is refused, or travels on unchanged.
func FuzzReport(f *testing.F) {
	for _, n := range []int{0, 1, 5} {
		data, err := proto.Marshal(reportToWire(counted(n)))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var wire peerpb.HotReply
		if proto.Unmarshal(data, &wire) != nil {
			return
		}
		report, err := reportFromWire(&wire, 100)
		if err != nil {
			return
		}
		again, err := reportFromWire(reportToWire(report), 100)
		if diff := cmp.Diff(report, again); err != nil || diff != "" {
			t.Fatal(err, diff)
		}
	})
}
