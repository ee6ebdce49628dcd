package sheet

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

func TestMainMapsErrors(t *testing.T) {
	for _, tc := range []struct {
		err  error
		code int
		says string
	}{
		{nil, 0, ""},
		{flag.ErrHelp, 0, ""},
		{fmt.Errorf("%w: -x: want a number", ErrUsage), 2, "bench: wrong usage: -x: want a number\n"},
		{errors.New("2 gates missed"), 1, "bench: 2 gates missed\n"},
	} {
		var out, errOut strings.Builder
		code := Main("bench", []string{"-x"}, &out, &errOut, func(_ context.Context, args []string, to io.Writer) error {
			_, _ = fmt.Fprint(to, args)
			return tc.err
		})
		if code != tc.code || errOut.String() != tc.says || out.String() != "[-x]" {
			t.Errorf("%v: exit code %d, %q, %q; want %d, %q", tc.err, code, out.String(), errOut.String(), tc.code, tc.says)
		}
	}
}

func TestMainStopsAtASignal(t *testing.T) {
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	code := Main("bench", nil, io.Discard, io.Discard, func(ctx context.Context, _ []string, _ io.Writer) error {
		if err := self.Signal(os.Interrupt); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(30 * time.Second):
			return errors.New("the signal did not arrive")
		}
	})
	if code != 0 {
		t.Errorf("exit code %d", code)
	}
}
