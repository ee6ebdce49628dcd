package main

import (
	"cmp"
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version may be set by the linker: -ldflags "-X main.version=v1.2.3".
var version string

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var goVersion, revision, changed string
			if info, ok := debug.ReadBuildInfo(); ok {
				goVersion = info.GoVersion
				for _, s := range info.Settings {
					switch s.Key {
					case "vcs.revision":
						revision = s.Value
					case "vcs.modified":
						if s.Value == "true" {
							changed = " (changed)"
						}
					}
				}
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "warmring %s\nrevision %s%s\n%s\n",
				moduleVersion(), cmp.Or(revision, "unknown"), changed, goVersion)
			return err
		},
	}
}

// moduleVersion is the linker's version, else the module's, else (devel).
func moduleVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return cmp.Or(version, "(devel)")
	}
	return cmp.Or(version, info.Main.Version, "(devel)")
}
