package main

import (
	"io"
	"os"
)

// isTerminal reports whether out shows colours and takes back what it shows.
func isTerminal(out io.Writer) bool {
	f, ok := out.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// colours marks text with SGR sequences (ECMA-48), or does not.
type colours bool

// palette has colours on a terminal, unless the user asks for none (no-color.org).
func palette(terminal bool) colours {
	return colours(terminal && os.Getenv("NO_COLOR") == "")
}

func (c colours) paint(sequence, text string) string {
	if !c {
		return text
	}
	return "\x1b[" + sequence + "m" + text + "\x1b[0m"
}

func (c colours) green(text string) string  { return c.paint("32", text) }
func (c colours) yellow(text string) string { return c.paint("33", text) }
func (c colours) red(text string) string    { return c.paint("31", text) }
