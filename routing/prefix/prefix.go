// Package prefix turns the canonical text of a request into the keys that
// routing pins on: a chain of chunk hashes, the key of a fixed number of
// characters, and the key of the text's start.
//
// Every key begins at a root that carries the cluster's secret salt and
// whatever must keep equal texts apart (endpoint, variant, adapter, tenant).
// The hash is XXH64, which is the same in every process and on every machine,
// so replicas that share the salt agree on all keys. It is not a cryptographic
// hash: whoever needs a bound under crafted texts must bound what is kept by
// key, not rely on keys being hard to collide.
package prefix

import (
	"encoding/binary"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"
)

const (
	// ChunkSize is the greatest length of a chunk, in bytes.
	ChunkSize = 256
	// MaxChunks is the greatest length of a chain.
	MaxChunks = 1024
	// MaxText is the greatest length of canonical text, in bytes, that can
	// take part in a chain.
	MaxText = ChunkSize * MaxChunks
)

// frames is the least byte that frames a text, and never part of a code point.
const frames = 0xFE

// startBytes is how much text, at most, identifies the start of a chat.
const startBytes = 4096

// Text is the canonical text of one request: what identifies its beginning.
type Text struct {
	// Bytes is the text, cut at a limit by whoever wrote it.
	Bytes []byte
	// Ends are the offsets in Bytes at which a message ends, ascending.
	Ends []int
	// FirstUser is the offset just behind the first user message; 0 when
	// there is none, or it is not complete within Bytes.
	FirstUser int
	// Cut says that the text goes on behind Bytes.
	Cut bool
	// Raw says that Bytes are the bytes of a body of unknown format, where a
	// character is a byte.
	Raw bool
}

// Root returns the hash that a chain starts from. Parts are told apart by
// their lengths, so ("ab", "c") and ("a", "bc") differ.
func Root(salt uint64, parts ...string) uint64 {
	var d xxhash.Digest
	d.ResetWithSeed(salt)
	var size [8]byte
	for _, part := range parts {
		binary.LittleEndian.PutUint64(size[:], uint64(len(part)))
		_, _ = d.Write(size[:]) // a Digest never fails
		_, _ = d.WriteString(part)
	}
	return d.Sum64()
}

// AppendChain appends the chain of t to dst: h(i) = H(h(i-1), chunk i), where
// h(0) is root and is not appended. A chunk ends 256 bytes after the chunk
// before it, or at the end of a message if that comes first; so the chain of
// one turn of a chat begins the chain of the next. The last hash covers the
// rest of the text, however short, and is the text's end key; an empty text
// has no chunks. At most MaxChunks are appended.
func AppendChain(dst []uint64, root uint64, t *Text) []uint64 {
	dst, _ = AppendBegin(dst, root, t, MaxChunks)
	return dst
}

// AppendBegin is AppendChain for the first n chunks. It reports whether that is
// the whole chain; if not, all of these chunks are whole.
func AppendBegin(dst []uint64, root uint64, t *Text, n int) (_ []uint64, whole bool) {
	h, ends, start := root, t.Ends, 0
	for ; start < len(t.Bytes) && n > 0; n-- {
		var end int
		end, ends = chunk(t, start, ends)
		h = hash(h, t.Bytes[start:end])
		dst = append(dst, h)
		start = end
	}
	return dst, start == len(t.Bytes)
}

// Length returns how many bytes of t the first n chunks of its chain cover.
func Length(t *Text, n int) int {
	start, ends := 0, t.Ends
	for ; n > 0 && start < len(t.Bytes); n-- {
		start, ends = chunk(t, start, ends)
	}
	return start
}

// chunk returns where the chunk that begins at start ends, and the message ends that are left.
func chunk(t *Text, start int, ends []int) (int, []int) {
	end := min(start+ChunkSize, len(t.Bytes))
	for len(ends) > 0 && ends[0] <= start {
		ends = ends[1:]
	}
	if len(ends) > 0 {
		end = min(end, ends[0])
	}
	return end, ends
}

// Fixed returns the key of the first n characters of t, or of all of it when
// it is shorter. A character is a byte of a raw text, and else a code point; a
// framing byte counts as one. A text that was cut at 4n bytes or more has the
// key of the uncut text, since no character is longer than four bytes.
func Fixed(root uint64, t *Text, n int) uint64 {
	end := min(n, len(t.Bytes)) // a character takes at least a byte
	if !t.Raw && end < len(t.Bytes) {
		end = characters(t.Bytes, n)
	}
	return hash(root, t.Bytes[:end])
}

// Enough reports whether Fixed of n characters is that of the uncut text.
func Enough(t *Text, n int) bool {
	switch size := len(t.Bytes); {
	case !t.Cut || size >= n*utf8.UTFMax:
		return true
	case size < n || t.Raw:
		return size >= n
	default:
		got := count(t.Bytes)
		last := t.Bytes[size-1] // of a character that may be cut, unless it is ASCII or framing
		return got > n || got == n && (last < utf8.RuneSelf || last >= frames)
	}
}

// Start returns the key of the text up to the end of the first user message,
// or of its first 4,096 bytes when the message ends behind them.
func Start(root uint64, t *Text) uint64 {
	end := min(startBytes, len(t.Bytes))
	if t.FirstUser > 0 {
		end = min(end, t.FirstUser)
	}
	return hash(root, t.Bytes[:end])
}

func hash(seed uint64, p []byte) uint64 {
	var d xxhash.Digest
	d.ResetWithSeed(seed)
	_, _ = d.Write(p) // a Digest never fails
	return d.Sum64()
}
