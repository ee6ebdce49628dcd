package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warmring/warmring/test/modelserver"
	"github.com/warmring/warmring/test/modelserver/mstest"
)

// script is made of what the function returns for 0, 1 and so on, without end.
type script struct {
	n    int
	make func(n int) Session
}

func (s *script) Next() (Session, bool) {
	s.n++
	return s.make(s.n - 1), true
}

func user(text string) []Message { return []Message{{"user", text}} }

// limited ends a script.
type limited struct {
	Script
	left int
}

func (l *limited) Next() (Session, bool) {
	l.left--
	if l.left < 0 {
		return Session{}, false
	}
	return l.Script.Next()
}

func fast(t *testing.T, f modelserver.Fault) Target {
	t.Helper()
	cfg := modelserver.Default()
	cfg.Speed, cfg.Fault = 20, f
	return Target{Bases: []string{mstest.Start(t, cfg).URL + "/v1"}, Model: cfg.Model}
}

// chats asks about one of two documents, twice.
func chats(n int) Session {
	document := strings.Repeat(fmt.Sprintf("document %d ", n%2), 300)
	return Session{Turns: []Turn{
		{Messages: []Message{{"system", document}, {"user", "Who?"}}, Output: 4},
		{Messages: user("Why?"), Output: 4, Think: time.Millisecond},
	}}
}

func TestRunMeasures(t *testing.T) {
	var seen atomic.Int64
	result := Run(t.Context(), Config{
		Target: fast(t, modelserver.Fault{}), Script: &script{make: chats}, Clients: 3, Duration: time.Second,
		Progress: func(p Progress) { seen.Store(int64(p.Done)) },
	})
	s := Summarise("run", &result, 0, nil)
	if s.Requests < 10 || s.Errors > 0 || result.Cut || s.Seconds != 1 {
		t.Fatalf("%d requests, %d errors, cut %v, %.1f s", s.Requests, s.Errors, result.Cut, s.Seconds)
	}
	if *s.Hit < 0.8 || s.P50 <= 0 || s.P50 > s.P99 || s.TotalP50 < s.P50 || s.Output != 4*s.Requests {
		t.Errorf("hit %.2f, p50 %v, p99 %v, total %v, %d tokens", *s.Hit, s.P50, s.P99, s.TotalP50, s.Output)
	}
	if seen.Load() == 0 {
		t.Error("no progress was told")
	}
}

// TestRunResendsTheAnswers: the second turn finds the first one's answer cached, so it was the server's own words.
func TestRunResendsTheAnswers(t *testing.T) {
	result := Run(t.Context(), Config{Target: fast(t, modelserver.Fault{}), Clients: 1, Script: &limited{&script{make: func(int) Session {
		return Session{Turns: []Turn{{Messages: user(strings.Repeat("long ", 100)), Output: 100}, {Messages: user("more"), Output: 1}}}
	}}, 1}})
	if len(result.Requests) != 2 {
		t.Fatalf("%d requests", len(result.Requests))
	}
	if second := result.Requests[1]; second.Err != nil || second.Cached < 200 {
		t.Errorf("%d of %d tokens were cached, want the first prompt and its answer (%v)", second.Cached, second.Prompt, second.Err)
	}
}

func TestRunTagKeepsRunsApart(t *testing.T) {
	target := fast(t, modelserver.Fault{})
	for _, tag := range []string{"first", "second"} {
		result := Run(t.Context(), Config{Target: target, Script: &limited{&script{make: chats}, 1}, Clients: 1, Tag: tag})
		if first := result.Requests[0]; first.Cached != 0 || first.Err != nil {
			t.Errorf("%s run: %d tokens were cached (%v)", tag, first.Cached, first.Err)
		}
	}
}

// counting answers with nothing, and counts how many requests are open at once.
type counting struct {
	mu         sync.Mutex // guards what follows
	open, most int
	bodies     []chat
	hold       time.Duration
}

func (c *counting) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body chat
	_ = json.NewDecoder(r.Body).Decode(&body)
	c.mu.Lock()
	c.open++
	c.most = max(c.most, c.open)
	c.bodies = append(c.bodies, body)
	c.mu.Unlock()
	select {
	case <-time.After(c.hold):
	case <-r.Context().Done():
	}
	c.mu.Lock()
	c.open--
	c.mu.Unlock()
	_, _ = io.WriteString(w, "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\ndata: [DONE]\n\n")
}

func (c *counting) serve(t *testing.T) Target {
	t.Helper()
	s := httptest.NewServer(c)
	t.Cleanup(s.Close)
	return Target{Bases: []string{s.URL}, Model: "m"}
}

func TestRunIsBounded(t *testing.T) {
	for _, open := range []bool{false, true} {
		c := &counting{hold: 20 * time.Millisecond}
		began := time.Now()
		result := Run(t.Context(), Config{
			Target: c.serve(t), Open: open, Clients: 4, Duration: 300 * time.Millisecond,
			Script: &script{make: func(n int) Session {
				return Session{Start: time.Duration(n) * time.Millisecond, Turns: []Turn{{Messages: user("x"), Output: 1}}}
			}},
		})
		if c.most != 4 || len(result.Requests) < 8 || time.Since(began) > 5*time.Second {
			t.Errorf("open %v: %d in flight at most, %d requests in %s", open, c.most, len(result.Requests), time.Since(began))
		}
		late := Summarise("", &result, 0, nil).LateP99
		if open != (late > 100) {
			t.Errorf("open %v: %v ms late; five times the load that fits must show", open, late)
		}
	}
}

func TestRunOpenKeepsTheScriptsTimes(t *testing.T) {
	c := &counting{}
	result := Run(t.Context(), Config{
		Target: c.serve(t), Open: true, Clients: 8,
		Script: &limited{&script{make: func(n int) Session {
			return Session{Start: time.Duration(n) * 20 * time.Millisecond, Turns: []Turn{{Messages: user("x")}}}
		}}, 10},
	})
	if len(result.Requests) != 10 || result.Sending < 180*time.Millisecond {
		t.Errorf("%d requests in %s", len(result.Requests), result.Sending)
	}
	for _, r := range result.Requests {
		if n := (r.At - r.Late + time.Millisecond) % (20 * time.Millisecond); n > 2*time.Millisecond {
			t.Errorf("sent at %s, %s late", r.At, r.Late)
		}
	}
}

func TestRunEndsWhenItsContextDoes(t *testing.T) {
	c := &counting{hold: time.Minute}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	result := Run(ctx, Config{Target: c.serve(t), Clients: 2, Duration: time.Minute, Script: &script{make: chats}})
	if !result.Cut || result.Unfinished != 2 || len(result.Requests) != 0 || result.Sending > 5*time.Second {
		t.Errorf("%+v", result)
	}
}

func TestRunCountsErrors(t *testing.T) {
	for _, tc := range []struct {
		fault modelserver.Fault
		kind  string
	}{
		{modelserver.Fault{Kind: modelserver.Status, Status: 503}, "status 503"},
		{modelserver.Fault{Kind: modelserver.Die, After: 1}, "stream broke off"},
	} {
		result := Run(t.Context(), Config{Target: fast(t, tc.fault), Script: &limited{&script{make: chats}, 3}, Open: true, Clients: 1})
		s := Summarise("", &result, 0, nil)
		if s.Requests != 3 || s.Errors != 3 || len(s.Kinds) != 1 || s.Kinds[0].Kind != tc.kind {
			t.Errorf("%+v: %d requests, %+v", tc.fault, s.Requests, s.Kinds)
		}
	}
	slow := &counting{hold: time.Minute}
	result := Run(t.Context(), Config{Target: slow.serve(t), Script: &limited{&script{make: chats}, 1}, Clients: 1, Timeout: 50 * time.Millisecond})
	if s := Summarise("", &result, 0, nil); s.Errors != 1 || s.Kinds[0].Kind != "timeout" {
		t.Errorf("%+v", s.Kinds)
	}
}

// TestRunPausesAfterFailures: a server that refuses at once does not get the whole script in no time.
func TestRunPausesAfterFailures(t *testing.T) {
	target := fast(t, modelserver.Fault{Kind: modelserver.Status, Status: 503})
	result := Run(t.Context(), Config{Target: target, Script: &script{make: chats}, Clients: 3, Duration: failurePause / 5})
	if len(result.Requests) != 3 || result.Short {
		t.Errorf("%d requests of 3 clients, short %v", len(result.Requests), result.Short)
	}
}

func TestRunTellsThatTheScriptWasShort(t *testing.T) {
	result := Run(t.Context(), Config{Target: (&counting{}).serve(t), Script: &limited{&script{make: chats}, 1}, Clients: 1, Duration: time.Hour})
	if s := Summarise("", &result, 0, nil); !s.Short || s.Requests != 2 {
		t.Errorf("%d requests, short %v", s.Requests, s.Short)
	}
}

func TestCheck(t *testing.T) {
	good := fast(t, modelserver.Fault{})
	named := Target{Bases: good.Bases}
	if err := named.Check(t.Context()); err != nil || named.Model != "demo" {
		t.Errorf("the only model is %q: %v", named.Model, err)
	}
	wrong := Target{Bases: good.Bases, Model: "gpt"}
	locked := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer sesame" {
			http.Error(w, `{"error":{"message":"who are you?"}}`, http.StatusUnauthorized)
			return
		}
		(&counting{}).ServeHTTP(w, r)
	}))
	defer locked.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	for _, tc := range []struct {
		to   Target
		is   error    // nil: another one, or none
		says []string // none: no error
	}{
		{good, nil, nil},
		{wrong, ErrNoModel, []string{": gpt", "its models are: demo"}},
		{Target{Bases: []string{locked.URL}, Model: "m"}, nil, []string{"401", "who are you?"}},
		{Target{Bases: []string{locked.URL}, Model: "m", Key: "sesame"}, nil, nil},
		{Target{Bases: []string{"http://" + l.Addr().String()}, Model: "m"}, ErrUnreachable, []string{"refused"}},
	} {
		err := tc.to.Check(t.Context())
		if (err != nil) != (tc.says != nil) || tc.is != nil && !errors.Is(err, tc.is) {
			t.Errorf("%+v: %v, want %v", tc.to, err, tc.is)
		}
		for _, words := range tc.says {
			if err != nil && !strings.Contains(err.Error(), words) {
				t.Errorf("%+v: %v has no %q", tc.to, err, words)
			}
		}
	}
}

// TestCheckOfOthers: what is no server of chats is told from one that is away.
func TestCheckOfOthers(t *testing.T) {
	const page = "<html><h1>Welcome</h1></html>"
	for _, tc := range []struct {
		models, answer string // with a status before it; what is no status is one of 200
		model          string
		is             error
		says           string
	}{
		{models: page, is: ErrDialect, says: "the list of models"},
		{models: `{"data":[]}`, is: ErrAmbiguous, says: "it has none"},
		{models: `{"data":[{"id":"a"},{"id":"b"}]}`, is: ErrAmbiguous, says: "it has a, b"},
		{models: "404" + page, is: ErrAmbiguous, says: "it lists no models (answered 404 Not Found: a page for people"},
		{model: "m", answer: `{"choices":[{"message":{"content":"hi"}}]}`, is: ErrDialect, says: `it answered with "application/json"`},
		{model: "m", answer: "data: [1]\n\n", is: ErrDialect, says: "not a chunk of a chat"},
		{model: "m", answer: `data: {"error":{"message":"out of memory"}}` + "\n\n", is: ErrEvent, says: "an error within the stream: out of memory"},
		{model: "m", answer: "500" + page, says: "answered 500 Internal Server Error: a page for people"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			text, status := tc.answer, 0
			if r.Method == http.MethodGet {
				text = tc.models
			}
			if n, _ := fmt.Sscanf(text, "%3d", &status); n == 1 {
				text = text[3:]
			}
			if strings.HasPrefix(text, "{") {
				w.Header().Set("Content-Type", "application/json")
			}
			w.WriteHeader(max(status, http.StatusOK))
			_, _ = io.WriteString(w, text)
		}))
		to := Target{Bases: []string{server.URL}, Model: tc.model}
		err := to.Check(t.Context())
		server.Close()
		if err == nil || tc.is != nil && !errors.Is(err, tc.is) || !strings.Contains(err.Error(), tc.says) || errors.Is(err, ErrUnreachable) || !errors.Is(tc.is, ErrDialect) && errors.Is(err, ErrDialect) {
			t.Errorf("%+v: %v", tc, err)
		}
	}
}

func TestCheckOfASilentServer(t *testing.T) {
	for want, err := range map[error]error{
		ErrSilent:        &url.Error{Op: "Post", URL: "http://h", Err: context.DeadlineExceeded},
		context.Canceled: &url.Error{Op: "Post", URL: "http://h", Err: context.Canceled},
	} {
		if got := found(err, "http://h"); !errors.Is(got, want) || errors.Is(got, ErrUnreachable) {
			t.Errorf("%v is %v, want %v", err, got, want)
		}
	}
}

// TestCheckWithoutTLS: a server that is there, but not as the URL says.
func TestCheckWithoutTLS(t *testing.T) {
	plain, secret := httptest.NewServer(http.NotFoundHandler()), httptest.NewUnstartedServer(http.NotFoundHandler())
	secret.Config.ErrorLog = log.New(io.Discard, "", 0)
	secret.StartTLS()
	defer plain.Close()
	defer secret.Close()
	for _, url := range []string{strings.Replace(plain.URL, "http:", "https:", 1), secret.URL} {
		to := Target{Bases: []string{url}, Model: "m"}
		if err := to.Check(t.Context()); !errors.Is(err, ErrTLS) || errors.Is(err, ErrUnreachable) {
			t.Errorf("%s: %v", url, err)
		}
	}
}
