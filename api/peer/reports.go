package peer

import (
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/warmring/warmring/api/peer/peerpb"
	"github.com/warmring/warmring/gossip/loads"
)

// Report is what all routers, this one included, say of one model server.
type Report struct {
	Ready, Dead []string // who says so from probes of its own, in no order
	Succeeded   bool     // a request succeeded somewhere lately
	InFlight    int      // over all routers
}

// Reports returns what is known of each model server that is not at rest. complete is
// false if a member has not been heard of late, so that nothing follows from what is
// missing.
func (m *Mesh) Reports(now time.Time) (reports map[loads.Key]Report, complete bool) {
	complete = m.complete(now)
	reports = map[loads.Key]Report{}
	for _, sum := range m.table.All(nil) {
		r := Report{Succeeded: sum.Succeeded > 0, InFlight: sum.InFlight}
		if sum.Ready+sum.Dead > 0 {
			for origin, probe := range m.table.ProbesOf(sum.Key) {
				r.say(origin, probe)
			}
		}
		reports[sum.Key] = r
	}
	for _, own := range m.cfg.Publisher.Whole().Entries {
		r := reports[own.Key()]
		r.Succeeded = r.Succeeded || own.Succeeded
		r.InFlight += own.InFlight
		r.say(m.cfg.Identity.Name, own.Probe)
		reports[own.Key()] = r
	}
	return reports, complete
}

func (r *Report) say(origin string, probe loads.Probe) {
	switch probe {
	case loads.Ready:
		r.Ready = append(r.Ready, origin)
	case loads.Dead:
		r.Dead = append(r.Dead, origin)
	case loads.Unprobed:
	}
}

// complete reports whether every member's loads are known.
func (m *Mesh) complete(now time.Time) bool {
	ages := m.table.Age(now)
	m.mu.Lock()
	defer m.mu.Unlock()
	for name := range m.members {
		if age, heard := ages[name]; !heard || age > silence {
			return false
		}
	}
	return true
}

// Ages returns how long ago each router was heard that has not been silent for long.
func (m *Mesh) Ages(now time.Time) map[string]time.Duration { return m.table.Age(now) }

// Counts is what a mesh has done since it began.
type Counts struct {
	Streams                       int // open now
	Opened                        uint64
	FramesSent, FramesReceived    uint64
	WholeSent                     uint64
	BytesSent, BytesReceived      uint64 // of messages, without what HTTP/2 adds
	Gaps, EntriesSent, EntriesGot uint64
	PlacesSent, PlacesGot         uint64 // placements
}

type counts struct {
	opened, framesSent, framesReceived, wholeSent, bytesSent, bytesReceived, gaps, entriesSent, entriesGot atomic.Uint64
	placesSent, placesGot                                                                                  atomic.Uint64
}

func (c *counts) sent(m *peerpb.LoadsMessage) {
	c.framesSent.Add(1)
	c.bytesSent.Add(uint64(proto.Size(m)))
	c.entriesSent.Add(uint64(len(m.GetFrame().GetEntries())))
	c.placesSent.Add(uint64(len(m.GetPlaces().GetPin())))
	if m.GetFrame().GetWhole() {
		c.wholeSent.Add(1)
	}
}

func (c *counts) received(m *peerpb.LoadsMessage) {
	c.framesReceived.Add(1)
	c.bytesReceived.Add(uint64(proto.Size(m)))
	c.entriesGot.Add(uint64(len(m.GetFrame().GetEntries())))
	c.placesGot.Add(uint64(len(m.GetPlaces().GetPin())))
}

// Counts returns the counts.
func (m *Mesh) Counts() Counts {
	m.mu.Lock()
	streams := len(m.links)
	m.mu.Unlock()
	c := &m.counts
	return Counts{
		Streams: streams, Opened: c.opened.Load(), FramesSent: c.framesSent.Load(), FramesReceived: c.framesReceived.Load(),
		WholeSent: c.wholeSent.Load(), BytesSent: c.bytesSent.Load(), BytesReceived: c.bytesReceived.Load(),
		Gaps: c.gaps.Load(), EntriesSent: c.entriesSent.Load(), EntriesGot: c.entriesGot.Load(),
		PlacesSent: c.placesSent.Load(), PlacesGot: c.placesGot.Load(),
	}
}
