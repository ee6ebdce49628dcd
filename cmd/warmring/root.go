package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// Exit codes.
const (
	exitDone = iota
	exitFailed
	exitUsage
)

// usageError is a command line that cannot be carried out as it is written.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// execute runs one command line and returns its exit code.
func execute(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	root := newRoot() //nolint:contextcheck // the commands get ctx from cobra
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errOut)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitDone
	}
	root.PrintErrf("warmring: %s\n", err)
	if _, usage := errors.AsType[usageError](err); usage {
		root.PrintErrf("Run '%s --help' for usage.\n", cmd.CommandPath())
		return exitUsage
	}
	return exitFailed
}

func newRoot() *cobra.Command {
	root := group("warmring", "Routes requests to the model server that has their prefix in its cache")
	root.SilenceErrors, root.SilenceUsage = true, true
	// Sentences about flags are wrapped at 100 columns, in all commands.
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages", ".FlagUsagesWrapped 100"))
	root.SetFlagErrorFunc(flagError)
	root.AddCommand(newServe(), newDemo(), newBench(), newModelServer(), newExplain(), newStatus(), newMembers(), newEpochs(), newEndpoints(), newBackends(),
		newApply(), newBackend(),
		newConfig(), newCerts(), newVersion())
	return root
}

// flagError is the error of a flag, or of the unknown command in front of it, whose flag it may be.
func flagError(cmd *cobra.Command, err error) error {
	if args := cmd.Flags().Args(); cmd.HasSubCommands() && len(args) > 0 {
		return cmd.Args(cmd, args)
	}
	return usageError{err}
}

// group is a command that only has others below it.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use:   use,
		Short: short,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			hint := ""
			if s := cmd.SuggestionsFor(args[0]); len(s) > 0 {
				hint = "; did you mean " + strings.Join(s, " or ") + "?"
			}
			return usagef("unknown command %q%s", args[0], hint)
		},
		RunE:                       func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SuggestionsMinimumDistance: 2,
	}
	cmd.AddCommand(commands...)
	return cmd
}

// noArgs refuses words after the flags.
func noArgs(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("unexpected %q: this command takes flags only", args[0])
	}
	return nil
}
