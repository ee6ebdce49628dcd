package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/warmring/warmring/api/admin"
)

func newStatus() *cobra.Command {
	return view("status", "Show a router's state", printStatus)
}

func newEndpoints() *cobra.Command {
	return view("endpoints", "List the endpoints and how their requests are spread", printEndpoints)
}

func newBackends() *cobra.Command {
	return view("backends", "List the model servers as a router sees them", printBackends)
}

// view is a command that shows what the admin API has under its name.
func view[T any](name, short string, print func(io.Writer, T) error) *cobra.Command {
	var c client
	cmd := &cobra.Command{
		Use:   name,
		Short: short,
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return show(cmd, &c, "/admin/v1/"+name, print)
		},
	}
	c.addTo(cmd)
	return cmd
}

func printStatus(out io.Writer, s admin.Status) error {
	ready := "yes"
	if !s.Ready {
		ready = "no: " + s.NotReady
	}
	var t table
	t.row("router", s.Router)
	t.row("version", s.Version)
	t.row("ready", ready)
	t.row("up since", s.Started.Format(time.RFC3339))
	t.row("epoch", fmt.Sprintf("%s (digest %s)", s.Epoch, s.Digest))
	t.row("endpoints", s.Endpoints)
	t.row("backends", s.Backends)
	t.row("in flight", s.InFlight)
	t.row("queued", s.Queued)
	if s.Cluster != nil {
		clusterRows(&t, s.Cluster)
	}
	return t.write(out)
}

func clusterRows(t *table, c *admin.ClusterStatus) {
	t.row("cluster", fmt.Sprintf("%s (generation %d)", cmp.Or(c.ID, "not founded yet"), c.Generation))
	t.row("role", c.Role)
	t.row("leader", cmp.Or(c.Leader, "not known"))
	quorum := "yes"
	if !c.Quorum {
		quorum = "no: requests are served, the fleet cannot be changed"
	}
	t.row("quorum", quorum)
	t.row("voters", cmp.Or(strings.Join(c.Voters, ", "), "none"))
	t.row("members", c.Members)
	if c.Waiting != "" {
		t.row("waits for", c.Waiting)
	}
}

func printEndpoints(out io.Writer, list []admin.EndpointStatus) error {
	var t table
	t.row("ENDPOINT", "VARIANT", "WEIGHT", "STRATEGY", "PREFIX LENGTH", "THRESHOLD", "ACTIVE", "IN FLIGHT", "ALSO CALLED")
	for _, e := range list {
		names := cmp.Or(strings.Join(append(e.Aliases, e.Adapters...), ","), "-")
		for _, v := range e.Variants {
			t.row(e.Name, v.Name, v.Weight, v.Strategy, cmp.Or(v.PrefixLength, "-"), orDash(v.ConcurrencyThreshold),
				fmt.Sprintf("%d/%d", v.Active, v.Backends), v.InFlight, names)
		}
	}
	return t.write(out)
}

func printBackends(out io.Writer, list []admin.BackendStatus) error {
	var t table
	t.row("BACKEND", "URL", "ENDPOINT", "VARIANT", "STATE", "IN FLIGHT", "PEERS", "MAX", "PREFILL", "PICKS", "LISTED BY")
	for _, b := range list {
		t.row(b.ID, b.URL, b.Endpoint, b.Variant, stateOf(&b), b.InFlight, b.PeerInFlight, orDash(b.MaxInFlight),
			b.Prefill, b.Picks, cmp.Or(b.Source, "-"))
	}
	return t.write(out)
}

// stateOf is the agreed state and, after it, what this router thinks at the moment.
func stateOf(b *admin.BackendStatus) string {
	switch {
	case b.Gone:
		return "removed"
	case b.EjectedUntil != nil:
		return b.State + ", ejected"
	case b.Rumoured:
		return fmt.Sprintf("%s, shut: %d peers ejected it", b.State, b.PeersEjected)
	case b.BusyUntil != nil:
		return b.State + ", busy"
	}
	return b.State
}

func orDash(n int) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}
