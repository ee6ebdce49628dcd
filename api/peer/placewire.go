package peer

import (
	"errors"

	"github.com/warmring/warmring/api/peer/peerpb"
	"github.com/warmring/warmring/gossip/loads"
	"github.com/warmring/warmring/gossip/places"
)

// batchMost is how many placements go into one message.
const batchMost = 2048

var errPlaces = errors.New("placements are malformed or out of range")

// placesToWire packs placements into columns: a pin is random and does not get smaller,
// but a model server's name is sent once. nil when there are none.
func placesToWire(ps []places.Placement) *peerpb.Places {
	if len(ps) == 0 {
		return nil
	}
	out := &peerpb.Places{
		Pin: make([]uint64, len(ps)), Index: make([]uint32, len(ps)), Depth: make([]uint32, len(ps)), Written: make([]uint64, len(ps)),
	}
	indices := map[loads.Key]uint32{}
	for i := range ps {
		p := &ps[i]
		key := loads.Key{ID: p.ID, Incarnation: p.Incarnation}
		index, ok := indices[key]
		if !ok {
			index = uint32(len(out.Backend))
			indices[key] = index
			out.Backend, out.Incarnation = append(out.Backend, p.ID), append(out.Incarnation, p.Incarnation)
		}
		out.Pin[i], out.Index[i], out.Depth[i], out.Written[i] = p.Pin, index, uint32(p.Depth), uint64(p.Written)
	}
	return out
}

// placesFromWire refuses what no log gives out.
func placesFromWire(wire *peerpb.Places) ([]places.Placement, error) {
	n, backends := len(wire.GetPin()), len(wire.GetBackend())
	if n > batchMost || backends > n || len(wire.GetIncarnation()) != backends ||
		len(wire.GetIndex()) != n || len(wire.GetDepth()) != n || len(wire.GetWritten()) != n {
		return nil, errPlaces
	}
	out := make([]places.Placement, n)
	for i := range out {
		index := wire.Index[i]
		if int64(index) >= int64(backends) {
			return nil, errPlaces
		}
		out[i] = places.Placement{
			Pin: wire.Pin[i], ID: wire.Backend[index], Incarnation: wire.Incarnation[index],
			Depth: int(wire.Depth[i]), Written: int64(wire.Written[i]), // beyond its range it becomes negative, which is none
		}
		if !out[i].Valid() {
			return nil, errPlaces
		}
	}
	return out, nil
}
