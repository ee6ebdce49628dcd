package routing

import (
	"slices"
	"time"
)

// Limits of what replicas tell each other.
const (
	// keptSuccess is how long a replica tells the others of a success.
	keptSuccess = 30 * time.Second
	// maxPeerCount and maxPeerWork bound what is believed, so that sums stay far
	// from the limits of an integer.
	maxPeerCount = 1 << 30
	maxPeerWork  = 1 << 50
)

// Verdict is a replica's opinion of a model server from its own requests; what
// others said never goes into it.
type Verdict uint8

// The verdicts.
const (
	VerdictWell    Verdict = iota
	VerdictEjected         // after failures or a stall, until a success
	VerdictRefused         // the same, after a refused connection
)

// Own is what this replica itself has on one incarnation of a model server, in
// absolute values. All zero is a model server at rest.
type Own struct {
	ID          string
	Incarnation uint64
	InFlight    int
	Prefill     int64 // token equivalents
	Verdict     Verdict
	Succeeded   bool // within the last 30 s
}

// PeerLoad is the sum of what all peers have on one incarnation of a model server.
type PeerLoad struct {
	ID          string
	Incarnation uint64
	InFlight    int
	Prefill     int64 // token equivalents
	// Ejected and Refused are how many peers say so on evidence of their own.
	Ejected, Refused int
}

// peers is what the other replicas have in flight on a model server.
type peers struct {
	inflight int
	prefill  int64
}

// Changed receives a value when TakeChanged has something to tell. The picker notes
// changes from the first call on; that call counts everything as changed.
func (p *Picker) Changed() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.changed == nil {
		p.changed = make(chan struct{}, 1)
		for _, l := range p.loads {
			p.touch(l)
		}
	}
	return p.changed
}

// touch notes that what this replica has on l changed.
func (p *Picker) touch(l *load) {
	if l.dirty || p.changed == nil {
		return
	}
	l.dirty = true
	p.dirty = append(p.dirty, l)
	if len(p.dirty) > 1 {
		return // the first one has rung
	}
	select {
	case p.changed <- struct{}{}:
	default: // nobody has looked since it rang last
	}
}

// TakeChanged appends what changed since it was called last, one at rest too, in
// absolute values. That a success is no longer recent shows in the next call; it
// does not ring Changed.
func (p *Picker) TakeChanged(dst []Own, now time.Time) []Own {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.clock(now)
	p.told = slices.DeleteFunc(p.told, func(l *load) bool {
		if l.recent(at) {
			return false
		}
		l.told = false
		p.touch(l)
		return true
	})
	for _, l := range p.dirty {
		l.dirty = false
		own, ok := p.own(l, at)
		if !ok {
			continue
		}
		if own.Succeeded && !l.told {
			l.told = true
			p.told = append(p.told, l)
		}
		dst = append(dst, own)
	}
	clear(p.dirty)
	p.dirty = p.dirty[:0]
	return dst
}

// Own appends all that is not at rest, in absolute values.
func (p *Picker) Own(dst []Own, now time.Time) []Own {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.clock(now)
	for _, l := range p.loads {
		own, ok := p.own(l, at)
		if ok && own != (Own{ID: own.ID, Incarnation: own.Incarnation}) {
			dst = append(dst, own)
		}
	}
	return dst
}

// own is what this replica has on l. What left the fleet is only counted, and not
// even that when its name and incarnation are in use, which takes a new generation.
func (p *Picker) own(l *load, now time.Duration) (Own, bool) {
	o := Own{ID: l.backend.ID, Incarnation: l.backend.Incarnation, InFlight: l.inflight, Prefill: l.prefill}
	if l.gone {
		return o, p.named[name{o.ID, o.Incarnation}] == nil
	}
	o.Succeeded = l.recent(now)
	switch {
	case l.ejections > 0 && l.unreachable:
		o.Verdict = VerdictRefused
	case l.ejections > 0:
		o.Verdict = VerdictEjected
	}
	return o, true
}

// SetPeers replaces what the peers have on the model servers that are listed.
// Others are left as they are, and those that the epoch does not have are ignored:
// after SetEpoch the caller passes all sums again.
func (p *Picker) SetPeers(sums []PeerLoad, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range sums {
		s := &sums[i]
		l, ok := p.named[name{s.ID, s.Incarnation}]
		if !ok {
			continue
		}
		l.peers.inflight = min(max(0, s.InFlight), maxPeerCount)
		l.peers.prefill = min(max(0, s.Prefill), maxPeerWork)
		if l.ejectedBy != s.Ejected || l.refusedBy != s.Refused {
			l.ejectedBy, l.refusedBy = s.Ejected, s.Refused
			p.review = true
		}
	}
	if p.review {
		p.review = false
		p.hear(p.clock(now))
	}
}
