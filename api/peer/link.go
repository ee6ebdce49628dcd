package peer

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/warmring/warmring/api/peer/peerpb"
	"github.com/warmring/warmring/gossip/loads"
	"github.com/warmring/warmring/gossip/places"
)

// link is the stream with one other router, whoever opened it.
type link struct {
	name    string
	cluster string // this router's when it began
	cancel  context.CancelFunc
	wake    chan struct{} // owed or lost was set
	owed    atomic.Bool   // the other side needs a whole frame
	lost    atomic.Bool   // this side needs one
	asked   time.Time     // when this side asked last; the receiver's alone
	heard   chan struct{} // closed when the receiver ends
	before  chan struct{} // heard of the link that this one follows; nil: of none
}

// told is how far somebody has been told.
type told struct {
	sequence uint64 // of the last frame
	placed   uint64 // cursor of the next placement
}

// stream is either side's.
type stream interface {
	Send(*peerpb.LoadsMessage) error
	Recv() (*peerpb.LoadsMessage, error)
}

// connect opens the stream with a member and keeps it until it breaks.
func (m *Mesh) connect(ctx context.Context, name, address string) error {
	client, release, err := m.cfg.Client.acquire(address)
	if err != nil {
		return err
	}
	defer release()
	ctx, cancel := context.WithCancel(m.cfg.Identity.introduce(ctx))
	defer cancel()
	late := time.AfterFunc(askTimeout, cancel)
	defer late.Stop()
	s, err := client.Loads(ctx, grpc.MaxCallRecvMsgSize(askSize))
	if err != nil {
		return inward(err)
	}
	header, err := s.Header()
	if err != nil {
		return inward(err)
	}
	if err := m.expect(name, header); err != nil {
		return err
	}
	l, err := m.claim(name, cancel)
	if err != nil {
		return err
	}
	late.Stop()
	return m.exchange(ctx, l, s, nil)
}

// expect checks that the answer comes from the member: its address may have gone to
// another router, or to another cluster.
func (m *Mesh) expect(name string, header metadata.MD) error {
	who, label, cluster := introduced(header)
	if who == "" {
		return errors.New("the router did not introduce itself")
	}
	if who != name {
		return fmt.Errorf("router %q is where router %q is expected", who, name)
	}
	return m.cfg.Identity.admit(who, label, cluster)
}

// accept serves the stream that a member opened, until it breaks or done is closed.
func (m *Mesh) accept(s peerpb.Peer_LoadsServer, done <-chan struct{}) error {
	name, _, _ := caller(s.Context())
	if name >= m.cfg.Identity.Name {
		return status.Errorf(codes.InvalidArgument, "router %q has the higher name and is to be dialled", name)
	}
	ctx, cancel := context.WithCancel(s.Context())
	defer cancel()
	l, err := m.claim(name, cancel)
	if err != nil {
		return err
	}
	if err := s.SendHeader(m.cfg.Identity.metadata()); err != nil {
		return m.unclaim(l, err)
	}
	return m.exchange(ctx, l, s, done)
}

// claim makes a link for a member; one that it had before ends. The new stream begins
// with all there is.
func (m *Mesh) claim(name string, cancel context.CancelFunc) (*link, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.running {
		return nil, errStopping()
	}
	if _, ok := m.members[name]; !ok {
		return nil, status.Errorf(codes.Unavailable, "router %q is not known here as a member", name)
	}
	if old := m.links[name]; old != nil {
		m.end(old)
	}
	l := &link{
		name: name, cluster: m.cfg.Identity.Cluster(), cancel: cancel, wake: make(chan struct{}, 1),
		heard: make(chan struct{}), before: m.hearing[name],
	}
	m.links[name], m.hearing[name] = l, l.heard
	m.work.Add(2)
	m.counts.opened.Add(1)
	return l, nil
}

// unclaim ends a link that was claimed and never used.
func (m *Mesh) unclaim(l *link, err error) error {
	m.mu.Lock()
	m.end(l)
	m.mu.Unlock()
	l.follow()
	m.unhear(l)
	m.work.Add(-2)
	return err
}

// follow waits until nothing more is heard over the link before, which has been dropped
// and ends.
func (l *link) follow() {
	if l.before != nil {
		<-l.before
	}
}

// unhear says that nothing more is heard over a link.
func (m *Mesh) unhear(l *link) {
	close(l.heard)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.hearing[l.name] == l.heard {
		delete(m.hearing, l.name)
	}
}

// exchange sends and receives until the first of both fails. It does not wait for the
// other: that one ends with the stream, which on the accepting side ends when the
// caller returns. Run waits for it.
func (m *Mesh) exchange(ctx context.Context, l *link, s stream, done <-chan struct{}) error {
	ended := make(chan error, 2)
	go func() {
		defer m.work.Done()
		ended <- m.send(ctx, l, s)
	}()
	go func() {
		defer m.work.Done()
		l.follow()
		err := m.receive(l, s)
		m.unhear(l)
		ended <- err
	}()
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
		err = errReplaced
	case <-done:
		err = errStopping()
	}
	m.mu.Lock()
	m.end(l)
	m.mu.Unlock()
	return err
}

// send writes frames: all there is at first, then what changed, as soon as there is
// something or at the heartbeat. What this router placed goes with them. While the other
// side does not read, changes add up in the publisher and the log, not in a queue.
func (m *Mesh) send(ctx context.Context, l *link, s stream) error {
	beat := time.NewTimer(heartbeat)
	defer beat.Stop()
	l.owed.Store(true)
	var last told
	var full <-chan time.Time // not nil: a gap after a batch that was not all there was
	for due := true; ; {
		if m.cfg.Identity.Cluster() != l.cluster {
			return errCluster
		}
		fresh := m.fresh.wait()
		if message, to, asked := m.message(l, last, full == nil); due || asked || news(message) > 0 {
			if err := s.Send(message); err != nil {
				return inward(err)
			}
			last = to
			m.counts.sent(message)
			beat.Reset(heartbeat)
			if len(message.GetPlaces().GetPin()) == batchMost {
				full = time.After(Gap(m.peers()))
			}
		}
		due = false
		select {
		case <-fresh:
		case <-full:
			full = nil
		case <-beat.C:
			due = true
		case <-l.wake:
			due = true
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// message is the next one after what was told last, with or without placements, and leads
// to what is told then. asked is true if either side asked for a whole frame, so that it
// has to be sent.
func (m *Mesh) message(l *link, last told, placed bool) (message *peerpb.LoadsMessage, to told, asked bool) {
	owed, lost := l.owed.Swap(false), l.lost.Swap(false)
	frame := m.cfg.Publisher.Delta(last.sequence)
	if owed {
		frame = m.cfg.Publisher.Whole()
	}
	message = &peerpb.LoadsMessage{Frame: frameToWire(frame), Whole: lost, Version: m.cfg.Version().wire()}
	to = told{frame.Sequence, last.placed}
	if placed {
		var batch []places.Placement
		batch, to.placed = m.cfg.Places.Since(last.placed, batchMost)
		message.Places = placesToWire(batch)
	}
	return message, to, owed || lost
}

// news is how much a message says, apart from that its sender lives.
func news(m *peerpb.LoadsMessage) int {
	return len(m.GetFrame().GetEntries()) + len(m.GetPlaces().GetPin())
}

// receive merges what the other side says, and hands on what it placed.
func (m *Mesh) receive(l *link, s stream) error {
	for {
		message, err := s.Recv()
		if err != nil {
			return inward(err)
		}
		m.counts.received(message)
		if message.GetWhole() {
			l.owed.Store(true)
			notify(l.wake)
		}
		now := time.Now()
		batch, err := placesFromWire(message.GetPlaces())
		if err != nil {
			return err
		}
		if err := m.merge(l, message, now); err != nil {
			return err
		}
		if len(batch) > 0 {
			m.cfg.OnPlaces(l.name, batch, now)
		}
		m.cfg.OnVersion(l.name, versionFromWire(message.GetVersion()))
	}
}

// merge takes a frame into the table, unless its stream has been replaced: that would
// bring back what was dropped.
func (m *Mesh) merge(l *link, message *peerpb.LoadsMessage, now time.Time) error {
	frame, err := frameFromWire(l.name, message.GetFrame())
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.links[l.name] != l {
		return errReplaced
	}
	changed, err := m.table.Merge(frame, now)
	m.note(changed)
	if errors.Is(err, loads.ErrGap) {
		m.counts.gaps.Add(1)
		if now.Sub(l.asked) >= heartbeat { // it may be on its way
			l.asked = now
			l.lost.Store(true)
			notify(l.wake)
		}
		return nil
	}
	return err
}
