package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/warmring/warmring/api/admin"
	"github.com/warmring/warmring/api/fleet"
	"github.com/warmring/warmring/routing"
	"github.com/warmring/warmring/test/load"
)

const (
	policySpread  = 10 * time.Second // how long all routers are waited for
	policyRestore = 30 * time.Second // how long the former policy may take to come back
)

// policy is how a variant's requests are spread, as an operator writes it.
type policy = fleet.Routing

// parsePolicy reads STRATEGY or PREFIX_AWARE:LENGTH.
func parsePolicy(text string) (policy, error) {
	name, length, has := strings.Cut(text, ":")
	p := policy{Strategy: routing.Strategy(name)}
	switch p.Strategy {
	case routing.Random, routing.LeastOutstandingRequests:
		if has {
			return p, fmt.Errorf("--strategies %q: only PREFIX_AWARE has a length", text)
		}
	case routing.PrefixAware:
		if err := p.PrefixLength.UnmarshalText([]byte(cmp.Or(length, "auto"))); err != nil {
			return p, fmt.Errorf("--strategies %q: %w", text, err)
		}
		if n := int(p.PrefixLength); n != 0 && (n < routing.MinPrefixLength || n > routing.MaxPrefixLength) {
			return p, fmt.Errorf("--strategies %q: the length must be auto or %d to %d", text, routing.MinPrefixLength, routing.MaxPrefixLength)
		}
	default:
		return p, fmt.Errorf("--strategies %q: must be RANDOM, LEAST_OUTSTANDING_REQUESTS, PREFIX_AWARE:auto or PREFIX_AWARE:CHARACTERS", text)
	}
	return p, nil
}

// compare measures the runs, each under its policy, and restores the policies that were there before.
func (b *bench) compare(cmd *cobra.Command, runs []benchRun, report *load.Report) (err error) {
	ctx := cmd.Context()
	before, err := b.admin.endpoint(ctx, runs[0].target.Model)
	if err != nil {
		return err
	}
	undo, err := b.admin.undo(&before)
	if err != nil {
		return err
	}
	cmd.PrintErrf("%s gets its strategy back at the end: %s. After kill -9, do it with:\n  %s\n",
		before.Name, policiesOf(before), undo)
	defer func() {
		// Also after Ctrl-C: the fleet must not keep a policy that was only tried.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), policyRestore)
		defer cancel()
		if restoreErr := b.admin.restore(ctx, before); restoreErr != nil {
			err = errors.Join(err, fmt.Errorf("the former strategy of %s (%s) could not be restored: %w\nDo it with (--admin may name any router of the cluster):\n  %s",
				before.Name, policiesOf(before), restoreErr, undo))
			return
		}
		cmd.PrintErrf("%s has its former strategy again: %s\n", before.Name, policiesOf(before))
	}()
	return b.measure(cmd, runs, report, func(ctx context.Context, r *benchRun) ([]string, error) {
		err := b.admin.setPolicies(ctx, before.Name, func(string) (policy, bool) { return *r.policy, true })
		if err != nil {
			return nil, err
		}
		return b.admin.serversOf(ctx, before.Name)
	})
}

// endpoint finds the endpoint of a model, by its name, an alias or an adapter.
func (c *client) endpoint(ctx context.Context, model string) (admin.EndpointStatus, error) {
	list, err := get[[]admin.EndpointStatus](ctx, c, "/admin/v1/endpoints")
	if err != nil {
		return admin.EndpointStatus{}, err
	}
	i := slices.IndexFunc(list, func(e admin.EndpointStatus) bool {
		return e.Name == model || slices.Contains(e.Aliases, model) || slices.Contains(e.Adapters, model)
	})
	if i < 0 {
		return admin.EndpointStatus{}, fmt.Errorf("the router at %s has no endpoint for the model %q: --admin must be a router of --url's cluster", c.admin, model)
	}
	return list[i], nil
}

// setPolicies gives each variant of an endpoint the policy that of returns for it, in one epoch, and waits until all routers have
// that. Everything else stays as it is now.
func (c *client) setPolicies(ctx context.Context, name string, of func(variant string) (policy, bool)) error {
	now, err := c.endpoint(ctx, name)
	if err != nil {
		return err
	}
	body, err := withPolicies(&now, of)
	if err != nil {
		return err
	}
	answer, err := c.do(ctx, http.MethodPut, "/admin/v1/fleet", body)
	if err != nil {
		return err
	}
	var applied admin.Applied
	if err := json.Unmarshal(answer, &applied); err != nil {
		return fmt.Errorf("the router's answer: %w", err)
	}
	return c.untilAllHave(ctx, applied.Epoch)
}

// withPolicies is an endpoint as the admin API takes it. Variants for which of has nothing have the policy that they show.
func withPolicies(now *admin.EndpointStatus, of func(variant string) (policy, bool)) ([]byte, error) {
	e := fleet.Endpoint{Name: now.Name, Aliases: now.Aliases, Adapters: now.Adapters}
	for _, v := range now.Variants {
		p, ok := of(v.Name)
		if !ok {
			var err error
			if p, err = policyOf(&v); err != nil {
				return nil, err
			}
		}
		e.Variants = append(e.Variants, fleet.Variant{Name: v.Name, Weight: v.Weight, Routing: p})
	}
	return json.Marshal(fleet.Fleet{Endpoints: []fleet.Endpoint{e}, Backends: []fleet.Backend{}})
}

// undo is a line for a shell that gives an endpoint the policies that it has now. It is for those who cannot call restore any more.
func (c *client) undo(now *admin.EndpointStatus) (string, error) {
	body, err := withPolicies(now, func(string) (policy, bool) { return policy{}, false })
	if err != nil {
		return "", err
	}
	line := "printf %s " + shellQuote(string(body)) + " | warmring apply -f - --admin " + shellQuote(c.admin)
	if c.tokenFile != "" {
		line += " --token-file " + shellQuote(c.tokenFile)
	}
	return line, nil
}

// shellQuote makes one word of a text, in any shell of POSIX.
func shellQuote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// restore gives the variants the policies that they had. It writes nothing where they have them.
func (c *client) restore(ctx context.Context, before admin.EndpointStatus) error {
	now, err := c.endpoint(ctx, before.Name)
	if err != nil {
		return err
	}
	if policiesOf(now) == policiesOf(before) {
		return nil
	}
	former := map[string]policy{}
	for _, v := range before.Variants {
		p, err := policyOf(&v)
		if err != nil {
			return err
		}
		former[v.Name] = p
	}
	return c.setPolicies(ctx, before.Name, func(variant string) (policy, bool) {
		p, ok := former[variant]
		return p, ok
	})
}

// policyOf reads what the admin API shows.
func policyOf(v *admin.VariantStatus) (policy, error) {
	p := policy{Strategy: routing.Strategy(v.Strategy), ConcurrencyThreshold: v.ConcurrencyThreshold}
	if v.PrefixLength == "" {
		return p, nil
	}
	if err := p.PrefixLength.UnmarshalText([]byte(v.PrefixLength)); err != nil {
		return p, fmt.Errorf("the router's answer: variant %s: %w", v.Name, err)
	}
	return p, nil
}

// policiesOf are the policies of an endpoint in words.
func policiesOf(e admin.EndpointStatus) string {
	var parts []string
	for _, v := range e.Variants {
		text := v.Strategy
		if v.PrefixLength != "" {
			text += ":" + v.PrefixLength
		}
		if v.ConcurrencyThreshold > 0 {
			text += fmt.Sprintf(" (threshold %d)", v.ConcurrencyThreshold)
		}
		if len(e.Variants) > 1 {
			text = v.Name + " " + text
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

// untilAllHave returns when all routers of the cluster have an epoch, or after a while: one that is away does not matter.
func (c *client) untilAllHave(ctx context.Context, epoch string) error {
	limit, cancel := context.WithTimeout(ctx, policySpread)
	defer cancel()
	tick := time.NewTicker(waitPoll)
	defer tick.Stop()
	for {
		members, err := get[[]admin.Member](limit, c, "/admin/v1/members")
		if err == nil && !slices.ContainsFunc(members, func(m admin.Member) bool { return !m.Leaving && older(m.Epoch, epoch) }) {
			return nil
		}
		select {
		case <-limit.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// older: an epoch is before another. One that cannot be read is that of a router without a fleet, which gets no requests.
func older(epoch, than string) bool {
	a, errA := parseEpoch(epoch)
	b, errB := parseEpoch(than)
	return errA == nil && errB == nil && slices.Compare(a[:], b[:]) < 0
}

// parseEpoch reads generation.number.
func parseEpoch(text string) (id [2]uint64, err error) {
	_, err = fmt.Sscanf(text, "%d.%d", &id[0], &id[1])
	return id, err
}

// serversOf are the active model servers of an endpoint.
func (c *client) serversOf(ctx context.Context, endpoint string) ([]string, error) {
	list, err := get[[]admin.BackendStatus](ctx, c, "/admin/v1/backends")
	var names []string
	for _, b := range list {
		if b.Endpoint == endpoint && b.State == routing.Active.String() && !b.Gone {
			names = append(names, b.ID)
		}
	}
	return names, err
}

// get asks for something and decodes the answer.
func get[T any](ctx context.Context, c *client, path string) (T, error) {
	var answer T
	body, err := c.do(ctx, http.MethodGet, path, nil)
	if err != nil {
		return answer, err
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return answer, fmt.Errorf("the router's answer: %w", err)
	}
	return answer, nil
}
