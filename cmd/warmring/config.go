package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/warmring/warmring/api/strict"
)

func newConfig() *cobra.Command {
	return group("config", "Check and show a configuration", newConfigCheck(), newConfigShow())
}

func newConfigCheck() *cobra.Command {
	var from settings
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Report everything that is wrong with a configuration",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := from.load(cmd.InOrStdin())
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "ok: endpoints %d, backends %d, api on %s, admin on %s\n",
				len(cfg.Endpoints), len(cfg.Backends), cfg.API.Listen, cfg.Admin.Listen)
			return err
		},
	}
	from.addTo(cmd)
	return cmd
}

func newConfigShow() *cobra.Command {
	var from settings
	var comments bool
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Print the configuration as file, environment and flags make it",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := from.load(cmd.InOrStdin())
			if err != nil {
				return err
			}
			cfg = cfg.Masked()
			document := any(cfg)
			if comments {
				if document, err = strict.Commented(&cfg); err != nil {
					return err
				}
			}
			encoder := yaml.NewEncoder(cmd.OutOrStdout())
			encoder.SetIndent(2)
			return encoder.Encode(document)
		},
	}
	from.addTo(cmd)
	cmd.Flags().BoolVar(&comments, "comments", false, "say above each setting what it does")
	return cmd
}
