package simnet

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"time"
)

// name is what the resolver knows about one name besides hosts.
type name struct {
	addrs []netip.Addr
	srv   []*net.SRV
}

// resolver is how the resolver behaves.
type resolver struct {
	delay time.Duration
	err   error
}

// SetName makes a name lead to some addresses; none: the name exists and leads nowhere. The name of a host leads to its
// address unless it is set.
func (n *Network) SetName(host string, addrs ...netip.Addr) {
	n.setName(host, func(r *name) { r.addrs = addrs })
}

// SetSRV sets the service records of a name.
func (n *Network) SetSRV(host string, records ...*net.SRV) {
	n.setName(host, func(r *name) { r.srv = records })
}

func (n *Network) setName(host string, set func(*name)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	r := n.names[host]
	if r == nil {
		r = new(name)
		n.names[host] = r
	}
	set(r)
}

// SetResolver makes each lookup of a name take delay and, unless err is nil, fail with it. Addresses need no resolver.
func (n *Network) SetResolver(delay time.Duration, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.resolver = resolver{delay, err}
}

// Lookup returns the addresses of a name. An address is its own answer, and localhost is 127.0.0.1. A name without
// addresses is not found, as with net.Resolver.
func (h *Host) Lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{ip.Unmap()}, nil
	}
	if host == "localhost" {
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}, nil
	}
	if err := h.net.resolve(ctx, host); err != nil {
		return nil, err
	}
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	r, owner := h.net.names[host], h.net.byName[host]
	switch {
	case r != nil && len(r.addrs) > 0:
		return slices.Clone(r.addrs), nil
	case r == nil && owner != nil:
		return []netip.Addr{owner.IP()}, nil
	default:
		return nil, notFound(host)
	}
}

// LookupSRV returns the service records of a full name such as "_http._tcp.models".
func (h *Host) LookupSRV(ctx context.Context, service string) ([]*net.SRV, error) {
	if err := h.net.resolve(ctx, service); err != nil {
		return nil, err
	}
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	r := h.net.names[service]
	if r == nil || len(r.srv) == 0 {
		return nil, notFound(service)
	}
	return slices.Clone(r.srv), nil
}

// resolve is the resolver's mood.
func (n *Network) resolve(ctx context.Context, host string) error {
	n.mu.Lock()
	r := n.resolver
	n.mu.Unlock()
	if r.delay > 0 {
		t := time.NewTimer(r.delay)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			return &net.DNSError{Err: ctx.Err().Error(), UnwrapErr: ctx.Err(), Name: host, IsTimeout: true}
		}
	}
	if r.err != nil {
		return &net.DNSError{Err: r.err.Error(), UnwrapErr: r.err, Name: host, IsTemporary: true}
	}
	return nil
}

func notFound(host string) error {
	return &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}
