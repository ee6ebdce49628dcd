package routing

// wholeNeeds is how many unary answers it takes to tell the work of a prompt from that of an answer.
const wholeNeeds = 3 * lineNeeds

// whole is what unary answers taught. Nobody sees their first token, so all of their time is fitted by seconds =
// a + b*work + c*tokens of the answer, with the least squares of decayed sums.
type whole struct {
	n, x, z, y         float64
	xx, xz, zz, xy, zy float64
}

func (w *whole) add(work, tokens, seconds float64) {
	w.n += (1 - w.n) * lineMemory
	w.x += (work - w.x) * lineMemory
	w.z += (tokens - w.z) * lineMemory
	w.y += (seconds - w.y) * lineMemory
	w.xx += (work*work - w.xx) * lineMemory
	w.xz += (work*tokens - w.xz) * lineMemory
	w.zz += (tokens*tokens - w.zz) * lineMemory
	w.xy += (work*seconds - w.xy) * lineMemory
	w.zy += (tokens*seconds - w.zy) * lineMemory
}

// expect is how long a first token should take behind that much work, 0 when there is no telling.
func (w *whole) expect(work float64) float64 {
	if w.n < wholeNeeds*lineMemory {
		return 0
	}
	x, z, y := w.x/w.n, w.z/w.n, w.y/w.n
	xx, zz, xz := w.xx/w.n-x*x, w.zz/w.n-z*z, w.xz/w.n-x*z
	xy, zy := w.xy/w.n-x*y, w.zy/w.n-z*y
	if xx <= 0 {
		return 0
	}
	b, c := xy/xx, 0.0
	apart := xx*zz-xz*xz > 1e-6*xx*zz // or else answers are all alike, or as long as the work is
	if apart {
		c = max(0, (zy*xx-xy*xz)/(xx*zz-xz*xz))
		b = (xy - c*xz) / xx
	}
	b = min(max(0, b), y/max(1, x))
	if !apart || b == 0 {
		return b * work // of a there is no telling: most of it may be answers
	}
	return max(0, y-b*x-c*z) + b*work
}
