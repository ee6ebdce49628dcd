package hot

import (
	"cmp"
	"slices"
)

// plausible tells a count or size that can be. The bound keeps sums finite.
func plausible(v float64) bool { return v > 0 && v < 1<<50 }

// merge sums up reports. Floating-point sums depend on the order, so everything is sorted before.
func merge(reports []Report) Report {
	var sum Report
	var told []Report
	n := 0
	for _, r := range reports {
		if plausible(r.Requests) {
			told = append(told, r)
			n += len(r.Counts)
		}
	}
	slices.SortFunc(told, func(a, b Report) int {
		return cmp.Or(cmp.Compare(a.Requests, b.Requests), cmp.Compare(a.Written, b.Written))
	})
	weight := 0.0
	sum.Counts = make([]Count, 0, n)
	for _, r := range told {
		sum.Requests += r.Requests
		if plausible(r.Written) {
			sum.Written += r.Written * r.Requests
			weight += r.Requests
		}
		for _, c := range r.Counts {
			if plausible(c.Visits) {
				c.Visits = min(c.Visits, r.Requests) // a request visits a chunk once
				sum.Counts = append(sum.Counts, c)
			}
		}
	}
	if weight > 0 {
		sum.Written /= weight
	}
	sum.Counts = joined(sum.Counts)
	return sum
}

// joined sums up the counts of each chunk. Who disagrees about its parent is wrong; the lowest is taken.
func joined(counts []Count) []Count {
	slices.SortFunc(counts, func(a, b Count) int {
		if a.Chunk != b.Chunk {
			return cmp.Compare(a.Chunk, b.Chunk)
		}
		return cmp.Or(cmp.Compare(a.Parent, b.Parent), cmp.Compare(a.Visits, b.Visits))
	})
	out := counts[:0]
	for _, c := range counts {
		if last := len(out) - 1; last >= 0 && out[last].Chunk == c.Chunk {
			out[last].Visits += c.Visits
			continue
		}
		out = append(out, c)
	}
	return out
}
