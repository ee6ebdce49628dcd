package load

import (
	"cmp"
	"slices"
	"time"

	"github.com/warmring/warmring/test/bench/sheet"
)

// Summary is a run in figures. Those that are not known are nil. Milliseconds and shares have the names that the routing
// benchmark's rows have.
type Summary struct {
	Name       string         `json:"name"`
	Requests   int            `json:"requests"`   // that ended; those of the warm-up are left out
	Errors     int            `json:"errors"`     // of Requests
	Unfinished int            `json:"unfinished"` // that the end of the run cut off
	Cut        bool           `json:"cut"`        // the run was ended before its time
	Short      bool           `json:"short"`      // the script was over before nine tenths of the time
	Seconds    float64        `json:"seconds"`    // in which requests were sent, the warm-up left out
	Hit        *float64       `json:"hit"`        // 0..1: cached of all prompt tokens, as the servers say
	P50        float64        `json:"p50_ms"`     // time to first token, of answers without error
	P90        float64        `json:"p90_ms"`
	P99        float64        `json:"p99_ms"`
	Mean       float64        `json:"mean_ms"`
	TotalP50   float64        `json:"total_p50_ms"` // time to the end of the answer
	RPS        float64        `json:"rps"`          // answers a second that ended in that time
	ShareMin   *float64       `json:"share_min"`    // 0..1: of the requests that the least and the most used server got
	ShareMax   *float64       `json:"share_max"`
	LateP99    float64        `json:"late_p99_ms"` // how long after the script's time requests were sent
	Prompt     int            `json:"prompt_tokens"`
	Cached     int            `json:"cached_tokens"`
	Output     int            `json:"output_tokens"`
	Kinds      []ErrorKind    `json:"error_kinds"`
	Decisions  map[string]int `json:"decisions"` // requests by X-Warmring-Decision
	Servers    []ServerShare  `json:"servers"`   // by name; empty: nobody says which server answered
	Slices     []Slice        `json:"slices"`
	CDF        []Point        `json:"cdf"`
}

// ErrorKind counts errors that are alike.
type ErrorKind struct {
	Kind    string `json:"kind"`
	Count   int    `json:"count"`
	Example string `json:"example"`
}

// ServerShare is what one model server got.
type ServerShare struct {
	Name     string   `json:"name"`
	Requests int      `json:"requests"`
	Share    float64  `json:"share"` // 0..1: of the requests whose server is known
	Prompt   int      `json:"prompt_tokens"`
	Cached   int      `json:"cached_tokens"`
	Hit      *float64 `json:"hit"` // 0..1; nil: not said
	P50      float64  `json:"p50_ms"`
}

// Slice is a stretch of a run, by when requests were sent.
type Slice struct {
	At  float64 `json:"at_s"` // its middle
	P50 float64 `json:"p50_ms"`
	P90 float64 `json:"p90_ms"`
}

// Point says that a share of the requests had their first token within a time.
type Point struct {
	Ms    float64 `json:"ms"`
	Share float64 `json:"share"` // 0..1
}

// Bounds of what is kept for plots.
const (
	slicesMost  = 60
	pointsMost  = 200
	serversMost = 1000
)

// Summarise leaves out what was sent in the warm-up. The servers are those that are known to be there, so that one without a
// request counts too; they may be nil.
func Summarise(name string, r *Result, warmUp time.Duration, servers []string) Summary {
	s := Summary{
		Name: name, Unfinished: r.Unfinished, Cut: r.Cut, Short: r.Short, Seconds: max(0, (r.Sending - warmUp).Seconds()),
		Decisions: map[string]int{}, Kinds: []ErrorKind{}, Servers: []ServerShare{},
	}
	var good []Request
	var late []time.Duration
	kinds := map[string]*ErrorKind{}
	ended := 0
	for i := range r.Requests {
		q := &r.Requests[i]
		if end := q.At + q.Total; q.Err == nil && end >= warmUp && end <= r.Sending {
			ended++
		}
		if q.At < warmUp {
			continue
		}
		s.Requests++
		late = append(late, q.Late)
		if q.Decision != "" {
			s.Decisions[q.Decision]++
		}
		if q.Err != nil {
			s.fail(kinds, q.Err)
			continue
		}
		good = append(good, *q)
	}
	if s.Seconds > 0 {
		s.RPS = float64(ended) / s.Seconds
	}
	for _, k := range kinds {
		s.Kinds = append(s.Kinds, *k)
	}
	slices.SortFunc(s.Kinds, func(a, b ErrorKind) int { return cmp.Or(b.Count-a.Count, cmp.Compare(a.Kind, b.Kind)) })
	slices.Sort(late)
	s.LateP99 = ms(sheet.Percentile(late, 99))
	s.figures(good)
	s.spread(good, servers)
	return s
}

func (s *Summary) fail(kinds map[string]*ErrorKind, err error) {
	s.Errors++
	k := kind(err)
	if kinds[k] == nil {
		kinds[k] = &ErrorKind{Kind: k, Example: cause(err).Error()}
	}
	kinds[k].Count++
}

func (s *Summary) figures(good []Request) {
	var total []time.Duration
	for _, q := range good {
		total = append(total, q.Total)
		s.Output += q.Output
	}
	slices.Sort(total)
	s.TotalP50 = ms(sheet.Percentile(total, 50))
	first := firstTokens(good)
	s.P50, s.P90, s.P99 = ms(sheet.Percentile(first, 50)), ms(sheet.Percentile(first, 90)), ms(sheet.Percentile(first, 99))
	var sum time.Duration
	for _, f := range first {
		sum += f
	}
	if len(first) > 0 {
		s.Mean = ms(sum) / float64(len(first))
	}
	s.Prompt, s.Cached, s.Hit = hit(good)
	s.CDF = cdf(first)
	s.Slices = timeline(good)
}

// hit is about the requests whose server said how much of the prompt it had.
func hit(requests []Request) (prompt, cached int, rate *float64) {
	for _, q := range requests {
		if q.Metered {
			prompt, cached = prompt+q.Prompt, cached+q.Cached
		}
	}
	if prompt > 0 {
		rate = new(float64(cached) / float64(prompt))
	}
	return prompt, cached, rate
}

func firstTokens(requests []Request) []time.Duration {
	first := make([]time.Duration, 0, len(requests))
	for _, q := range requests {
		first = append(first, q.First)
	}
	slices.Sort(first)
	return first
}

// cdf keeps at most pointsMost points, the ends among them.
func cdf(sorted []time.Duration) []Point {
	n := min(len(sorted), pointsMost)
	points := make([]Point, 0, n)
	for i := range n {
		at := (i+1)*len(sorted)/n - 1
		points = append(points, Point{ms(sorted[at]), float64(at+1) / float64(len(sorted))})
	}
	return points
}

// timeline cuts the run into slices of a second or more; those without requests are left out.
func timeline(good []Request) []Slice {
	var end time.Duration
	for _, q := range good {
		end = max(end, q.At+1)
	}
	step := max(time.Second, (end+slicesMost-1)/slicesMost)
	by := make([][]Request, (end+step-1)/step)
	for _, q := range good {
		by[q.At/step] = append(by[q.At/step], q)
	}
	out := []Slice{}
	for i, part := range by {
		if len(part) > 0 {
			first := firstTokens(part)
			middle := step*time.Duration(i) + step/2
			out = append(out, Slice{middle.Seconds(), ms(sheet.Percentile(first, 50)), ms(sheet.Percentile(first, 90))})
		}
	}
	return out
}

// spread counts what each server got.
func (s *Summary) spread(good []Request, known []string) {
	by := map[string][]Request{}
	named := 0
	for _, q := range good {
		if _, old := by[q.Backend]; q.Backend == "" || !old && len(by) >= serversMost {
			continue
		}
		by[q.Backend] = append(by[q.Backend], q)
		named++
	}
	if named == 0 {
		return
	}
	for _, name := range known {
		by[name] = slices.Clip(by[name]) // is there from now on
	}
	for name, requests := range by {
		server := ServerShare{Name: name, Requests: len(requests), Share: float64(len(requests)) / float64(named)}
		server.Prompt, server.Cached, server.Hit = hit(requests)
		server.P50 = ms(sheet.Percentile(firstTokens(requests), 50))
		s.Servers = append(s.Servers, server)
	}
	slices.SortFunc(s.Servers, func(a, b ServerShare) int { return cmp.Compare(a.Name, b.Name) })
	share := func(a, b ServerShare) int { return cmp.Compare(a.Share, b.Share) }
	s.ShareMin, s.ShareMax = new(slices.MinFunc(s.Servers, share).Share), new(slices.MaxFunc(s.Servers, share).Share)
}

// ms is rounded to microseconds: more would pretend.
func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
