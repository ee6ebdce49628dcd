package peer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/warmring/warmring/api/peer/peerpb"
	"github.com/warmring/warmring/routing"
)

func (h Hello) wire() *peerpb.HelloReply {
	return &peerpb.HelloReply{
		Server: h.Server, Name: h.Name, Cluster: h.Cluster, Generation: h.Generation, Number: h.Number,
		Blank: h.Blank, Expect: uint32(max(0, h.Expect)), Quorum: h.Quorum, Members: h.Members, Seats: h.Seats,
	}
}

func helloFromWire(h *peerpb.HelloReply) Hello {
	return Hello{
		Server: h.GetServer(), Name: h.GetName(), Cluster: h.GetCluster(), Generation: h.GetGeneration(), Number: h.GetNumber(),
		Blank: h.GetBlank(), Expect: int(h.GetExpect()), Quorum: h.GetQuorum(), Members: h.GetMembers(), Seats: h.GetSeats(),
	}
}

func (b Ballot) wire() *peerpb.PromiseRequest {
	return &peerpb.PromiseRequest{
		Candidate: b.Candidate, Cluster: b.Cluster, Generation: b.Generation, Expect: uint32(max(0, b.Expect)), Voters: b.Voters,
	}
}

func ballotFromWire(b *peerpb.PromiseRequest) Ballot {
	return Ballot{
		Candidate: b.GetCandidate(), Cluster: b.GetCluster(), Generation: b.GetGeneration(), Expect: int(b.GetExpect()), Voters: b.GetVoters(),
	}
}

func (v Version) wire() *peerpb.Version {
	return &peerpb.Version{Generation: v.Generation, Number: v.Number, Digest: v.Digest}
}

func versionFromWire(v *peerpb.Version) Version {
	return Version{Generation: v.GetGeneration(), Number: v.GetNumber(), Digest: v.GetDigest()}
}

func (p Proposal) wire() (*peerpb.ProposeRequest, error) {
	change, err := json.Marshal(p.Change)
	if err != nil {
		return nil, fmt.Errorf("encode change: %w", err)
	}
	return &peerpb.ProposeRequest{
		Id: p.ID, BaseGeneration: p.BaseGeneration, BaseNumber: p.BaseNumber, Change: change, Force: p.Force, By: p.By, Hop: 1,
	}, nil
}

func proposalFromWire(p *peerpb.ProposeRequest) (Proposal, error) {
	out := Proposal{ID: p.GetId(), BaseGeneration: p.GetBaseGeneration(), BaseNumber: p.GetBaseNumber(), Force: p.GetForce(), By: p.GetBy()}
	err := decode(p.GetChange(), &out.Change)
	return out, err
}

func (l Lease) wire() (*peerpb.RenewRequest, error) {
	backend, err := json.Marshal(l.Backend)
	if err != nil {
		return nil, fmt.Errorf("encode backend: %w", err)
	}
	return &peerpb.RenewRequest{Backend: backend, TtlMs: l.TTL.Milliseconds()}, nil
}

func leaseFromWire(l *peerpb.RenewRequest) (Lease, error) {
	out := Lease{TTL: time.Duration(l.GetTtlMs()) * time.Millisecond}
	err := decode(l.GetBackend(), &out.Backend)
	return out, err
}

func (s Step) wire() (*peerpb.Step, error) {
	change, err := json.Marshal(s.Change)
	if err != nil {
		return nil, fmt.Errorf("encode change: %w", err)
	}
	return &peerpb.Step{Version: s.Version.wire(), Change: change, By: s.By, AtMs: s.At.UnixMilli()}, nil
}

func stepFromWire(s *peerpb.Step) (Step, error) {
	out := Step{Version: versionFromWire(s.GetVersion()), By: s.GetBy(), At: time.UnixMilli(s.GetAtMs())}
	err := decode(s.GetChange(), &out.Change)
	return out, err
}

// imageBytes is e's whole content as it travels.
func imageBytes(e *routing.Epoch) ([]byte, error) {
	data, err := json.Marshal(e.Image())
	if err != nil {
		return nil, fmt.Errorf("encode image of epoch %s: %w", e.ID(), err)
	}
	return data, nil
}

func epochFromBytes(data []byte) (*routing.Epoch, error) {
	var image routing.Image
	if err := json.Unmarshal(data, &image); err != nil {
		return nil, fmt.Errorf("decode image: %w", err)
	}
	return image.Epoch()
}

// decode refuses fields that it does not know: a change that is understood in part
// would make another map.
func decode(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("decode %T: %w", into, err)
	}
	return nil
}
