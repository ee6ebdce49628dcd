package main

import (
	"fmt"
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

// liveLine is a line of a terminal that is written again and again. Elsewhere nothing of it is shown.
type liveLine struct {
	out      io.Writer
	terminal bool
}

func newLiveLine(out io.Writer) liveLine { return liveLine{out, isTerminal(out)} }

// show replaces the line. What does not fit is cut off by the terminal (DECAWM): a line that wraps could not be replaced. What
// comes last stands in the last column then, so it is a blank. The cursor goes back to where a ^C does not end the line.
func (l liveLine) show(format string, args ...any) {
	if l.terminal {
		_, _ = fmt.Fprintf(l.out, "\r\x1b[K\x1b[?7l"+format+" \x1b[?7h\r", args...) // there is nowhere else to say it
	}
}

// clear takes the line away.
func (l liveLine) clear() {
	if l.terminal {
		_, _ = io.WriteString(l.out, "\r\x1b[K") // as above
	}
}
