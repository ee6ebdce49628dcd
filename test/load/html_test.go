package load

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"
)

// two runs, whose names and errors try to be markup.
func twoRuns() *Report {
	const evil = `<script>alert("x")</script>`
	r := &Report{
		Started: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Setup:   []Setting{{"workload", evil}},
	}
	for i, name := range []string{"RANDOM", `</title>` + evil} {
		result := &Result{Sending: 10 * time.Second}
		for n := range 40 {
			at := time.Duration(n) * 250 * msec
			result.Requests = append(result.Requests, answered(at, time.Duration(10+n*(i+1))*msec, []string{"gpu-0", `"><b>`}[n%4/3], 100, 50*i))
		}
		result.Requests = append(result.Requests, Request{Err: errors.New(evil)})
		r.Runs = append(r.Runs, Summarise(name, result, 0, nil))
	}
	return r
}

func page(t *testing.T, r *Report) string {
	t.Helper()
	var out strings.Builder
	if err := r.WriteHTML(&out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestPage(t *testing.T) {
	text := page(t, twoRuns())
	for _, piece := range []string{
		`<tr><th scope="row">RANDOM</th><td>41</td><td>1</td><td>0.0</td><td>29.0</td><td>45.0</td><td>49.0</td><td>29.5</td><td>1029</td><td>3.6</td><td>25.0</td><td>75.0</td></tr>`,
		`<rect width="50" height="4"/></svg><span class="value">50.0 %</span>`,
		`half within 29.0 ms, 90 % within 45.0 ms`,
		`<polyline class="line s1"`,
		`<td class="words">home 97.6 %</td>`,
		`&lt;script&gt;`,
		`2026-01-02 03:04:05 UTC`,
		`1 x connection failed`,
	} {
		if !strings.Contains(text, piece) {
			t.Errorf("the page has no %s", piece)
		}
	}
	for _, piece := range []string{"<script", "<b>", "http://", "https://", "url(", "src=", "href=", "NaN", "Inf", "ZgotmplZ"} {
		if strings.Contains(text, piece) {
			t.Errorf("the page has %s", piece)
		}
	}
}

func TestPageWithoutAnswers(t *testing.T) {
	r := &Report{Runs: []Summary{Summarise("none", &Result{Requests: []Request{{Err: ErrBroken}}}, 0, nil)}}
	text := page(t, r)
	for _, piece := range []string{"The servers do not say how much", "Nothing says which server"} {
		if !strings.Contains(text, piece) {
			t.Errorf("the page has no %q", piece)
		}
	}
	if !strings.Contains(text, "<td>1</td><td>1</td><td>-</td><td>-</td>") {
		t.Error("there are times of answers, and no answers")
	}
	if strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
		t.Error("a figure is none")
	}
}

// TestPlotsAreWellFormed: each plot is XML, and each of its points within the picture.
func TestPlotsAreWellFormed(t *testing.T) {
	plots := regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAllString(page(t, twoRuns()), -1)
	if len(plots) < 8 {
		t.Fatalf("%d plots", len(plots))
	}
	for _, plot := range plots {
		d := xml.NewDecoder(strings.NewReader(plot))
		for {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%v in %s", err, plot)
			}
		}
	}
}

func TestAxis(t *testing.T) {
	for _, a := range []axis{{0, 100, false, 10}, {0.1, 30_000, true, 10}, {0, 0, false, 10}, {3, 3, true, 10}} {
		marks := a.ticks()
		if len(marks) > 20 {
			t.Errorf("%+v has %d ticks", a, len(marks))
		}
		for _, v := range []float64{a.low - 1, a.low, (a.low + a.high) / 2, a.high, a.high + 1} {
			if at := a.at(v); math.IsNaN(at) || at < 0 || at > a.size {
				t.Errorf("%+v: %v is at %v", a, v, at)
			}
		}
	}
	for _, ends := range [][2]float64{{50.2, 99.7}, {0.1, 0.11}, {3, 3}, {0.7, 30_000}} {
		a := axis{low: ends[0], high: ends[1], log: true, size: 10}
		a.roundOut()
		if marks := a.ticks(); len(marks) == 0 || a.low > ends[0] || a.high < ends[1] || a.low < ends[0]/2.51 || a.high > ends[1]*2.51 {
			t.Errorf("%v becomes %v to %v with %v", ends, a.low, a.high, marks)
		}
	}
	if got := (axis{0, 87, false, 1}).ticks(); len(got) != 5 || got[4].Label != "80" {
		t.Errorf("0 to 87 has %v", got)
	}
}

func TestTableAndNotes(t *testing.T) {
	r := &Report{Runs: []Summary{
		{Name: "a", Requests: 10, P50: 12.34, P90: 1234, Mean: 50, RPS: 3.14159, Hit: new(0.5), ShareMin: new(0.1), ShareMax: new(0.2)},
		{Name: "bb", Requests: 3, Unfinished: 1, Cut: true, LateP99: 500},
		{Name: "c", Requests: 2, Errors: 2, Short: true, Seconds: 5, Kinds: []ErrorKind{{"status 429", 2, "busy"}}},
	}}
	const want = `  RUN  REQUESTS  ERRORS  HIT %  TTFT P50   P90  P99  MEAN MS  REQ/S    SHARE %
  a          10       0   50.0      12.3  1234  0.0     50.0    3.1  10.0-20.0
  bb          3       0      -       0.0   0.0  0.0      0.0    0.0          -
  c           2       2      -         -     -    -        -    0.0          -
`
	if got := r.Table(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	notes := strings.Join(r.Notes(), "\n")
	for _, words := range []string{"bb: 1 requests were not finished", "bb: ended before", "bb: requests were sent up to 500 ms", "bb: the servers do not say", "c: the workload was over after 5.0 s", "c: 2 x status 429, for example: busy; it is too much"} {
		if !strings.Contains(notes, words) {
			t.Errorf("no %q in %s", words, notes)
		}
	}
	if strings.Contains(notes, "a:") {
		t.Errorf("the first run needs no notes: %s", notes)
	}
}
