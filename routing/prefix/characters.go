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
	for ; n >= 8 && i+8 <= len(p); i += 8 {
		n -= starts(binary.LittleEndian.Uint64(p[i:]))
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
	for ; len(p) >= 8; p = p[8:] {
		n += starts(binary.LittleEndian.Uint64(p))
	}
	for _, b := range p {
		if b&0xC0 != 0x80 {
			n++
		}
	}
	return n
}

// starts counts the bytes of a word at which a character starts: those whose
// top bit is clear or whose next bit is set.
func starts(word uint64) int {
	const top = 0x8080808080808080
	return bits.OnesCount64((^word | word<<1) & top)
}
