package load

import (
	_ "embed"
	"html/template"
	"io"
	"maps"
	"slices"
)

//go:embed page.html
var pageText string

// WriteHTML writes the report as one page that needs nothing else.
func (r *Report) WriteHTML(out io.Writer) error {
	page, err := template.New("page").Funcs(template.FuncMap{
		"ms": figure, "percent": percent, "decisions": decisions, "times": times,
		"below": func(y float64) float64 { return plotHeight - y },
		"style": func(i int) int { return i % styles },
	}).Parse(pageText)
	if err != nil {
		return err
	}
	return page.Execute(out, map[string]any{
		"Report": r,
		"Charts": []chart{
			cdfChart(r.Runs),
			timeChart("Median time to first token, over the run", r.Runs, func(s Slice) float64 { return s.P50 }),
			timeChart("90th percentile of the time to first token, over the run", r.Runs, func(s Slice) float64 { return s.P90 }),
		},
		"Hits": hitBars(r.Runs), "Spreads": spreads(r.Runs),
		"Width": chartWidth, "Height": chartHeight, "Left": marginLeft, "Top": marginTop, "PlotWidth": plotWidth, "PlotHeight": plotHeight,
	})
}

func sortedKeys(m map[string]int) []string { return slices.Sorted(maps.Keys(m)) }
