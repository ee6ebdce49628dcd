package gossip

import (
	"encoding/binary"
	"errors"
	"unicode/utf8"
)

// Meta is what a router says of itself. It travels with its membership.
type Meta struct {
	Router     string // the configured name, for people; cut at 64 bytes
	Server     string // raft id; cut at 32 bytes
	Cluster    string // who it agrees with; empty while it belongs to none; cut at 32 bytes
	Generation uint64 // of its epoch
	Epoch      uint64 // number of its epoch; 0: it has none
	Digest     uint64 // of its epoch
	Voter      bool   // it is a voter of the log
	Leads      bool   // it leads the log
	Leaving    bool   // it is about to go
	Expect     int    // replicas that it wants to found a cluster with, 0..255
}

// errMeta is meta data that this release does not understand.
var errMeta = errors.New("meta data of an unknown form")

// Form of the encoded Meta: a version byte, flags, expect, generation and epoch as uvarints (encoding/binary's), digest
// as 8 bytes big-endian, then router, server and cluster, each with its length in a byte before it. What follows is
// ignored, so that a later release can append. At most 1+1+1+10+10+8+65+33+33 = 162 bytes; memberlist panics at 512.
const (
	metaVersion  = 1
	metaVoter    = 1 << 0
	metaLeaving  = 1 << 1
	metaLeads    = 1 << 2
	routerLimit  = 64
	idLimit      = 32
	metaFixedTop = 3
)

func (m Meta) encode() []byte {
	buf := make([]byte, 0, 162)
	var flags byte
	if m.Voter {
		flags |= metaVoter
	}
	if m.Leaving {
		flags |= metaLeaving
	}
	if m.Leads {
		flags |= metaLeads
	}
	buf = append(buf, metaVersion, flags, byte(min(max(m.Expect, 0), 255)))
	buf = binary.AppendUvarint(buf, m.Generation)
	buf = binary.AppendUvarint(buf, m.Epoch)
	buf = binary.BigEndian.AppendUint64(buf, m.Digest)
	buf = appendText(buf, m.Router, routerLimit)
	buf = appendText(buf, m.Server, idLimit)
	return appendText(buf, m.Cluster, idLimit)
}

func decodeMeta(buf []byte) (Meta, error) {
	if len(buf) < metaFixedTop || buf[0] != metaVersion {
		return Meta{}, errMeta
	}
	m := Meta{Voter: buf[1]&metaVoter != 0, Leaving: buf[1]&metaLeaving != 0, Leads: buf[1]&metaLeads != 0, Expect: int(buf[2])}
	r := reader{rest: buf[metaFixedTop:]}
	m.Generation, m.Epoch, m.Digest = r.uvarint(), r.uvarint(), r.uint64()
	m.Router, m.Server, m.Cluster = string(r.text()), string(r.text()), string(r.text())
	if r.failed {
		return Meta{}, errMeta
	}
	return m, nil
}

// appendText appends s behind its length. A longer s is cut at limit (at most 255) without parting a rune.
func appendText(buf []byte, s string, limit int) []byte {
	if len(s) > limit {
		for limit > 0 && !utf8.RuneStart(s[limit]) {
			limit--
		}
		s = s[:limit]
	}
	buf = append(buf, byte(len(s)))
	return append(buf, s...)
}

// reader takes values off the front of a message. After the first one that is not there it gives zeros.
type reader struct {
	rest   []byte
	failed bool
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.failed, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *reader) uint64() uint64 {
	b := r.take(8)
	if b == nil {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}

func (r *reader) text() []byte {
	n := r.take(1)
	if n == nil {
		return nil
	}
	return r.take(int(n[0]))
}

// take returns the next n bytes, nil if there are fewer. They are the message's own.
func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.rest) {
		r.failed, r.rest = true, nil
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}
