// Package sheet is what the benchmark programs have in common: how they start and end, the machine that they ran on, tables on
// the screen, figures in a file.
package sheet

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Grid aligns cells, the first columns to the left and the others to the right. A line without cells stays empty.
func Grid(lines [][]string, left int) string {
	var widths []int
	for _, line := range lines {
		for i, cell := range line {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], len(cell))
		}
	}
	var b strings.Builder
	for _, line := range lines {
		var text strings.Builder
		for i, cell := range line {
			if i < left {
				fmt.Fprintf(&text, "  %-*s", widths[i], cell)
			} else {
				fmt.Fprintf(&text, "  %*s", widths[i], cell)
			}
		}
		b.WriteString(strings.TrimRight(text.String(), " "))
		b.WriteByte('\n')
	}
	return b.String()
}

// Percentile is the nearest-rank percentile p (0..100) of sorted, 0 when it is empty.
func Percentile(sorted []time.Duration, p float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// Save writes a report as JSON, and makes the file's folder.
func Save(file string, report any) error {
	raw, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, append(raw, '\n'), 0o644)
}
