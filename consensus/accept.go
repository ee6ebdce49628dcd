package consensus

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"sync"
	"time"
)

const (
	handshakes  = 64 // connections that are being greeted at one time
	acceptPause = 100 * time.Millisecond
)

// accept admits raft connections until ctx ends.
func (l *Log) accept(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = l.deps.Listener.Close() })
	defer stop()
	var all sync.WaitGroup
	defer all.Wait()
	slots := make(chan struct{}, handshakes)
	for {
		conn, err := l.deps.Listener.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			if errors.Is(err, net.ErrClosed) {
				return fmt.Errorf("accept a raft connection: %w", err)
			}
			l.log.WarnContext(ctx, "raft connection not accepted", "error", err)
			select { // such as too many open files: it may pass
			case <-time.After(acceptPause):
			case <-ctx.Done():
			}
			continue
		}
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			_ = conn.Close()
			continue
		}
		all.Go(func() {
			l.welcome(ctx, conn)
			<-slots
		})
	}
}

// welcome greets a connection and hands it to raft, or closes it.
func (l *Log) welcome(ctx context.Context, conn net.Conn) {
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	s, err := l.answer(ctx, conn)
	if err != nil {
		l.log.DebugContext(ctx, "raft connection refused", "peer", conn.RemoteAddr().String(), "error", err)
		_ = conn.Close()
		return
	}
	s.stream.deliver(conn)
}

// answer is the acceptor's half of the greeting. It returns the server that the
// connection is for.
func (l *Log) answer(ctx context.Context, conn net.Conn) (*server, error) {
	if err := conn.SetDeadline(time.Now().Add(handshakeTimeout)); err != nil {
		return nil, fmt.Errorf("greet: %w", err)
	}
	theirs, err := readGreeting(conn)
	if err != nil {
		return nil, err
	}
	if err := l.sealFor(ctx, theirs); err != nil {
		return nil, err
	}
	s := l.current.Load()
	mine := s.greeting("")
	if l.unchecked {
		mine.ID = theirs.Target
	}
	mine.Refused = mine.mismatch(theirs)
	mine.Target = theirs.ID
	if theirs.Cluster == mine.Cluster && theirs.Generation > mine.Generation {
		l.poke()
	}
	if _, err := conn.Write(mine.encode()); err != nil {
		return nil, fmt.Errorf("greet: %w", err)
	}
	if mine.Refused != "" {
		return nil, errors.New(mine.Refused)
	}
	return s, conn.SetDeadline(time.Time{})
}

// connect dials the server wherever it is now and greets it.
func (l *Log) connect(ctx context.Context, s *server, target string) (net.Conn, error) {
	address, ok := l.addressOf(target)
	if !ok {
		return nil, fmt.Errorf("no router with server %s is known", target)
	}
	conn, err := l.deps.Dial(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("connect to server %s at %s: %w", target, address, err)
	}
	if err := greet(conn, s.greeting(target)); err != nil {
		_ = conn.Close()
		l.refused(target, address, err)
		return nil, fmt.Errorf("connect to server %s at %s: %w", target, address, err)
	}
	return conn, nil
}

// refused reports a refusal, once a minute for each server: raft dials again and
// again.
func (l *Log) refused(target, address string, err error) {
	var no *refusal
	if !errors.As(err, &no) {
		return
	}
	if no.newer {
		l.poke()
	}
	now := time.Now()
	l.mu.Lock()
	last, known := l.reported[target]
	loud := !known || now.Sub(last) > time.Minute
	if loud {
		maps.DeleteFunc(l.reported, func(_ string, at time.Time) bool { return now.Sub(at) > time.Minute })
		l.reported[target] = now
	}
	l.mu.Unlock()
	if loud {
		l.log.Warn("raft connection refused by peer", "server", target, "address", address, "reason", no.reason)
	}
}
