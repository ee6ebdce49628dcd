package api

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/warmring/warmring/api/openai"
	"github.com/warmring/warmring/routing"
)

// decisionBody is a chat of about size bytes, the messages before all else.
func decisionBody(size int) []byte {
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	var messages []message
	for i := range max(2, size/2048) {
		role := []string{"system", "user", "assistant"}[min(i, 1+i%2)]
		messages = append(messages, message{role, strings.Repeat("a request that begins alike ", 70)})
	}
	b, err := json.Marshal(struct {
		Messages []message `json:"messages"`
		Model    string    `json:"model"`
		Stream   bool      `json:"stream"`
	}{messages, "llama", true})
	if err != nil {
		panic(err) // strings always marshal
	}
	return b
}

// BenchmarkDecision is all that a request costs from the body being there to the
// backend being known: scan, hash, map, pick, and the release.
func BenchmarkDecision(b *testing.B) {
	var urls []string
	for i := range 7 {
		urls = append(urls, fmt.Sprintf("http://127.0.0.1:%d", i+1))
	}
	auto := fleet(b, []string{"llama"}, urls...)
	fixed, err := auto.Apply(routing.Change{PutEndpoints: []routing.Endpoint{{Name: "llama", Variants: []routing.Variant{
		{Name: "blue", Weight: 1, Policy: routing.Policy{Strategy: routing.PrefixAware, PrefixLength: 1024, ConcurrencyThreshold: 64}},
	}}}})
	if err != nil {
		b.Fatal(err)
	}
	for name, epoch := range map[string]*routing.Epoch{"1024": fixed, "auto": auto} {
		for _, kib := range []int{4, 32, 200} {
			body := decisionBody(kib << 10)
			b.Run(fmt.Sprintf("%s/%dK", name, kib), func(b *testing.B) {
				picker := routing.NewPicker(routing.PickerConfig{})
				picker.SetEpoch(epoch)
				var scanner openai.Scanner
				var lease routing.Lease
				var chain []uint64
				now := time.Now()
				b.ReportAllocs()
				for b.Loop() {
					if err := decide(&scanner, picker, &lease, &chain, body, now); err != nil {
						b.Fatal(err)
					}
					lease.Release()
				}
			})
		}
	}
}

func decide(s *openai.Scanner, p *routing.Picker, l *routing.Lease, chain *[]uint64, body []byte, now time.Time) error {
	e := p.Epoch()
	limit, _ := e.TextLimit("", true)
	s.Reset(openai.Chat, limit)
	if err := s.Feed(body); err != nil {
		return err
	}
	r, err := s.Finish()
	if err != nil {
		return err
	}
	endpoint, adapter, err := e.Resolve(r.Model)
	if err != nil {
		return err
	}
	m := routing.Request{Endpoint: endpoint, Adapter: adapter, Tenant: r.Tenant, Text: &r.Text, Size: len(body), Chain: *chain}
	place, err := e.Map(&m)
	if err != nil {
		return err
	}
	*chain = m.Chain
	return p.PickInto(l, &place, nil, 1, now)
}

// The decision allocates nothing.
func TestDecisionDoesNotAllocate(t *testing.T) {
	picker := routing.NewPicker(routing.PickerConfig{})
	picker.SetEpoch(fleet(t, []string{"llama"}, "http://127.0.0.1:1", "http://127.0.0.1:2"))
	var scanner openai.Scanner
	var lease routing.Lease
	var chain []uint64
	body, now := decisionBody(4<<10), time.Now()
	if n := testing.AllocsPerRun(100, func() {
		if err := decide(&scanner, picker, &lease, &chain, body, now); err != nil {
			t.Error(err)
		}
		lease.Release()
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
