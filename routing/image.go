package routing

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
)

// imageVersion is the format of an image's JSON. A router that meets another one
// refuses it: what it would not understand may decide where requests go.
const imageVersion = 1

// Image is the whole content of an epoch in a form that can be sent and kept. Its
// JSON carries the cluster's salt; nothing else that it prints does.
type Image struct {
	Generation, Number uint64
	Endpoints          []Endpoint
	Backends           []Backend
	Hot                *HotTable

	salt uint64
}

// imageJSON is the wire form of an Image.
type imageJSON struct {
	Version    int        `json:"v"`
	Generation uint64     `json:"g"`
	Number     uint64     `json:"n"`
	Salt       uint64     `json:"s"`
	Endpoints  []Endpoint `json:"e,omitempty"`
	Backends   []Backend  `json:"b,omitempty"`
	Hot        *HotTable  `json:"h,omitempty"`
}

// Image returns a copy of the epoch's content, the salt included.
func (e *Epoch) Image() Image {
	return Image{
		Generation: e.generation, Number: e.number, salt: e.salt,
		Endpoints: e.Endpoints(), Backends: e.Backends(), Hot: e.Hot(),
	}
}

// Epoch checks the image as Apply checks a change and compiles it. Incarnations
// are taken as they are. An error joins one *ChangeError for each field that is
// wrong.
func (i Image) Epoch() (*Epoch, error) {
	d := draft{
		generation: i.Generation, number: i.Number,
		endpoints: make(map[string]Endpoint, len(i.Endpoints)),
		backends:  make(map[string]Backend, len(i.Backends)),
	}
	d.applyEndpoints(&Change{PutEndpoints: i.Endpoints})
	for _, b := range i.Backends {
		if _, twice := d.backends[b.ID]; twice {
			d.fail(at("backends", b.ID), "is there twice")
		}
		d.backends[b.ID] = b
	}
	return d.epoch(i.salt, nil, i.Hot)
}

// MarshalJSON writes all of the image, the salt included.
func (i Image) MarshalJSON() ([]byte, error) {
	return json.Marshal(imageJSON{imageVersion, i.Generation, i.Number, i.salt, i.Endpoints, i.Backends, i.Hot})
}

// UnmarshalJSON reads what MarshalJSON writes; another version is an error.
func (i *Image) UnmarshalJSON(data []byte) error {
	var w imageJSON
	if err := json.Unmarshal(data, &w); err != nil {
		return hideValue(err)
	}
	if w.Version != imageVersion {
		return fmt.Errorf("image of an epoch has version %d: want %d", w.Version, imageVersion)
	}
	*i = Image{Generation: w.Generation, Number: w.Number, salt: w.Salt, Endpoints: w.Endpoints, Backends: w.Backends, Hot: w.Hot}
	return nil
}

// hideValue takes the text of a value, which may be the salt, out of a decoding
// error.
func hideValue(err error) error {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("image of an epoch: %s is of the wrong kind", wrong.Field)
	}
	return err
}

// String is the epoch's ID.
func (i Image) String() string { return epochID(i.Generation, i.Number) }

// GoString is the epoch's ID: it keeps the salt out of test output.
func (i Image) GoString() string { return i.String() }

// Format writes the epoch's ID whatever the verb: it keeps the salt out of what
// prints fields.
func (i Image) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, i.String()) }

// LogValue is the epoch's ID: a log that is written as JSON would have the salt.
func (i Image) LogValue() slog.Value { return slog.StringValue(i.String()) }
