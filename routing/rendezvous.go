package routing

import (
	"encoding/binary"
	"math"

	"github.com/cespare/xxhash/v2"
)

// keys is what ranking needs of candidates, which are sorted by id. Ranking is
// weighted rendezvous hashing (Thaler and Ravishankar 1998; weights by -w/ln(u),
// Schindelhauer and Schomaker 2005): each candidate's score depends on nothing but
// itself and the pin, so a pin moves only when its own first candidate goes or a
// better one comes.
type keys struct {
	hashes   []uint64
	weights  []float64
	heaviest float64
	uneven   bool // not all weights are equal
}

// add appends a candidate. Its hash covers the id, a zero byte that ends it, and
// the salt.
func (k *keys) add(id string, salt uint64, weight float64) {
	b := make([]byte, 0, 64)
	b = append(b, id...)
	b = append(b, 0)
	b = binary.LittleEndian.AppendUint64(b, salt)
	k.hashes = append(k.hashes, xxhash.Sum64(b))
	k.weights = append(k.weights, weight)
	k.heaviest = max(k.heaviest, weight)
	k.uneven = k.uneven || weight != k.weights[0]
}

// mix is the output function of SplitMix64 (Steele, Lea and Flood 2014; the
// constants are Stafford's variant 13): each input bit flips each output bit with
// a probability near a half.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// unit is how many values gap can take.
const unit = 1 << 53

// gap is 1-u for the uniform u in (0,1) that belongs to candidate i and the pin,
// as an integer of 53 bits. The winners have u close to 1, where 1-u has more
// digits than u.
func (k *keys) gap(i int, pin uint64) uint64 { return mix(k.hashes[i]^pin) >> 11 }

// score of candidate i is -w/ln(u); the highest is the first of the ranking.
func (k *keys) score(i int, pin uint64) float64 {
	return k.weights[i] / -math.Log1p(-(float64(k.gap(i, pin))+0.5)/unit)
}

// widest returns the gap above which no candidate has a score above top:
// -ln(u) >= 1-u, so a score is never more than w/(1-u). It spares the logarithm
// for all but a few.
func (k *keys) widest(top float64) uint64 {
	if w := k.heaviest / top; w < 1 {
		return uint64(w * unit)
	}
	return unit
}

// first returns the index of the highest score, of equals the lower id; -1 if
// there is no candidate.
func (k *keys) first(pin uint64) int {
	if !k.uneven {
		return k.closest(pin)
	}
	best, top, widest := -1, -1.0, uint64(unit)
	for i, h := range k.hashes {
		if mix(h^pin)>>11 > widest {
			continue
		}
		if s := k.score(i, pin); s > top {
			best, top, widest = i, s, k.widest(s)
		}
	}
	return best
}

// closest is first for equal weights, where the score rises as the gap falls.
func (k *keys) closest(pin uint64) int {
	best, narrowest := -1, uint64(unit)
	for i, h := range k.hashes {
		if gap := mix(h^pin) >> 11; gap < narrowest {
			best, narrowest = i, gap
		}
	}
	return best
}
