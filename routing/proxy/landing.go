package proxy

import (
	"io"
	"sync"
)

// landing is where the bytes of an answer land on their way to the client.
// Events are small and streams are many, so it begins small; an answer that
// fills it gets a large buffer.
type landing struct {
	small [4 << 10]byte
	large *[]byte // of buffers; nil until it is needed
	bytes []byte  // what the last read brought
	end   tail    // of what has passed
}

// landings and buffers hold memory for reuse.
//
//nolint:gochecknoglobals // a pool of bytes has no state that a second Proxy could see
var (
	landings = sync.Pool{New: func() any { return new(landing) }}
	buffers  = sync.Pool{New: func() any { b := make([]byte, 0, copyBuffer); return &b }}
)

// read does one read of r.
func (l *landing) read(r io.Reader) error {
	room := l.small[:]
	if l.large == nil && len(l.bytes) == len(l.small) {
		l.large = buffers.Get().(*[]byte)
	}
	if l.large != nil {
		room = (*l.large)[:copyBuffer]
	}
	n, err := r.Read(room)
	l.bytes = room[:n]
	return err
}

// free gives back the memory.
func (l *landing) free() {
	if l.large != nil {
		buffers.Put(l.large)
	}
	l.large, l.bytes, l.end.n = nil, nil, 0
	landings.Put(l)
}
