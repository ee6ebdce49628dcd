package places

import "sync"

// Log is the latest of what this replica placed. It is safe for concurrent use.
type Log struct {
	capacity int

	mu   sync.Mutex  // guards the rest
	ring []Placement // the one with number n is at n modulo capacity
	head uint64      // how many were ever added: the number of the next one
}

// NewLog returns an empty log that keeps the last capacity placements, at least one.
func NewLog(capacity int) *Log {
	return &Log{capacity: max(1, capacity)}
}

// Add appends placements in their order. Numbers out of range are cut, and what has no
// proper id is left out: one that peers refuse would end their streams time and again.
func (l *Log) Add(ps []Placement) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range ps {
		p.Depth = min(max(0, p.Depth), MaxDepth)
		p.Written = min(max(0, p.Written), MaxWritten)
		if !p.Valid() {
			continue
		}
		if len(l.ring) < l.capacity {
			l.ring = append(l.ring, p)
		} else {
			l.ring[l.head%uint64(l.capacity)] = p
		}
		l.head++
	}
}

// Since returns at most that many placements from the cursor on, in order, and the
// cursor of those that follow. Cursor 0, and one that is older than what is kept, stand
// for the oldest that is there.
func (l *Log) Since(cursor uint64, most int) (ps []Placement, next uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	from := min(max(cursor, l.head-uint64(len(l.ring))), l.head)
	n := min(int(l.head-from), max(0, most))
	if n == 0 {
		return nil, from
	}
	start := int(from % uint64(l.capacity))
	ps = make([]Placement, n)
	copied := copy(ps, l.ring[start:])
	copy(ps[copied:], l.ring)
	return ps, from + uint64(n)
}

// Head is the cursor of what will be added next.
func (l *Log) Head() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.head
}
