package http1

import (
	"context"
	"testing"
)

// AfterFunc keeps the promises of context.AfterFunc, whatever came before.
func TestAfterFunc(t *testing.T) {
	ran := make(chan string, 3)
	f := func(name string) func() { return func() { ran <- name } }

	c := &requestContext{Context: t.Context()}
	stop := c.AfterFunc(f("stopped"))
	if !stop() || stop() {
		t.Error("the first stop reports that it stopped f, the second that it did not")
	}
	c.AfterFunc(f("first"))
	second := c.AfterFunc(f("second"))
	c.cancel()
	got := map[string]bool{<-ran: true, <-ran: true}
	if !got["first"] || !got["second"] {
		t.Errorf("ran %v", got)
	}
	if second() {
		t.Error("stopped after it ran")
	}
	late := c.AfterFunc(f("late"))
	if <-ran; late() {
		t.Error("stopped after it ran")
	}
	if context.Cause(c) == nil {
		t.Error("no cause")
	}
}
