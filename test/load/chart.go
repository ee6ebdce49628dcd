package load

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Sizes of a chart in SVG user units. The plot is what is within the margins.
const (
	chartWidth   = 640.
	chartHeight  = 280.
	marginLeft   = 56.
	marginRight  = 12.
	marginTop    = 12.
	marginBottom = 40.
	plotWidth    = chartWidth - marginLeft - marginRight
	plotHeight   = chartHeight - marginTop - marginBottom
)

// styles is how many looks of lines and bars the page's style sheet has; then they repeat.
const styles = 8

// chart is lines over axes, in SVG user units.
type chart struct {
	Title, Text  string // Text is for those who cannot see it
	XName, YName string
	X, Y         []tick
	Lines        []line
}

type tick struct {
	At    float64
	Label string
}

type line struct {
	Name, Points string
	Style        int
}

type axis struct {
	low, high float64
	log       bool
	size      float64
}

// at is where on the axis a value lies.
func (a axis) at(v float64) float64 {
	low, high := a.low, a.high
	if a.log {
		v, low, high = math.Log(max(v, a.low)), math.Log(low), math.Log(high)
	}
	if high <= low {
		return 0
	}
	return a.size * min(1, max(0, (v-low)/(high-low)))
}

// ticks are round numbers: 1, 2 and 5 times powers of ten.
func (a axis) ticks() []tick {
	var out []tick
	if a.log {
		for p := math.Pow(10, math.Floor(math.Log10(a.low))); p <= a.high; p *= 10 {
			for _, m := range []float64{1, 2, 5} {
				if v := p * m; v >= a.low && v <= a.high {
					out = append(out, tick{a.at(v), fmt.Sprintf("%g", v)})
				}
			}
		}
		return out
	}
	step := roundStep((a.high - a.low) / 5)
	for i := math.Ceil(a.low / step); i*step <= a.high; i++ {
		out = append(out, tick{a.at(i * step), fmt.Sprintf("%g", i*step)})
	}
	return out
}

// roundStep is the next of 1, 2 and 5 times a power of ten.
func roundStep(v float64) float64 {
	if !(v > 0) {
		return 1
	}
	p := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5} {
		if p*m >= v {
			return p * m
		}
	}
	return 10 * p
}

// roundOut makes both ends of a logarithmic axis ticks, so that it has some.
func (a *axis) roundOut() {
	a.high = roundStep(a.high)
	a.low = 1 / roundStep(1/a.low)
}

// cdfChart has the time on a logarithmic axis: what matters lies between milliseconds and many seconds.
func cdfChart(runs []Summary) chart {
	x := axis{low: math.Inf(1), log: true, size: plotWidth}
	for _, r := range runs {
		if n := len(r.CDF); n > 0 {
			x.low, x.high = min(x.low, max(r.CDF[0].Ms, 0.1)), max(x.high, r.CDF[n-1].Ms)
		}
	}
	if x.high <= x.low {
		x.low, x.high = x.high/2+0.1, 2*x.high+1
	}
	x.roundOut()
	y := axis{high: 100, size: plotHeight}
	c := chart{
		Title: "Time to first token, all requests", Text: "Share of the requests that had their first token within a time. ",
		XName: "ms, logarithmic", YName: "% of requests", X: x.ticks(), Y: y.ticks(),
	}
	for i, r := range runs {
		var at []string
		for _, p := range r.CDF {
			at = append(at, point(x.at(p.Ms), y.at(100*p.Share)))
		}
		c.add(i, r.Name, at, fmt.Sprintf("half within %s ms, 90 %% within %s ms", figure(r.P50), figure(r.P90)))
	}
	return c
}

// timeChart shows one figure of each slice.
func timeChart(title string, runs []Summary, of func(Slice) float64) chart {
	x, y := axis{size: plotWidth}, axis{size: plotHeight}
	for _, r := range runs {
		for _, s := range r.Slices {
			x.high, y.high = max(x.high, s.At), max(y.high, of(s))
		}
	}
	y.high *= 1.1 // no line behind the axis' name
	c := chart{
		Title: title, Text: title + ". ", XName: "seconds since the run began", YName: "ms",
		X: x.ticks(), Y: y.ticks(),
	}
	for i, r := range runs {
		var at []string
		most := 0.
		for _, s := range r.Slices {
			at = append(at, point(x.at(s.At), y.at(of(s))))
			most = max(most, of(s))
		}
		c.add(i, r.Name, at, fmt.Sprintf("at most %s ms", figure(most)))
	}
	return c
}

func (c *chart) add(i int, name string, at []string, words string) {
	if len(at) == 1 {
		at = append(at, at[0]) // a dot
	}
	c.Lines = append(c.Lines, line{Name: name, Points: strings.Join(at, " "), Style: i % styles})
	c.Text += name + ": " + words + ". "
}

// point is in the plot's own units, whose origin is at the lower left.
func point(x, y float64) string { return fmt.Sprintf("%.1f,%.1f", x, plotHeight-y) }

// bar is a share of 0..1 as a part of a row.
type bar struct {
	Name, Label string
	Share       float64 // of the longest one that there can be, in percent
	Style       int
}

func hitBars(runs []Summary) []bar {
	var out []bar
	for i, r := range runs {
		if r.Hit != nil {
			out = append(out, bar{r.Name, percent(r.Hit) + " %", 100 * *r.Hit, i % styles})
		}
	}
	return out
}

// barsMost bounds the bars of a run: nobody reads more.
const barsMost = 100

// spread is how a run's requests were spread over the servers. All runs have the same scale.
type spread struct {
	Name   string
	Fair   float64 // what each would get, on the bars' scale
	Bars   []bar
	Hidden int // servers without a bar
}

func spreads(runs []Summary) []spread {
	scale := 0.
	for _, r := range runs {
		if r.ShareMax != nil {
			scale = max(scale, *r.ShareMax, 1/float64(len(r.Servers)))
		}
	}
	var out []spread
	for i, r := range runs {
		if len(r.Servers) == 0 {
			continue
		}
		s := spread{Name: r.Name, Fair: 100 / float64(len(r.Servers)) / scale, Hidden: max(0, len(r.Servers)-barsMost)}
		for _, server := range r.Servers[:min(len(r.Servers), barsMost)] {
			s.Bars = append(s.Bars, bar{server.Name, percent(&server.Share) + " %", 100 * server.Share / scale, i % styles})
		}
		out = append(out, s)
	}
	return slices.Clip(out)
}
