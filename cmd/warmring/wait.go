package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/warmring/warmring/api/admin"
)

// waitPoll is how often a router is asked how far a backend is.
const waitPoll = 250 * time.Millisecond

// waiting are the flags of a command that can wait for what it began.
type waiting struct {
	wait    bool
	timeout time.Duration
}

func (w *waiting) addTo(cmd *cobra.Command, until string) {
	cmd.Flags().BoolVar(&w.wait, "wait", false, "wait "+until)
	cmd.Flags().DurationVar(&w.timeout, "timeout", 15*time.Minute, "give up waiting after this time")
}

// active says whether a backend (nil: not in the fleet) gets requests.
func active(b *admin.BackendStatus) bool { return b != nil && b.State == "active" }

// drained returns a function that says whether a backend is gone, or has had no requests for as long as counts need to come
// from all routers: one that DNS or a lease lists stays in the fleet until it is listed no more.
func drained() func(b *admin.BackendStatus) bool {
	const enough = int(3 * time.Second / waitPoll)
	idle := 0
	return func(b *admin.BackendStatus) bool {
		if b != nil && b.State == "draining" && b.InFlight+b.PeerInFlight == 0 {
			idle++
		} else {
			idle = 0
		}
		return b == nil || idle > enough
	}
}

// until asks again and again until the backend is as wanted, and shows how far it is where
// standard error is a terminal.
func (w *waiting) until(cmd *cobra.Command, c *client, id string, wanted func(*admin.BackendStatus) bool) error {
	if !w.wait {
		return nil
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), w.timeout)
	defer cancel()
	line := newLiveLine(cmd.ErrOrStderr())
	defer line.clear()
	tick := time.NewTicker(waitPoll)
	defer tick.Stop()
	for {
		b, err := c.backend(ctx, id)
		if err != nil && ctx.Err() == nil {
			return err
		}
		if err == nil && wanted(b) {
			return nil
		}
		line.show("%s: %s", id, progress(b))
		select {
		case <-ctx.Done():
			return fmt.Errorf("gave up waiting for %s: it is %s; the change itself is made", id, progress(b))
		case <-tick.C:
		}
	}
}

// backend asks for one model server; nil: it is not in the fleet.
func (c *client) backend(ctx context.Context, id string) (*admin.BackendStatus, error) {
	answer, err := c.do(ctx, http.MethodGet, "/admin/v1/backends", nil)
	if err != nil {
		return nil, err
	}
	var list []admin.BackendStatus
	if err := json.Unmarshal(answer, &list); err != nil {
		return nil, fmt.Errorf("the router's answer: %w", err)
	}
	i := slices.IndexFunc(list, func(b admin.BackendStatus) bool { return b.ID == id && !b.Gone })
	if i < 0 {
		return nil, nil //nolint:nilnil // not being there is what is asked
	}
	return &list[i], nil
}

func progress(b *admin.BackendStatus) string {
	if b == nil {
		return "not in the fleet"
	}
	return fmt.Sprintf("%s, %d requests in flight", b.State, b.InFlight+b.PeerInFlight)
}
