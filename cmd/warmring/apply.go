package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/warmring/warmring/api/admin"
	"github.com/warmring/warmring/api/fleet"
	"github.com/warmring/warmring/api/strict"
)

func newApply() *cobra.Command {
	var c client
	var file string
	var dry, prune, force bool
	cmd := &cobra.Command{
		Use:   "apply",
		Short: "Make the fleet what a file says, and print the difference",
		Long: `Make the fleet what a file says, in one epoch, and print the difference.

The file, YAML or JSON, holds endpoints and backends in the form of the configuration file. What it does not name stays,
unless --prune is given: then endpoints are removed and backends drained. Backends that DNS or a lease lists stay.`,
		Example: `  warmring apply -f fleet.yaml --dry-run
  warmring apply -f fleet.yaml --prune`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			body, err := readFleet(cmd, file)
			if err != nil {
				return err
			}
			query := url.Values{}
			for name, set := range map[string]bool{"dry_run": dry, "prune": prune, "force": force} {
				if set {
					query.Set(name, "true")
				}
			}
			answer, err := c.do(cmd.Context(), http.MethodPut, "/admin/v1/fleet?"+query.Encode(), body)
			if err != nil {
				return err
			}
			return render(cmd.OutOrStdout(), c.json, answer, printApplied)
		},
	}
	c.addTo(cmd)
	f := cmd.Flags()
	f.StringVarP(&file, "file", "f", "", "`file` with endpoints and backends; - is standard input")
	f.BoolVar(&dry, "dry-run", false, "only print the difference")
	f.BoolVar(&prune, "prune", false, "take out what the file does not name")
	f.BoolVar(&force, "force", false, "allow to take out more of the fleet at once than fleet.max_shrink")
	return cmd
}

// readFleet reads the file strictly, so that a mistake is told with its line, and
// returns it as the admin API takes it.
func readFleet(cmd *cobra.Command, file string) ([]byte, error) {
	if file == "" {
		return nil, usagef("-f is needed: a file with endpoints and backends")
	}
	text, err := readBody(cmd, file)
	if err != nil {
		return nil, err
	}
	var wanted fleet.Fleet
	if err := strict.YAML(bytes.NewReader(text), &wanted); err != nil {
		if e, ok := errors.AsType[*strict.Error](err); ok && !strings.ContainsAny(e.Path, ".[") {
			err = fmt.Errorf("%w\na file to apply holds endpoints and backends, and nothing else", err)
		}
		return nil, fmt.Errorf("%s is not a fleet:\n%w", file, err)
	}
	return json.Marshal(wanted)
}

// printApplied prints the difference like a plan: one line for what comes or goes,
// and one for each field that changes.
func printApplied(out io.Writer, a admin.Applied) error {
	if len(a.Difference) == 0 {
		_, err := fmt.Fprintf(out, "nothing to do: epoch %s is as the file says\n", a.Base)
		return err
	}
	var text bytes.Buffer
	p := palette(isTerminal(out))
	count := map[string]int{}
	for _, s := range a.Difference {
		count[s.Action]++
		printStep(&text, p, &s)
	}
	if a.DryRun {
		fmt.Fprintf(&text, "%d to add, %d to change, %d to drain, %d to remove; dry run: nothing was done to epoch %s\n",
			count["add"], count["change"], count["drain"], count["remove"], a.Base)
	} else {
		fmt.Fprintf(&text, "%d added, %d changed, %d draining, %d removed: epoch %s (digest %s)\n",
			count["add"], count["change"], count["drain"], count["remove"], a.Epoch, a.Digest)
	}
	_, err := text.WriteTo(out)
	return err
}

func printStep(text *bytes.Buffer, p colours, s *admin.Step) {
	switch s.Action {
	case "add":
		fmt.Fprintf(text, "%s %s %s:", p.green("+"), s.What, s.ID)
		for i, f := range s.Fields {
			fmt.Fprintf(text, "%s %s %s", strings.Repeat(",", min(i, 1)), f.Field, f.New)
		}
		text.WriteByte('\n')
	case "change":
		fmt.Fprintf(text, "%s %s %s\n", p.yellow("~"), s.What, s.ID)
		for _, f := range s.Fields {
			fmt.Fprintf(text, "    %s: %s -> %s\n", f.Field, orNone(f.Old), orNone(f.New))
		}
	case "drain":
		fmt.Fprintf(text, "%s %s %s: drained, leaves when its last request is over\n", p.red("-"), s.What, s.ID)
	default:
		fmt.Fprintf(text, "%s %s %s: removed\n", p.red("-"), s.What, s.ID)
	}
}

func orNone(value string) string {
	if value == "" {
		return "none"
	}
	return value
}
