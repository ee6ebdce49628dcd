package routing

// Sizes of the directory. A pin takes about 170 bytes, so that a fleet of 7 needs 3 MB and one of 1,000 up to 350 MB.
const (
	pinsPerBackend, leastPins = 2048, 1 << 14
	// placesOfPin is how many model servers are remembered for one pin: where more hold it, it is hot, and the hot table
	// knows.
	placesOfPin = 4
)

// directory says which model servers were sent a pin: the least recently used pins are forgotten first. Picker.mu guards
// it.
type directory struct {
	limit     int
	pins      map[uint64]int32
	slots     []slot
	head      int32 // the most recently used slot, -1 for none
	tail      int32
	loads     map[uint32]*load // by number
	last      uint32
	evictions uint64
}

type slot struct {
	pin        uint64
	next, prev int32
	places     [placesOfPin]place // the first ones are used
	n          int8
}

// place says that a model server was sent a pin.
type place struct {
	load  uint32 // its number
	since uint32 // Picker.fleet when it was sent it first, of what it still holds
	depth int32  // tokens
	told  int32  // of these, as far as the other replicas know
	clock int64  // the model server's cache clock when they were told
}

func (d *directory) init(limit int) {
	*d = directory{limit: limit, pins: map[uint64]int32{}, head: -1, tail: -1, loads: map[uint32]*load{}}
}

func (d *directory) newLoad() *load {
	l := &load{}
	d.name(l)
	return l
}

// name gives a model server a number that no place has.
func (d *directory) name(l *load) {
	d.last++
	l.number = d.last
	d.loads[l.number] = l
}

func (d *directory) forget(l *load) { delete(d.loads, l.number) }

// void makes nothing of what was placed on a model server count any more.
func (d *directory) void(l *load) {
	d.forget(l)
	d.name(l)
}

// get returns what is known of a pin, nil for nothing. The slice holds until the next put.
func (d *directory) get(pin uint64) []place {
	i, ok := d.pins[pin]
	if !ok {
		return nil
	}
	s := &d.slots[i]
	return s.places[:s.n]
}

// holder is the model server of a place, nil where that is no candidate or does not hold it any more.
func (d *directory) holder(at place) *load {
	l := d.loads[at.load]
	if l == nil || l.pool == nil || !l.clock.held(at.clock) {
		return nil
	}
	return l
}

// put records a place.
func (d *directory) put(pin uint64, at place) {
	i, ok := d.pins[pin]
	if !ok {
		i = d.room()
		d.slots[i] = slot{pin: pin, next: -1, prev: -1}
		d.pins[pin] = i
	} else {
		d.unlink(i)
	}
	d.front(i)
	d.slots[i].put(at)
}

// put replaces what is known of the model server or, where there is no room, the place that is oldest, and of these the one that
// holds least.
func (s *slot) put(at place) {
	oldest := 0
	for k := range s.places[:s.n] {
		if s.places[k].load == at.load {
			s.places[k] = at
			return
		}
		if s.places[k].since < s.places[oldest].since || s.places[k].since == s.places[oldest].since && s.places[k].depth < s.places[oldest].depth {
			oldest = k
		}
	}
	if s.n < placesOfPin {
		s.places[s.n] = at
		s.n++
		return
	}
	s.places[oldest] = at
}

// room is a slot to use: a new one, or that of the least recently used pin.
func (d *directory) room() int32 {
	if len(d.slots) < d.limit {
		d.slots = append(d.slots, slot{})
		return int32(len(d.slots) - 1)
	}
	i := d.tail
	d.unlink(i)
	delete(d.pins, d.slots[i].pin)
	d.evictions++
	return i
}

func (d *directory) front(i int32) {
	s := &d.slots[i]
	s.prev, s.next = -1, d.head
	if d.head >= 0 {
		d.slots[d.head].prev = i
	} else {
		d.tail = i
	}
	d.head = i
}

func (d *directory) unlink(i int32) {
	s := &d.slots[i]
	if s.prev >= 0 {
		d.slots[s.prev].next = s.next
	} else {
		d.head = s.next
	}
	if s.next >= 0 {
		d.slots[s.next].prev = s.prev
	} else {
		d.tail = s.prev
	}
}
