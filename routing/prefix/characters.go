package prefix

import (
	"encoding/binary"
	"math/bits"
)

// characters returns the length in bytes of the first n characters of p, or
// len(p) when it has no more than n. A character starts at every byte that
// does not continue one (10xxxxxx), so the cut depends on nothing behind the
// byte that starts character n+1.
func characters(p []byte, n int) int {
	i := 0
	for ; n >= block && i+block <= len(p); i += block {
		n -= starts(p[i : i+block])
	}
	for ; i < len(p); i++ {
		if p[i]&0xC0 == 0x80 {
			continue
		}
		if n == 0 {
			break
		}
		n--
	}
	return i
}

// count returns how many characters start in p.
func count(p []byte) int {
	n := 0
	for ; len(p) >= block; p = p[block:] {
		n += starts(p[:block])
	}
	for _, b := range p {
		if b&0xC0 != 0x80 {
			n++
		}
	}
	return n
}

// block is how many bytes are looked at in one step.
const block = 32

// starts counts the bytes of a block at which a character starts: those whose
// top bit is clear or whose next bit is set.
func starts(p []byte) int {
	const top = 0x8080808080808080
	a := binary.LittleEndian.Uint64(p)
	b := binary.LittleEndian.Uint64(p[8:])
	c := binary.LittleEndian.Uint64(p[16:])
	d := binary.LittleEndian.Uint64(p[24:])
	if (a|b|c|d)&top == 0 {
		return block // most are ASCII
	}
	n := 0
	for _, word := range [...]uint64{a, b, c, d} {
		n += bits.OnesCount64((^word | word<<1) & top)
	}
	return n
}
