package gossip

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Limits of facts.
const (
	// factLimit bounds an encoded fact: it must fit into a packet of 1400 bytes (packetLimit) beside a label of 255 bytes
	// and its header (2), the encryption (29) and the headers of the packet and of the message (5). memberlist keeps a
	// longer one in its queue for ever.
	factLimit     = 1024
	keyLimit      = 255
	ttlLimit      = 24 * time.Hour
	factsMax      = 8192 // all routers' together: below 9 MB of state, of the 20 MB that memberlist takes
	factsOfOne    = 1024
	graveTime     = 5 * time.Minute // how long an expired fact is remembered, so that an older one does not come back
	goneGrace     = time.Minute     // how long the facts of a router outlive it
	goneMemory    = time.Hour       // how long facts of a router that went are refused
	factVersion   = 1
	stateVersion  = 1
	goneMax       = 4096
	factHeaderLen = 1
)

// Errors of Announce.
var (
	ErrFactTooLarge = errors.New("fact does not fit into a packet")
	ErrFactsFull    = errors.New("too many facts")
	ErrFactTTL      = errors.New("ttl of a fact must be within 1ms and 24h")

	errFact = errors.New("fact of an unknown form")
)

// rumour is a fact as it travels.
//
// Form: a version byte; origin and key, each with its length in a byte before it; sequence and time to live in
// milliseconds as uvarints (encoding/binary's); the value is the rest. The time to live is what was left when the message
// was made: clocks are not compared.
type rumour struct {
	origin, key string
	sequence    uint64 // rises with each fact of its origin
	ttl         time.Duration
	value       []byte
}

func (r rumour) encode() []byte {
	buf := make([]byte, 0, 32+len(r.origin)+len(r.key)+len(r.value))
	buf = append(buf, factVersion)
	buf = appendText(buf, r.origin, nameLimit)
	buf = appendText(buf, r.key, keyLimit)
	buf = binary.AppendUvarint(buf, r.sequence)
	buf = binary.AppendUvarint(buf, uint64(max(r.ttl.Milliseconds(), 0)))
	return append(buf, r.value...)
}

// decodeRumour copies all that it keeps. It refuses what no router says, as that could not be passed on whole.
func decodeRumour(buf []byte) (rumour, error) {
	if len(buf) < factHeaderLen || len(buf) > factLimit || buf[0] != factVersion {
		return rumour{}, errFact
	}
	r := reader{rest: buf[factHeaderLen:]}
	f := rumour{origin: string(r.text()), key: string(r.text()), sequence: r.uvarint()}
	f.ttl = time.Duration(min(r.uvarint(), uint64(ttlLimit.Milliseconds()))) * time.Millisecond
	if r.failed || f.origin == "" || len(f.origin) > nameLimit {
		return rumour{}, errFact
	}
	f.value = bytes.Clone(r.rest)
	return f, nil
}

type factKey struct{ origin, key string }

type entry struct {
	sequence uint64
	expires  time.Time
	value    []byte
}

// facts is what all routers have announced, the newest of each origin and key. Its state depends on the set of messages
// that were merged, not on their order.
type facts struct {
	own string

	mu       sync.Mutex // guards all below
	sequence uint64     // of the last own fact
	entries  map[factKey]entry
	count    map[string]int       // of entries, by origin
	gone     map[string]time.Time // origins that are not members, since when
}

func newFacts(own string) *facts {
	return &facts{own: own, entries: map[factKey]entry{}, count: map[string]int{}, gone: map[string]time.Time{}}
}

// announce stores a fact of this router and returns the message that tells it.
func (f *facts) announce(key string, value []byte, ttl time.Duration, now time.Time) ([]byte, error) {
	if ttl < time.Millisecond || ttl > ttlLimit {
		return nil, fmt.Errorf("%w: %s", ErrFactTTL, ttl)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	r := rumour{origin: f.own, key: key, sequence: f.sequence + 1, ttl: ttl, value: bytes.Clone(value)}
	msg := r.encode()
	if len(msg) > factLimit || len(key) > keyLimit {
		return nil, fmt.Errorf("%w: %d bytes, of at most %d", ErrFactTooLarge, len(msg), factLimit)
	}
	if !f.put(r, now) {
		return nil, ErrFactsFull
	}
	f.sequence++
	return msg, nil
}

// merge takes in a fact of another router and says whether it was news. The error is ErrFactsFull.
func (f *facts) merge(r rumour, now time.Time) (news bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	old, known := f.entries[factKey{r.origin, r.key}]
	since, gone := f.gone[r.origin]
	switch {
	case r.origin == f.own: // an echo
		return false, nil
	case known && old.sequence >= r.sequence, !known && r.ttl == 0:
		return false, nil
	case gone && now.Sub(since) > goneGrace:
		return false, nil
	case !f.put(r, now):
		return false, ErrFactsFull
	}
	return true, nil
}

// put must be called with the lock. It refuses what is beyond the limits.
func (f *facts) put(r rumour, now time.Time) bool {
	at := factKey{r.origin, r.key}
	if _, known := f.entries[at]; !known {
		if len(f.entries) >= factsMax || f.count[r.origin] >= factsOfOne {
			return false
		}
		f.count[r.origin]++
	}
	f.entries[at] = entry{sequence: r.sequence, expires: now.Add(r.ttl), value: r.value}
	return true
}

// sweep forgets what is over: facts that expired a while ago, and those of routers that are no members any more. It says
// whether a fact that held does not hold now.
func (f *facts) sweep(last, now time.Time, alive func(name string) bool) (changed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for origin := range f.count {
		if _, known := f.gone[origin]; !known && !alive(origin) && len(f.gone) < goneMax {
			f.gone[origin] = now
		}
	}
	for origin, since := range f.gone {
		if alive(origin) || now.Sub(since) > goneMemory {
			delete(f.gone, origin)
		}
	}
	for at, e := range f.entries {
		since, gone := f.gone[at.origin]
		over := gone && now.Sub(since) > goneGrace
		changed = changed || e.expires.After(last) && (over || !e.expires.After(now))
		if over || now.Sub(e.expires) > graveTime {
			delete(f.entries, at)
			if f.count[at.origin]--; f.count[at.origin] == 0 {
				delete(f.count, at.origin)
			}
		}
	}
	return changed
}

// list returns the facts that hold, sorted by origin and key.
func (f *facts) list(now time.Time) []Fact {
	f.mu.Lock()
	held := make([]Fact, 0, len(f.entries))
	for at, e := range f.entries {
		if e.expires.After(now) {
			held = append(held, Fact{Origin: at.origin, Key: at.key, Value: e.value, Expires: e.expires})
		}
	}
	f.mu.Unlock()
	slices.SortFunc(held, func(a, b Fact) int { return cmp.Or(cmp.Compare(a.Origin, b.Origin), cmp.Compare(a.Key, b.Key)) })
	return held
}

// state is everything, for a router that may have missed some. Form: a version byte, then the facts, each with its length
// as a uvarint before it.
func (f *facts) state(now time.Time) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	buf := []byte{stateVersion}
	for at, e := range f.entries {
		msg := rumour{origin: at.origin, key: at.key, sequence: e.sequence, ttl: e.expires.Sub(now), value: e.value}.encode()
		buf = binary.AppendUvarint(buf, uint64(len(msg)))
		buf = append(buf, msg...)
	}
	return buf
}

// decodeState calls each for every message in buf, until it meets something that it does not understand.
func decodeState(buf []byte, each func(msg []byte)) error {
	if len(buf) == 0 || buf[0] != stateVersion {
		return errFact
	}
	r := reader{rest: buf[1:]}
	for len(r.rest) > 0 {
		size := r.uvarint()
		if size > factLimit {
			return errFact
		}
		msg := r.take(int(size))
		if r.failed {
			return errFact
		}
		each(msg)
	}
	return nil
}
