package consensus

import (
	"encoding/json"
	"fmt"

	"github.com/warmring/warmring/routing"
)

const (
	commandVersion = 1
	entryLimit     = 512 << 10 // bytes of one entry of the log
)

// command is one entry of the log, as JSON. Exactly one of Found, Abort and Batch
// is set.
type command struct {
	Version int        `json:"v"`
	Found   *founding  `json:"found,omitempty"`
	Abort   bool       `json:"abort,omitempty"` // the founding is given up, for good
	Batch   []proposed `json:"batch,omitempty"`
}

// founding begins a cluster or a generation of it; the image says which.
type founding struct {
	Cluster string        `json:"cluster"`
	Image   routing.Image `json:"image"`
}

// proposed is a Proposal in the log. What the leader checks before is not in it.
type proposed struct {
	ID     string         `json:"id,omitempty"`
	Base   Base           `json:"base,omitzero"`
	Change routing.Change `json:"change"`
	By     string         `json:"by,omitempty"`
}

// encode returns the entry, or ErrTooLarge.
func (c command) encode() ([]byte, error) {
	c.Version = commandVersion
	raw, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("encode an entry: %w", err)
	}
	if len(raw) > entryLimit {
		return nil, fmt.Errorf("%w: it has %d bytes", ErrTooLarge, len(raw))
	}
	return raw, nil
}
