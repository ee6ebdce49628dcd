package loads

import "time"

// Sums appends the sum of each key, a zero one where nobody has anything on it.
func (t *Table) Sums(keys []Key, dst []Sum) []Sum {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, key := range keys {
		if sum, ok := t.sums[key]; ok {
			dst = append(dst, sum.Sum)
		} else {
			dst = append(dst, Sum{Key: key})
		}
	}
	return dst
}

// All appends every sum that is not zero, in no order.
func (t *Table) All(dst []Sum) []Sum {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, sum := range t.sums {
		dst = append(dst, sum.Sum)
	}
	return dst
}

// ProbesOf returns what those who probe a model server say, by origin.
func (t *Table) ProbesOf(key Key) map[string]Probe {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := map[string]Probe{}
	for name, o := range t.origins {
		if e := o.entries[key]; e.Probe != Unprobed {
			out[name] = e.Probe
		}
	}
	return out
}

// Age returns how long ago each origin was last heard.
func (t *Table) Age(now time.Time) map[string]time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make(map[string]time.Duration, len(t.origins))
	for name, o := range t.origins {
		out[name] = now.Sub(o.heard)
	}
	return out
}
