package routing

import "slices"

// HotTable lists the prefixes that carry so much traffic that one model server is
// not enough for them, path-compressed. A nil table is none yet; an empty one says
// that nothing is hot.
type HotTable struct {
	Runs []Run `json:"runs"`
}

// Run is a stretch of consecutive chunks of one chain with nearly equal traffic.
type Run struct {
	First  uint64 `json:"first"` // hash of the first chunk
	Last   uint64 `json:"last"`  // hash of the last chunk
	Length int    `json:"length"`
	// Servers is how many model servers its traffic needs, at least 2.
	Servers int `json:"servers"`
}

func (h *HotTable) clone() *HotTable {
	if h == nil {
		return nil
	}
	return &HotTable{Runs: slices.Clone(h.Runs)}
}
