package routing

// Learnt is what a picker has learnt beside the loads.
type Learnt struct {
	Pins          int    // in the directory
	PinEvictions  uint64 // pins that were forgotten for want of room, ever
	BytesPerToken map[string]float64
	Servers       []LearntServer // of the epoch, in no order
}

// LearntServer is what was learnt of one model server.
type LearntServer struct {
	Backend  Backend
	Pace     float64 // its times to the first token over those of all; 0: nothing yet
	Capacity int     // of its KV cache in tokens; 0: unknown
}

// Learnt returns what was learnt.
func (p *Picker) Learnt() Learnt {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := Learnt{Pins: len(p.directory.pins), PinEvictions: p.directory.evictions, BytesPerToken: map[string]float64{}}
	for endpoint, s := range p.lessons {
		if s.tokens > 0 {
			out.BytesPerToken[endpoint] = s.bytes / s.tokens
		}
	}
	for _, l := range p.named {
		server := LearntServer{Backend: *l.backend, Capacity: l.clock.capacity}
		if s, ok := p.lessons[l.backend.Endpoint]; ok && l.pace.want > 0 {
			server.Pace = l.pace.ratio(s.doubt())
		}
		out.Servers = append(out.Servers, server)
	}
	return out
}
