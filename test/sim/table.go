package sim

import (
	"fmt"
	"io"
	"slices"
	"sync"
	"text/tabwriter"
	"time"
)

// table collects how long waits took, over all seeds of a test.
type table struct {
	mu    sync.Mutex // guards all below; held for moments only, since bubbles share it
	names []string   // in the order of their first use
	took  map[string][]time.Duration
}

func newTable() *table { return &table{took: map[string][]time.Duration{}} }

func (t *table) add(name string, d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.took[name] == nil {
		t.names = append(t.names, name)
	}
	t.took[name] = append(t.took[name], d)
}

// print writes a line for each wait, in virtual time.
func (t *table) print(out io.Writer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.names) == 0 {
		return
	}
	tab := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(tab, "virtual time until\tn\tp50\tp95\tmax") // an output of a test
	for _, name := range t.names {
		d := slices.Sorted(slices.Values(t.took[name]))
		_, _ = fmt.Fprintf(tab, "%s\t%d\t%v\t%v\t%v\n", name, len(d), rank(d, 0.5), rank(d, 0.95), rank(d, 1))
	}
	_ = tab.Flush()
}

// rank is the q-quantile of sorted values.
func rank(d []time.Duration, q float64) time.Duration {
	return d[int(q*float64(len(d)-1)+0.5)].Round(time.Millisecond)
}
