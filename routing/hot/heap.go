package hot

// heap has the smallest count first. It is written out because container/heap calls through an interface and moves
// elements by pairs, where a new root needs one way down.
type heap []rank

type rank struct {
	count float32
	at    int32 // place of the counter
}

func (h *heap) push(count float32, at int) {
	*h = append(*h, rank{})
	r, i, q := rank{count, int32(at)}, len(*h)-1, *h
	for i > 0 && q[(i-1)/2].count > r.count {
		q[i] = q[(i-1)/2]
		i = (i - 1) / 2
	}
	q[i] = r
}

// raise gives the root a larger count and brings it to its place.
func (h heap) raise(count float32) {
	r, i := rank{count, h[0].at}, 0
	for {
		child := 2*i + 1
		if child >= len(h) {
			break
		}
		if child+1 < len(h) && h[child+1].count < h[child].count {
			child++
		}
		if h[child].count >= r.count {
			break
		}
		h[i] = h[child]
		i = child
	}
	h[i] = r
}
