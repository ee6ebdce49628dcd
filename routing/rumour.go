package routing

import "time"

// Rules for believing what the other replicas say of a model server.
const (
	// witnesses is how many peers have to agree that it is ill; one is enough that
	// was refused a connection, since that is no question of load.
	witnesses = 2
	// freshSuccess is how long a success of its own lets a replica disbelieve them.
	freshSuccess = 2 * time.Second
)

// rumour is the peers' opinion of a model server. One that enough of them share is
// believed when the group can spare the server (health.rumoured). It shuts like an
// ejection of this replica's own: for a while, and then all but one request at a
// time. So it cannot outlive its truth: whoever has traffic finds out.
type rumour struct {
	// hushed is until when not even one request tries it out, on the Picker's clock.
	hushed               time.Duration
	ejectedBy, refusedBy int // peers, on evidence of their own
}

// hear weighs the rumours anew: those that are believed already come first, then
// as many as the group can spare.
func (p *Picker) hear(now time.Duration) {
	for i := range p.pools {
		pl := &p.pools[i]
		for _, l := range pl.loads {
			l.rumoured = l.rumoured && l.said()
		}
		room := pl.room()
		for _, l := range pl.loads {
			if l.rumoured || !l.said() || !l.away() && room <= 0 {
				continue
			}
			if !l.away() {
				room--
			}
			l.rumoured, l.hushed = true, now+p.cfg.Ejection
		}
	}
}

// said reports whether enough peers say that the model server is ill.
func (r *rumour) said() bool { return r.refusedBy > 0 || r.ejectedBy >= witnesses }

// believed reports whether the rumour counts: a success of this replica's own is
// better evidence for a while.
func (l *load) believed(now time.Duration) bool {
	return l.rumoured && (l.succeeded == 0 || now >= l.succeeded+freshSuccess)
}
