package main

import (
	"strings"
	"testing"

	"github.com/warmring/warmring/node"
)

// The benchmark must not be the last to learn that a field of the configuration has changed.
func TestWarmringConfigIsValid(t *testing.T) {
	s := &stable{backends: []string{"127.0.0.1:9001", "127.0.0.1:9002"}}
	for _, length := range []string{"1024", "auto"} {
		text := s.warmringConfig("127.0.0.1:8080", "127.0.0.1:9080", length)
		c, err := node.Load(strings.NewReader(text), func(string) string { return "" }, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Validate(); err != nil {
			t.Error(err)
		}
		got, err := c.Endpoints[0].Variants[0].Routing.PrefixLength.MarshalText()
		if err != nil || string(got) != length {
			t.Errorf("prefix_length %s (%v), want %s", got, err, length)
		}
	}
}
