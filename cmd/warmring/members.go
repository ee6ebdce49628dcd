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

func newMembers() *cobra.Command {
	return view("members", "List the routers of the cluster and whether they agree", printMembers)
}

func newEpochs() *cobra.Command {
	return view("epochs", "List the last epochs and what each changed", printEpochs)
}

func printMembers(out io.Writer, list []admin.Member) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(out, "this router is alone: it is not part of a cluster")
		return err
	}
	var t table
	t.row("ROUTER", "ROLE", "EPOCH", "DIGEST", "AGREES", "VIEW AGE", "ADDRESS", "NAME")
	for _, m := range list {
		name, role := m.Router, m.Role
		if m.Self {
			name += " *"
		}
		if m.Leaving {
			role += ", leaving"
		}
		t.row(name, role, cmp.Or(m.Epoch, "-"), cmp.Or(m.Digest, "-"), agrees(m.Agrees), viewAge(m.ViewAge), m.Address, m.Name)
	}
	return t.write(out)
}

// agrees: a difference must be seen among many that agree.
func agrees(same *bool) string {
	switch {
	case same == nil:
		return "-"
	case *same:
		return "yes"
	}
	return "NO"
}

func viewAge(ms *float64) string {
	if ms == nil {
		return "-"
	}
	return fmt.Sprintf("%.0f ms", *ms)
}

func printEpochs(out io.Writer, list []admin.EpochInfo) error {
	var t table
	t.row("EPOCH", "AT", "DIGEST", "BY", "WHAT")
	for _, e := range list {
		changes := make([]string, 0, len(e.Changes))
		for _, c := range e.Changes {
			changes = append(changes, changeWords(c))
		}
		t.row(e.ID, e.At.Format(time.RFC3339), e.Digest, cmp.Or(e.By, "-"), cmp.Or(strings.Join(changes, "; "), "-"))
	}
	return t.write(out)
}

// changeWords names the first few.
func changeWords(c admin.EpochChange) string {
	if len(c.IDs) == 0 {
		return fmt.Sprintf("%s: %d", c.Kind, c.Count)
	}
	const most = 5
	shown := min(len(c.IDs), most)
	text := c.Kind + ": " + strings.Join(c.IDs[:shown], ", ")
	if more := c.Count - shown; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
