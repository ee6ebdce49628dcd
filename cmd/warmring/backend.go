package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/warmring/warmring/api/admin"
)

func newBackend() *cobra.Command {
	return group("backend", "Change the model servers, through any router of the cluster",
		newBackendAdd(), newBackendDrain(), newBackendRemove(), newBackendWeight())
}

// backendPath is a backend's place in the admin API; ids may have slashes.
func backendPath(id, suffix string) string {
	return "/admin/v1/backends/" + url.PathEscape(id) + suffix
}

// words takes exactly as many arguments as are named, none of them empty.
func words(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		empty := slices.Index(args, "")
		switch {
		case empty >= 0 && empty < len(names):
			return usagef("%s is empty: %s", names[empty], cmd.UseLine())
		case len(args) < len(names):
			return usagef("%s is needed: %s", names[len(args)], cmd.UseLine())
		case len(args) > len(names):
			return usagef("unexpected %q: %s", args[len(names)], cmd.UseLine())
		}
		return nil
	}
}

// change sends a write and prints what it did, or the answer with --json.
func (c *client) change(cmd *cobra.Command, method, path string, body any, did string) error {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return err
		}
	}
	answer, err := c.do(cmd.Context(), method, path, text)
	if err != nil {
		return err
	}
	return render(cmd.OutOrStdout(), c.json, answer, func(out io.Writer, w admin.Written) error {
		_, err := fmt.Fprintf(out, "%s: epoch %s (digest %s)\n", did, w.Epoch, w.Digest)
		return err
	})
}

func newBackendAdd() *cobra.Command {
	var c client
	var w waiting
	var weight float64
	cmd := &cobra.Command{
		Use:   "add ID --url URL",
		Short: "Add a model server, change one, or cancel its drain",
		Long: `Add a model server, or change one: what no flag names stays as it is.

A new one gets requests as soon as the routers that probe it find it ready. The URL of one that drains cancels that.`,
		Example: "  warmring backend add gpu-7 --url http://10.0.0.17:8000 --wait",
		Args:    words("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !isWeight(weight) {
				return usagef("--weight %v: must be a number above 0", weight)
			}
			body := map[string]any{}
			for _, f := range []struct{ flag, field string }{
				{"url", "url"}, {"endpoint", "endpoint"}, {"variant", "variant"}, {"weight", "weight"}, {"max-inflight", "max_inflight"},
			} {
				switch flag := cmd.Flags().Lookup(f.flag); {
				case !flag.Changed:
				case flag.Value.Type() == "string":
					body[f.field] = flag.Value.String()
				default:
					body[f.field] = json.Number(flag.Value.String())
				}
			}
			if err := c.change(cmd, http.MethodPut, backendPath(args[0], ""), body, args[0]+" is in the fleet"); err != nil {
				return err
			}
			return w.until(cmd, &c, args[0], active)
		},
	}
	c.addTo(cmd)
	w.addTo(cmd, "until it gets requests")
	f := cmd.Flags()
	f.String("url", "", "its `address`, such as http://10.0.0.17:8000")
	f.String("endpoint", "", "its endpoint; needed where there are several")
	f.String("variant", "", "its variant; the endpoint's first unless given")
	f.Float64Var(&weight, "weight", 1, "its capacity relative to the others")
	f.Int("max-inflight", 0, "requests at once, over all routers; 0: no limit")
	return cmd
}

func newBackendDrain() *cobra.Command {
	var c client
	var w waiting
	var force bool
	cmd := &cobra.Command{
		Use:   "drain ID",
		Short: "Give a model server no new requests, and take it out when its last one is over",
		Args:  words("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := c.change(cmd, http.MethodPost, backendPath(args[0], "/drain"+forced(force)), nil, args[0]+" drains"); err != nil {
				return err
			}
			return w.until(cmd, &c, args[0], drained())
		},
	}
	c.addTo(cmd)
	w.addTo(cmd, "until its last request is over, on all routers")
	addForce(cmd, &force)
	return cmd
}

func newBackendRemove() *cobra.Command {
	var c client
	var force bool
	cmd := &cobra.Command{
		Use:   "remove ID",
		Short: "Take a model server out of the fleet at once; its requests may finish",
		Args:  words("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.change(cmd, http.MethodDelete, backendPath(args[0], forced(force)), nil, args[0]+" is out of the fleet")
		},
	}
	c.addTo(cmd)
	addForce(cmd, &force)
	return cmd
}

func newBackendWeight() *cobra.Command {
	var c client
	cmd := &cobra.Command{
		Use:   "weight ID WEIGHT",
		Short: "Change a model server's share of the traffic, relative to the others",
		Args:  words("ID", "WEIGHT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			weight, err := strconv.ParseFloat(args[1], 64)
			if err != nil || !isWeight(weight) {
				return usagef("WEIGHT %q: must be a number above 0; drain a server that should get nothing", args[1])
			}
			return c.change(cmd, http.MethodPut, backendPath(args[0], "/weight"), map[string]float64{"weight": weight},
				fmt.Sprintf("%s has weight %v", args[0], weight))
		},
	}
	c.addTo(cmd)
	return cmd
}

// isWeight keeps out what JSON cannot say; the router judges the rest.
func isWeight(w float64) bool { return w > 0 && !math.IsInf(w, 0) }

func addForce(cmd *cobra.Command, force *bool) {
	cmd.Flags().BoolVar(force, "force", false, "allow to take out more of the fleet at once than fleet.max_shrink")
}

func forced(force bool) string {
	if force {
		return "?force=true"
	}
	return ""
}
