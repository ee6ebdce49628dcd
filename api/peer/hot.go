package peer

import (
	"context"
	"fmt"
	"math"

	"google.golang.org/grpc"

	"github.com/warmring/warmring/api/peer/peerpb"
	"github.com/warmring/warmring/routing/hot"
)

// hotMost is how many chunks one report may have: at 20 bytes each they fit into what a
// server sends.
const hotMost = 1 << 19

// Hot asks the router at address what it counted: of the chunks with at least floor
// visits at most that many, the largest.
func (c *Client) Hot(ctx context.Context, address string, floor float64, most int) (hot.Report, error) {
	most = min(max(0, most), hotMost)
	request := &peerpb.HotRequest{Floor: floor, Most: uint32(most)}
	reply, err := ask(ctx, c, address, imageTimeout, peerpb.PeerClient.Hot, request, grpc.MaxCallRecvMsgSize(imageSize))
	if err != nil {
		return hot.Report{}, err
	}
	report, err := reportFromWire(reply, most)
	if err != nil {
		return hot.Report{}, fmt.Errorf("report of hot prefixes from %s: %w", address, err)
	}
	return report, nil
}

// Hot implements peerpb.PeerServer.
func (s *Server) Hot(ctx context.Context, r *peerpb.HotRequest) (*peerpb.HotReply, error) {
	if s.cfg.Hot == nil {
		return s.UnimplementedPeerServer.Hot(ctx, r)
	}
	if !measure(r.GetFloor()) {
		return nil, fmt.Errorf("a floor of %v visits", r.GetFloor())
	}
	return reportToWire(s.cfg.Hot(r.GetFloor(), int(min(r.GetMost(), hotMost)))), nil
}

func reportToWire(r hot.Report) *peerpb.HotReply {
	n := len(r.Counts)
	out := &peerpb.HotReply{
		Requests: r.Requests, Written: r.Written, Chunk: make([]uint64, n), Parent: make([]uint64, n), Visits: make([]float32, n),
	}
	for i, c := range r.Counts {
		out.Chunk[i], out.Parent[i], out.Visits[i] = c.Chunk, c.Parent, float32(c.Visits)
	}
	return out
}

// reportFromWire refuses what no sketch reports. One false number would decide for all
// routers how many model servers a prefix gets.
func reportFromWire(wire *peerpb.HotReply, most int) (hot.Report, error) {
	n := len(wire.GetChunk())
	switch {
	case n > most:
		return hot.Report{}, fmt.Errorf("%d chunks where at most %d were asked for", n, most)
	case len(wire.GetParent()) != n || len(wire.GetVisits()) != n:
		return hot.Report{}, fmt.Errorf("%d chunks, %d parents and %d numbers of visits", n, len(wire.GetParent()), len(wire.GetVisits()))
	case !measure(wire.GetRequests()) || !measure(wire.GetWritten()):
		return hot.Report{}, fmt.Errorf("%v requests that write %v tokens", wire.GetRequests(), wire.GetWritten())
	}
	out := hot.Report{Requests: wire.GetRequests(), Written: wire.GetWritten(), Counts: make([]hot.Count, n)}
	for i := range out.Counts {
		visits := float64(wire.Visits[i])
		if !measure(visits) {
			return hot.Report{}, fmt.Errorf("%v visits", visits)
		}
		if i > 0 && wire.Chunk[i] <= wire.Chunk[i-1] {
			return hot.Report{}, fmt.Errorf("chunk %d is out of order", i)
		}
		out.Counts[i] = hot.Count{Chunk: wire.Chunk[i], Parent: wire.Parent[i], Visits: visits}
	}
	return out, nil
}

// measure reports whether f is a number of something.
func measure(f float64) bool { return f >= 0 && f <= math.MaxFloat64 }
