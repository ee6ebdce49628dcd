package discovery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/warmring/warmring/node/plan"
)

const (
	// lookupTimeout bounds one lookup.
	lookupTimeout = 5 * time.Second
	// maxAnswers is how many backends one name may stand for.
	maxAnswers = 4096
)

// ErrEmpty is an answer without an address. Nobody can tell whether the fleet is gone or the name server's data.
var ErrEmpty = errors.New("the answer is empty")

// ErrTooMany is an answer with more addresses than can be believed.
var ErrTooMany = fmt.Errorf("the answer has more than %d addresses", maxAnswers)

func (d DNSConfig) source() string { return "dns:" + d.Name }

// resolve returns the backends that a name stands for, sorted by id, each once.
func (d *Discovery) resolve(ctx context.Context, dns DNSConfig) ([]plan.Found, error) {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	addresses, err := d.lookup(ctx, dns)
	switch {
	case err != nil:
		return nil, err
	case len(addresses) == 0:
		return nil, ErrEmpty
	case len(addresses) > maxAnswers:
		return nil, ErrTooMany
	}
	list := make([]plan.Found, 0, len(addresses))
	for _, address := range addresses {
		list = append(list, plan.Found{
			ID: address, URL: dns.Scheme + "://" + address, Endpoint: dns.Endpoint, Variant: dns.Variant,
			Weight: dns.Weight, Source: dns.source(),
		})
	}
	slices.SortFunc(list, func(a, b plan.Found) int { return cmp.Compare(a.ID, b.ID) })
	return slices.Compact(list), nil
}

// lookup returns host:port of each record.
func (d *Discovery) lookup(ctx context.Context, dns DNSConfig) ([]string, error) {
	var addresses []string
	if !dns.SRV {
		hosts, err := d.deps.Lookup(ctx, dns.Name)
		for _, host := range hosts {
			addresses = append(addresses, netip.AddrPortFrom(host.Unmap(), uint16(dns.Port)).String())
		}
		return addresses, err
	}
	records, err := d.deps.LookupSRV(ctx, dns.Name)
	for _, r := range records {
		// RFC 2782: a target of "." means that the service is decidedly not available there.
		if host := strings.ToLower(strings.TrimSuffix(r.Target, ".")); host != "" {
			addresses = append(addresses, net.JoinHostPort(host, strconv.Itoa(int(r.Port))))
		}
	}
	return addresses, err
}
