package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/warmring/warmring/api/strict"
	"github.com/warmring/warmring/node"
)

// settings are the three places that a router's configuration comes from.
type settings struct {
	file  string
	flags map[string]string // leaves set on the command line, by path
}

// addTo gives cmd the --config flag and one flag for each leaf of the configuration.
func (s *settings) addTo(cmd *cobra.Command) {
	s.flags = map[string]string{}
	cmd.Flags().StringVarP(&s.file, "config", "f", "", "configuration `file` (YAML); - is standard input")
	scratch := node.Default()
	for _, leaf := range node.Leaves(&scratch) {
		flag := cmd.Flags().VarPF(leafFlag{leaf, s.flags}, leaf.Path, "", fmt.Sprintf("%s (%s)", leaf.About, leaf.Env))
		if leaf.Kind() == "bool" {
			flag.NoOptDefVal = "true" // "--admin.pprof" alone turns it on
		}
	}
}

// alias gives a leaf's flag a second, shorter name.
func (s *settings) alias(cmd *cobra.Command, name, path, usage string) {
	cmd.Flags().Var(cmd.Flags().Lookup(path).Value, name, usage)
}

// load reads the file anew each time, so that a reload sees its changes.
func (s *settings) load(in io.Reader) (node.Config, error) {
	var text []byte
	var err error
	switch s.file {
	case "":
	case "-":
		text, err = io.ReadAll(in)
	default:
		text, err = os.ReadFile(s.file)
	}
	if err != nil {
		return node.Config{}, fmt.Errorf("--config: %w", err)
	}
	cfg, err := node.Load(bytes.NewReader(text), os.Getenv, s.flags)
	if !errors.Is(err, strict.ErrSyntax) { // else nobody knows what it says
		err = errors.Join(err, cfg.Validate())
	}
	if err != nil {
		return cfg, fmt.Errorf("the configuration is not valid (file: %s):\n%w", cmp.Or(s.file, "none"), err)
	}
	return cfg, nil
}

// leafFlag is a pflag.Value. It judges the text by its leaf and keeps it for node.Load.
type leafFlag struct {
	node.Leaf
	set map[string]string
}

func (f leafFlag) Set(text string) error {
	f.set[f.Path] = text
	return f.Leaf.Set(text)
}

func (f leafFlag) Type() string { return f.Kind() }
