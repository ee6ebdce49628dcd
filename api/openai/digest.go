package openai

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
)

// Seeds that keep the hashes of different kinds of JSON value apart.
const (
	stringSeed uint64 = iota + 1
	literalSeed
	objectSeed
	arraySeed
	memberSeed
)

// mix hashes an ordered pair.
func mix(a, b uint64) uint64 {
	var p [16]byte
	binary.LittleEndian.PutUint64(p[:8], a)
	binary.LittleEndian.PutUint64(p[8:], b)
	return xxhash.Sum64(p[:])
}

// seeded hashes a string or literal.
func seeded(seed uint64, text []byte) uint64 {
	var d xxhash.Digest
	d.ResetWithSeed(seed)
	_, _ = d.Write(text) // never fails
	return d.Sum64()
}

// keySum hashes the key of an object, as far as keys are looked at. An
// object's hash is the sum of its members', so that their order does not
// matter.
func keySum(key []byte) uint64 { return seeded(memberSeed, key[:min(len(key), maxKey)]) }

// digest hashes a JSON value as it arrives, without keeping it.
type digest struct {
	scalar xxhash.Digest // the string or literal that is being read
	sums   [maxDepth]uint64
	keys   [maxDepth]uint64 // hash of the key whose value is being read
	array  [maxDepth]bool
	depth  int
	value  uint64 // the value, once depth is 0 again
}

func (d *digest) begin(seed uint64) { d.scalar.ResetWithSeed(seed) }

func (d *digest) write(p []byte) { _, _ = d.scalar.Write(p) } // never fails

func (d *digest) end() { d.add(d.scalar.Sum64()) }

func (d *digest) key(key []byte) { d.keys[d.depth-1] = keySum(key) }

func (d *digest) open(array bool) {
	d.sums[d.depth], d.array[d.depth] = 0, array
	d.depth++
}

func (d *digest) close() {
	d.depth--
	if d.array[d.depth] {
		d.add(mix(arraySeed, d.sums[d.depth]))
		return
	}
	d.add(mix(objectSeed, d.sums[d.depth]))
}

func (d *digest) add(value uint64) {
	if d.depth == 0 {
		d.value = value
		return
	}
	i := d.depth - 1
	if d.array[i] {
		d.sums[i] = mix(d.sums[i], value)
		return
	}
	d.sums[i] += mix(d.keys[i], value)
}

// appendHex appends sum as 16 hexadecimal digits.
func appendHex(dst []byte, sum uint64) []byte {
	const digits = "0123456789abcdef"
	for shift := 60; shift >= 0; shift -= 4 {
		dst = append(dst, digits[sum>>shift&15])
	}
	return dst
}
