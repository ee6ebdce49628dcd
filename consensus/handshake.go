package consensus

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

const (
	handshakeMagic   = "WRRAFT"
	handshakeVersion = 1
	handshakeLimit   = 512 // bytes of one greeting
	handshakeTimeout = 2 * time.Second
)

// greeting opens a raft connection, in both directions: the dialer's first, then
// the acceptor's, which has a reason where it refuses.
//
// On the wire: "WRRAFT", version (1 byte), length of the rest (2 bytes), generation
// (8 bytes), then cluster, own id, target id and reason, each with its length in
// front (2 bytes). Numbers are big-endian.
type greeting struct {
	Cluster    string
	Generation uint64
	ID, Target string
	Refused    string // the acceptor's reason, "" when it accepts
}

func (g greeting) encode() []byte {
	body := binary.BigEndian.AppendUint64(nil, g.Generation)
	for _, s := range []string{g.Cluster, g.ID, g.Target, g.Refused} {
		s = s[:min(len(s), handshakeLimit/5)]
		body = binary.BigEndian.AppendUint16(body, uint16(len(s)))
		body = append(body, s...)
	}
	raw := append([]byte(handshakeMagic), handshakeVersion)
	raw = binary.BigEndian.AppendUint16(raw, uint16(len(body)))
	return append(raw, body...)
}

// readGreeting reads no byte beyond the greeting: raft's bytes follow it.
func readGreeting(r io.Reader) (greeting, error) {
	head := make([]byte, len(handshakeMagic)+3)
	if _, err := io.ReadFull(r, head); err != nil {
		return greeting{}, fmt.Errorf("read the greeting: %w", err)
	}
	if string(head[:len(handshakeMagic)]) != handshakeMagic {
		return greeting{}, errors.New("what was sent is not a greeting of a warmring voter")
	}
	if v := head[len(handshakeMagic)]; v != handshakeVersion {
		return greeting{}, fmt.Errorf("the greeting has version %d, this replica speaks %d", v, handshakeVersion)
	}
	size := int(binary.BigEndian.Uint16(head[len(handshakeMagic)+1:]))
	if size < 8 || size > handshakeLimit {
		return greeting{}, fmt.Errorf("a greeting of %d bytes is not within 8 and %d", size, handshakeLimit)
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(r, body); err != nil {
		return greeting{}, fmt.Errorf("read the greeting: %w", err)
	}
	return decodeGreeting(body)
}

func decodeGreeting(body []byte) (greeting, error) {
	g := greeting{Generation: binary.BigEndian.Uint64(body)}
	body = body[8:]
	for _, s := range []*string{&g.Cluster, &g.ID, &g.Target, &g.Refused} {
		if len(body) < 2 {
			return greeting{}, errors.New("the greeting is cut short")
		}
		n := int(binary.BigEndian.Uint16(body))
		if body = body[2:]; n > len(body) {
			return greeting{}, errors.New("the greeting is cut short")
		}
		*s, body = string(body[:n]), body[n:]
	}
	return g, nil
}

// greet is the dialer's half. A refusal is a *refusal.
func greet(conn net.Conn, mine greeting) error {
	if err := conn.SetDeadline(time.Now().Add(handshakeTimeout)); err != nil {
		return fmt.Errorf("greet: %w", err)
	}
	if _, err := conn.Write(mine.encode()); err != nil {
		return fmt.Errorf("greet: %w", err)
	}
	theirs, err := readGreeting(conn)
	if err != nil {
		return err
	}
	if theirs.Refused == "" {
		theirs.Refused = mine.mismatch(theirs)
	}
	if theirs.Refused != "" {
		return &refusal{reason: theirs.Refused, newer: theirs.Cluster == mine.Cluster && theirs.Generation > mine.Generation}
	}
	return conn.SetDeadline(time.Time{})
}

// refusal is an acceptor's word that it wants no connection.
type refusal struct {
	reason string
	newer  bool // it is of a later generation of the same cluster
}

func (r *refusal) Error() string { return r.reason }

// mismatch says in words why theirs, the other end's greeting, does not fit g, or
// is "". It is the same in both directions.
func (g greeting) mismatch(theirs greeting) string {
	switch {
	case g.Cluster == "":
		return fmt.Sprintf("server %s belongs to no cluster", g.ID)
	case theirs.Cluster != g.Cluster:
		return fmt.Sprintf("server %s belongs to cluster %s, not to %q", g.ID, g.Cluster, theirs.Cluster)
	case theirs.Generation != g.Generation:
		return fmt.Sprintf("server %s is of generation %d of cluster %s, not %d", g.ID, g.Generation, g.Cluster, theirs.Generation)
	case theirs.Target != g.ID:
		// Whoever answers for another server gives away votes that the other gave.
		return fmt.Sprintf("this is server %s, not %q", g.ID, theirs.Target)
	case g.Target != "" && theirs.ID != g.Target:
		return fmt.Sprintf("server %s answered for %s", theirs.ID, g.Target)
	default:
		return ""
	}
}
