package openai

import "github.com/warmring/warmring/routing/prefix"

// Framing. No byte of it occurs in UTF-8, so nothing in a request can look
// like it.
const (
	frameByte  = 0xFF // begins a segment; a letter that names it follows
	quoteByte  = 0xFE // stands before and behind a string in compact JSON
	messageTag = 'M'
	partTag    = 'p' // between two parts of a content
	promptTag  = 'P' // before a prompt that is a string
	idsTag     = 'I' // before a prompt of token ids
)

// maxFrames is how many objects are open at most: the body, a message, a part
// and, in a tool result, a part of the part.
const maxFrames = 4

// segment is the text of one field.
type segment struct {
	rank       uint8
	start, end int // in the buffer
}

// frame is an object whose fields are segments.
type frame struct {
	name     string // the field that is being read
	index    int    // of the object in its array
	start    int    // where its text begins in the buffer
	size     int    // greatest length of its text
	outer    int    // stop of the segment that the frame is part of
	seen     uint16 // ranks of its keys so far
	segments [8]segment
	n        int    // how many segments there are
	open     bool   // the last of them is being written
	shuffled bool   // they did not arrive in canonical order
	part     bool   // it is a part of a content
	parts    int    // parts with text in the content that is being read
	keyed    uint64 // the digest of the rest: sum over its members
	rest     bool   // there are such members
}

// builder collects canonical text. Fields are written as they arrive, each up
// to the length that could still matter, and are put in canonical order when
// their object ends.
type builder struct {
	buf       []byte
	stop      int // the segment being written ends here at the latest
	ends      []int
	firstUser int
	frames    [maxFrames]frame
	depth     int // frames in use
	spare     []byte
	moved     []int
}

// reset prepares for a text of at most size bytes.
func (b *builder) reset(size int) {
	b.buf, b.ends, b.firstUser = b.buf[:0], b.ends[:0], 0
	b.depth, b.stop = 0, size
	b.push(noIndex)
}

func (b *builder) frame() *frame { return &b.frames[b.depth-1] }

// push opens the frame of an object that is element index of an array.
func (b *builder) push(index int) {
	f := &b.frames[b.depth]
	b.depth++
	f.name, f.index = "", index
	f.start, f.size, f.outer = len(b.buf), b.stop-len(b.buf), b.stop
	f.seen, f.n, f.parts, f.keyed = 0, 0, 0, 0
	f.open, f.shuffled, f.part, f.rest = false, false, false, false
}

// pop ends the innermost frame.
func (b *builder) pop() {
	f := b.frame()
	if f.rest {
		b.segment(restRank, 'x')
		b.write(appendHex(b.spare[:0], mix(objectSeed, f.keyed)))
	}
	b.endSegment()
	if f.shuffled {
		b.order(f)
	}
	if len(b.buf) > f.start+f.size {
		b.buf = b.buf[:f.start+f.size]
	}
	b.stop = f.outer
	b.depth--
}

// noIndex is the index of a frame that stands for no element of an array.
const noIndex = -1

// pushPart opens the frame of a content part.
func (b *builder) pushPart(index int) {
	b.push(index)
	b.frame().part = true
}

// separate writes what stands between a part that is about to have text and
// the one before it.
func (b *builder) separate() {
	f, whole := b.frame(), &b.frames[b.depth-2]
	if whole.parts++; whole.parts > 1 {
		b.tag(partTag)
		f.start, f.size = len(b.buf), b.stop-len(b.buf)
	}
}

// segment begins the text of a field of the innermost frame.
func (b *builder) segment(rank uint8, tag byte) {
	b.endSegment()
	f := b.frame()
	if f.part && f.n == 0 {
		b.separate()
	}
	room := f.size
	for _, s := range f.segments[:f.n] {
		if s.rank < rank {
			room -= s.end - s.start
		} else {
			f.shuffled = true
		}
	}
	f.segments[f.n] = segment{rank: rank, start: len(b.buf)}
	f.n++
	f.open = true
	b.stop = len(b.buf) + max(room, 0)
	if tag != 0 {
		b.tag(tag)
	}
}

// endSegment ends the segment that is being written, if there is one.
func (b *builder) endSegment() {
	if f := b.frame(); f.open {
		f.segments[f.n-1].end = len(b.buf)
		f.open = false
	}
}

// order puts the segments of a frame in canonical order.
func (b *builder) order(f *frame) {
	b.spare = b.spare[:0]
	for _, s := range sorted(f) {
		b.spare = append(b.spare, b.buf[s.start:s.end]...)
	}
	b.buf = append(b.buf[:f.start], b.spare...)
}

// sorted puts the list of a frame's segments in canonical order.
func sorted(f *frame) []segment {
	s := f.segments[:f.n]
	for i := range s {
		for j := i; j > 0 && s[j-1].rank > s[j].rank; j-- {
			s[j-1], s[j] = s[j], s[j-1]
		}
	}
	return s
}

func (b *builder) full() bool { return len(b.buf) >= b.stop }

func (b *builder) write(p []byte) {
	b.buf = append(b.buf, p[:min(len(p), b.stop-len(b.buf))]...)
}

func (b *builder) writeByte(c byte) {
	if !b.full() {
		b.buf = append(b.buf, c)
	}
}

func (b *builder) tag(letter byte) {
	b.writeByte(frameByte)
	b.writeByte(letter)
}

// endMessage notes that a message ends here, unless it was cut.
func (b *builder) endMessage() {
	if !b.full() {
		b.ends = append(b.ends, len(b.buf))
	}
}

// present has a bit for the rank of every segment of the body.
func (b *builder) present() (ranks uint16) {
	for _, s := range b.frames[0].segments[:b.frames[0].n] {
		ranks |= 1 << s.rank
	}
	return ranks
}

// role returns the role of the message that is the innermost frame.
func (b *builder) role() []byte {
	f := b.frame()
	for _, s := range f.segments[:f.n] {
		if s.rank == roleRank && s.end-s.start > 2 {
			return b.buf[s.start+2 : s.end]
		}
	}
	return nil
}

// text ends all frames and puts the text, up to limit, into t.
func (b *builder) text(t *prefix.Text, limit int) {
	for b.depth > 1 {
		b.pop()
	}
	b.endSegment()
	top := b.frame()
	text, ends, firstUser := b.buf, b.ends, b.firstUser
	if top.shuffled {
		text, ends, firstUser = b.assemble(sorted(top))
	}
	for len(ends) > 0 && ends[len(ends)-1] > limit {
		ends = ends[:len(ends)-1]
	}
	if firstUser > limit {
		firstUser = 0
	}
	*t = prefix.Text{Bytes: text[:min(len(text), limit)], Ends: ends, FirstUser: firstUser, Cut: len(text) > limit}
}

// assemble copies the segments of the body in order, and moves the ends along.
func (b *builder) assemble(order []segment) (text []byte, ends []int, firstUser int) {
	text, ends = b.spare[:0], b.moved[:0]
	for _, s := range order {
		shift := len(text) - s.start
		text = append(text, b.buf[s.start:s.end]...)
		for _, end := range b.ends {
			if s.start < end && end <= s.end {
				ends = append(ends, end+shift)
			}
		}
		if s.start < b.firstUser && b.firstUser <= s.end {
			firstUser = b.firstUser + shift
		}
	}
	b.spare, b.moved = text, ends
	return text, ends, firstUser
}
