package peer

import (
	"github.com/warmring/warmring/api/peer/peerpb"
)

// Watch implements peerpb.PeerServer. It keeps no queue: while Send waits for a slow
// caller epochs pass by, and the next message leads to the newest one.
func (s *Server) Watch(r *peerpb.WatchRequest, stream peerpb.Peer_WatchServer) error {
	sent := versionFromWire(r.GetHave())
	image := r.GetImage()
	for {
		changed := s.cfg.History.Changed()
		reply, to, err := s.next(sent, image)
		if err != nil {
			return outward(err)
		}
		if reply != nil {
			if err := stream.Send(reply); err != nil {
				return err
			}
			sent, image = to, false
			continue
		}
		select {
		case <-changed:
		case <-s.done:
			return errStopping()
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

// next is the message that leads from a version to the newest epoch, nil when there
// is none to be sent: the caller has it, or is ahead.
func (s *Server) next(from Version, image bool) (*peerpb.WatchReply, Version, error) {
	latest, steps, ok := s.cfg.History.Since(from)
	to := VersionOf(latest)
	if !image && to.Compare(from) <= 0 && !to.Contradicts(from) {
		return nil, from, nil
	}
	if image || !ok {
		data, err := imageBytes(latest)
		return &peerpb.WatchReply{Image: data, Version: to.wire()}, to, err
	}
	reply := &peerpb.WatchReply{Steps: make([]*peerpb.Step, len(steps)), Version: to.wire()}
	for i, step := range steps {
		wire, err := step.wire()
		if err != nil {
			return nil, from, err
		}
		reply.Steps[i] = wire
	}
	return reply, to, nil
}
