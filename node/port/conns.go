package port

import (
	"net"
	"sync"
	"time"
)

// queueMax is how many connections of a protocol wait to be accepted.
const queueMax = 64

// queue is the listener of one protocol, fed by the port.
type queue struct {
	port  *Port
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newQueue(p *Port) *queue {
	return &queue{port: p, conns: make(chan net.Conn, queueMax), done: make(chan struct{})}
}

// offer hands over a connection, unless the queue is full or closed.
func (q *queue) offer(conn net.Conn) bool {
	select {
	case <-q.done:
		return false
	default:
	}
	select {
	case q.conns <- conn:
		return true
	default:
		return false
	}
}

func (q *queue) Accept() (net.Conn, error) {
	select {
	case <-q.done:
		return nil, net.ErrClosed
	default:
	}
	select {
	case conn := <-q.conns:
		return conn, nil
	case <-q.done:
		return nil, net.ErrClosed
	}
}

// Close makes Accept fail. What waits in the queue ends with the port.
func (q *queue) Close() error {
	q.once.Do(func() { close(q.done) })
	return nil
}

func (q *queue) Addr() net.Addr {
	q.port.mu.Lock()
	defer q.port.mu.Unlock()
	if q.port.tcp == nil {
		return &net.TCPAddr{}
	}
	return q.port.tcp.Addr()
}

// tracked is a connection that the port closes at its end, if nobody did before.
type tracked struct {
	net.Conn
	port *Port
}

// track takes charge of a connection. It returns nil, and closes it, when the port is closed.
func (p *Port) track(conn net.Conn) *tracked {
	t := &tracked{Conn: conn, port: p}
	p.mu.Lock()
	closed := p.closing.Err() != nil
	if !closed {
		p.conns[t] = struct{}{}
	}
	p.mu.Unlock()
	if closed {
		_ = conn.Close()
		return nil
	}
	return t
}

func (t *tracked) Close() error {
	t.port.mu.Lock()
	delete(t.port.conns, t)
	t.port.mu.Unlock()
	return t.Conn.Close()
}

const (
	quietTime = time.Minute
	quietMax  = 256 // hosts that are remembered; what others do is not told until one is forgotten
)

// quiet lets a host be told about once in a minute.
type quiet struct {
	mu   sync.Mutex // guards told
	told map[string]time.Time
}

func (q *quiet) tell(remote net.Addr, now time.Time) bool {
	host, _, err := net.SplitHostPort(remote.String())
	if err != nil {
		host = remote.String()
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for h, at := range q.told {
		if now.Sub(at) >= quietTime {
			delete(q.told, h)
		}
	}
	if _, ok := q.told[host]; ok || len(q.told) >= quietMax {
		return false
	}
	if q.told == nil {
		q.told = map[string]time.Time{}
	}
	q.told[host] = now
	return true
}
