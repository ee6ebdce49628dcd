package sheet

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// ErrUsage says that a command line cannot be carried out as it is written.
var ErrUsage = errors.New("wrong usage")

// Program is what a benchmark does with its arguments. It ends early when ctx does.
type Program func(ctx context.Context, args []string, out io.Writer) error

// Main runs a program, whose ctx ends with the first SIGINT or SIGTERM, says on errOut why it failed, and returns its exit
// code: 0, 2 after ErrUsage, 1 after any other error. Help that was asked for (flag.ErrHelp) is no failure.
func Main(name string, args []string, out, errOut io.Writer, run Program) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, args, out)
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return 0
	}
	_, _ = fmt.Fprintf(errOut, "%s: %s\n", name, err) // there is nowhere else to say it
	if errors.Is(err, ErrUsage) {
		return 2
	}
	return 1
}
