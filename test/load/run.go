package load

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	// drain is how long the requests that are in flight at the end of a run may still take.
	drain = 10 * time.Second
	// maxRequests bounds the memory of a run, which ends there: about 200 MB.
	maxRequests = 1 << 20
	// livePerClient bounds the sessions of an open loop that think.
	livePerClient = 64
	progressEvery = 250 * time.Millisecond
	// failurePause is how long a client of a closed loop waits after a failure: a server that refuses at once would get
	// the whole script in no time.
	failurePause = time.Second
)

// Config is a run.
type Config struct {
	Target Target
	Script Script
	// Open: sessions begin when the script says, however long others take. Otherwise
	// each client takes the next session when it has ended one.
	Open     bool
	Clients  int           // requests in flight at most; in a closed loop also sessions
	Duration time.Duration // nothing is sent afterwards; 0: the script ends the run
	Timeout  time.Duration // of one request; 0: none
	// Tag is put before each session's first message, so that nothing of it is in a
	// cache from a run before. Empty: nothing is.
	Tag      string
	Progress func(Progress) // called a few times a second; may be nil
}

// Progress is a run's state.
type Progress struct {
	Elapsed         time.Duration
	Done, Errors    int
	InFlight        int
	Prompt, Cached  int           // tokens
	MeanFirstToken  time.Duration // of all so far
	firstTokenTotal time.Duration
}

// Result is what came of a run.
type Result struct {
	Sending    time.Duration // until the last time at which a request could be sent, or the last answer if that was before
	Requests   []Request     // in the order in which they ended
	Unfinished int           // that the end of the run cut off
	Cut        bool          // the run was ended before its time
	Short      bool          // the script was over before nine tenths of the time
}

type run struct {
	cfg    Config
	client *http.Client
	began  time.Time
	slots  chan struct{} // holds one element for each request in flight

	mu     sync.Mutex // guards what follows, and Script
	sent   int
	state  Progress
	result Result
}

// Run sends the script's sessions until it has no more, the time is over or ctx ends, and returns when nothing is in flight
// any more. Requests that fail are part of the result.
func Run(ctx context.Context, cfg Config) Result {
	cfg.Clients = max(cfg.Clients, 1)
	r := &run{cfg: cfg, client: newClient(cfg.Clients), began: time.Now(), slots: make(chan struct{}, cfg.Clients)}
	defer r.client.CloseIdleConnections()
	sending, stop := context.WithCancel(ctx)
	requests, cut := context.WithCancel(ctx)
	if cfg.Duration > 0 {
		sending, stop = context.WithTimeout(ctx, cfg.Duration)
		requests, cut = context.WithTimeout(ctx, cfg.Duration+drain)
	}
	defer stop()
	defer cut()
	var reporting sync.WaitGroup
	done := make(chan struct{})
	reporting.Go(func() { r.report(done) })
	if cfg.Open {
		r.open(sending, requests)
	} else {
		r.closed(sending, requests)
	}
	close(done)
	reporting.Wait()
	r.result.Sending = time.Since(r.began)
	if cfg.Duration > 0 {
		r.result.Sending = min(r.result.Sending, cfg.Duration)
	}
	r.result.Cut = ctx.Err() != nil
	r.result.Short = !r.result.Cut && r.result.Sending < cfg.Duration*9/10
	return r.result
}

// newClient keeps a connection for each request in flight, and none of them compressed: events would come late.
func newClient(clients int) *http.Client {
	return &http.Client{Transport: &http.Transport{
		Proxy: http.ProxyFromEnvironment, MaxIdleConns: 0, MaxIdleConnsPerHost: clients, DisableCompression: true,
	}}
}

// report calls Progress until the run is over.
func (r *run) report(done <-chan struct{}) {
	if r.cfg.Progress == nil {
		return
	}
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
			r.mu.Lock()
			p := r.state
			r.mu.Unlock()
			p.Elapsed, p.InFlight = time.Since(r.began), len(r.slots)
			if n := p.Done - p.Errors; n > 0 {
				p.MeanFirstToken = p.firstTokenTotal / time.Duration(n)
			}
			r.cfg.Progress(p)
		}
	}
}

func (r *run) next() (Session, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sent >= maxRequests {
		return Session{}, false
	}
	return r.cfg.Script.Next()
}

// closed has each client play session after session.
func (r *run) closed(sending, requests context.Context) {
	var clients sync.WaitGroup
	for range r.cfg.Clients {
		clients.Go(func() {
			pause := time.Duration(0)
			for sending.Err() == nil {
				s, ok := r.next()
				if !ok || !sleep(sending, pause) {
					return
				}
				pause = 0
				if !r.play(sending, requests, &s, time.Now()) {
					pause = failurePause
				}
			}
		})
	}
	clients.Wait()
}

// open begins each session at its time. Where too many are alive it waits, and the requests tell how late they are.
func (r *run) open(sending, requests context.Context) {
	var sessions sync.WaitGroup
	live := make(chan struct{}, livePerClient*r.cfg.Clients)
	for {
		s, ok := r.next()
		if !ok {
			break
		}
		due := r.began.Add(s.Start)
		if !sleep(sending, time.Until(due)) || !acquire(sending, live) {
			break
		}
		sessions.Go(func() {
			defer func() { <-live }()
			r.play(sending, requests, &s, due)
		})
	}
	sessions.Wait()
}

// play sends a session's turns, each with everything that was said before, until one fails or the time is over; then it returns
// false.
func (r *run) play(sending, requests context.Context, s *Session, due time.Time) bool {
	var said []Message
	for i, t := range s.Turns {
		if i > 0 {
			due = time.Now().Add(t.Think)
		}
		if !sleep(sending, time.Until(due)) || !acquire(sending, r.slots) {
			return false
		}
		said = append(said, t.Messages...)
		if i == 0 && r.cfg.Tag != "" && len(said) > 0 {
			said[0].Content = r.cfg.Tag + "\n" + said[0].Content
		}
		var text *strings.Builder
		if i < len(s.Turns)-1 {
			text = &strings.Builder{}
		}
		ok := r.one(requests, chat{Messages: said, MaxTokens: max(t.Output, 1)}, text, due)
		<-r.slots
		if !ok {
			return false
		}
		if text != nil {
			said = append(said, Message{"assistant", text.String()})
		}
	}
	return true
}

// one sends a request and notes what came of it.
func (r *run) one(ctx context.Context, c chat, text *strings.Builder, due time.Time) bool {
	r.mu.Lock()
	base := r.cfg.Target.Bases[r.sent%len(r.cfg.Target.Bases)]
	r.sent++
	r.mu.Unlock()
	limited, cancel := ctx, context.CancelFunc(func() {})
	if r.cfg.Timeout > 0 {
		limited, cancel = context.WithTimeout(ctx, r.cfg.Timeout)
	}
	defer cancel()
	at := time.Now()
	answer := ask(limited, r.client, &r.cfg.Target, base, c, text)
	answer.At, answer.Late = at.Sub(r.began), max(0, at.Sub(due))
	r.mu.Lock()
	defer r.mu.Unlock()
	if answer.Err != nil && ctx.Err() != nil {
		r.result.Unfinished++ // the end of the run is no fault of the target
		return false
	}
	r.state.add(&answer)
	r.result.Requests = append(r.result.Requests, answer)
	return answer.Err == nil
}

func (p *Progress) add(r *Request) {
	p.Done++
	if r.Err != nil {
		p.Errors++
		return
	}
	p.firstTokenTotal += r.First
	if r.Metered {
		p.Prompt, p.Cached = p.Prompt+r.Prompt, p.Cached+r.Cached
	}
}

// sleep returns false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// acquire takes a slot; false if ctx ended first.
func acquire(ctx context.Context, slots chan struct{}) bool {
	select {
	case slots <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}
