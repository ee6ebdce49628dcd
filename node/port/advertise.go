package port

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
)

var errAdvertise = errors.New("peer.advertise: must be set: peer.listen is every address of the machine, and none of those is for others to reach")

// choose says where others reach a port that is bound to addr.
func (p *Port) choose(addr net.Addr) (netip.AddrPort, error) {
	bound, err := netip.ParseAddrPort(addr.String())
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("peer.listen: %w", err)
	}
	switch {
	case p.cfg.Advertise != "":
		return p.cfg.advertise(bound.Port())
	case !bound.Addr().IsUnspecified():
		return netip.AddrPortFrom(bound.Addr().Unmap().WithZone(""), bound.Port()), nil
	case p.deps.Interfaces == nil:
		return netip.AddrPort{}, errAdvertise
	}
	own, err := p.deps.Interfaces()
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("peer.advertise: %w", err)
	}
	ip, ok := best(own)
	if !ok {
		return netip.AddrPort{}, errAdvertise
	}
	return netip.AddrPortFrom(ip, bound.Port()), nil
}

// best chooses the address that others are most likely to reach: IPv4 before IPv6, private before public, else the first
// one. Loopback and link-local addresses do not count.
func best(own []netip.Addr) (netip.Addr, bool) {
	fit := make([]netip.Addr, 0, len(own))
	for _, ip := range own {
		if ip = ip.Unmap(); ip.IsGlobalUnicast() {
			fit = append(fit, ip)
		}
	}
	rank := func(ip netip.Addr) int {
		r := 0
		if !ip.Is4() {
			r += 2
		}
		if !ip.IsPrivate() {
			r++
		}
		return r
	}
	if len(fit) == 0 {
		return netip.Addr{}, false
	}
	return slices.MinFunc(fit, func(a, b netip.Addr) int { return cmp.Compare(rank(a), rank(b)) }), true
}

// Interfaces lists the addresses of this machine, for Deps.
func Interfaces() ([]netip.Addr, error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	var own []netip.Addr
	for _, addr := range all {
		if prefix, err := netip.ParsePrefix(addr.String()); err == nil {
			own = append(own, prefix.Addr())
		}
	}
	return own, nil
}
