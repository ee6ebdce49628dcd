package main

import (
	"bytes"
	"fmt"
	"io"
	"text/tabwriter"
)

// table collects rows and writes them with their cells aligned.
type table struct{ text bytes.Buffer }

func (t *table) row(cells ...any) {
	for i, c := range cells {
		if i > 0 {
			t.text.WriteByte('\t')
		}
		fmt.Fprint(&t.text, c)
	}
	t.text.WriteByte('\n')
}

func (t *table) write(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if _, err := t.text.WriteTo(w); err != nil {
		return err
	}
	return w.Flush()
}
