package routing

import (
	"slices"

	"github.com/warmring/warmring/routing/hot"
)

// HotTable lists the prefixes that carry so much traffic that one model server is
// not enough for them, path-compressed. A nil table is none yet; an empty one says
// that nothing is hot.
type HotTable struct {
	Runs []Run `json:"runs"`
}

// Run is a stretch of consecutive chunks of one chain with nearly equal traffic.
type Run = hot.Run

func (h *HotTable) clone() *HotTable {
	if h == nil {
		return nil
	}
	return &HotTable{Runs: slices.Clone(h.Runs)}
}
