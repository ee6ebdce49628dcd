package main

import (
	"bytes"
	"testing"
	"time"

	"github.com/warmring/warmring/test/load"
)

func TestBenchProgress(t *testing.T) {
	var out bytes.Buffer
	state := load.Progress{Elapsed: 4 * time.Second, Done: 9, Errors: 1, InFlight: 4, Prompt: 200, Cached: 50, MeanFirstToken: 80 * time.Millisecond}
	const line, end = "\r\x1b[K\x1b[?7l", " \x1b[?7h\r"
	for _, tc := range []struct {
		p     benchProgress
		state load.Progress
		want  string
	}{
		{benchProgress{place: "1/2", name: "RANDOM", duration: time.Minute}, state, "1/2 56s of 1m0s left, 9 done, 1 failed, 2.2/s, hit 25.0 %, mean TTFT 80ms, 4 in flight  RANDOM"},
		{benchProgress{name: "x", duration: time.Second, colours: true}, state, "waiting for the last answers, 9 done, \x1b[31m1 failed\x1b[0m, 2.2/s, hit 25.0 %, mean TTFT 80ms, 4 in flight  x"},
		{benchProgress{total: 27}, state, "about 8s left, 9 of 27 done, 1 failed, 2.2/s, hit 25.0 %, mean TTFT 80ms, 4 in flight"},
		{benchProgress{total: 27}, load.Progress{Elapsed: time.Second, InFlight: 4}, "waiting for the first answer, 0 of 27 done, 0.0/s, 4 in flight"},
	} {
		out.Reset()
		tc.p.line = liveLine{&out, true}
		tc.p.show(tc.state)
		if want := line + tc.want + end; out.String() != want {
			t.Errorf("got %q, want %q", out.String(), want)
		}
	}
	out.Reset()
	p := &benchProgress{line: liveLine{&out, true}, place: "1/2", name: "RANDOM"}
	p.end(&load.Summary{Requests: 10, Mean: 81})
	p.end(&load.Summary{Requests: 1, Errors: 1})
	if want := "\r\x1b[K1/2 RANDOM: 10 requests, mean TTFT 81 ms\n\r\x1b[K1/2 RANDOM: 1 requests, 1 failed\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
	out.Reset()
	p = newBenchProgress(&out, "1/2", "RANDOM", time.Minute)
	p.show(state)
	p.end(&load.Summary{Requests: 10, Mean: 81})
	if want := "1/2 RANDOM: begins, 1m0s\n1/2 RANDOM: 10 requests, mean TTFT 81 ms\n"; out.String() != want {
		t.Errorf("not a terminal: got %q, want %q", out.String(), want)
	}
}
