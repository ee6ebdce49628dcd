package gossip

import (
	"log/slog"
	"net"
	"regexp"
	"strings"
	"sync"
	"time"
)

const (
	quietTime = time.Minute
	quietMax  = 256 // subjects that are remembered; what concerns others is not told until one is forgotten
)

// logs writes warnings, the same one about the same subject once in a minute.
type logs struct {
	log *slog.Logger

	mu   sync.Mutex // guards told
	told map[string]time.Time
}

func newLogs(log *slog.Logger) *logs { return &logs{log: log, told: map[string]time.Time{}} }

func (l *logs) warn(subject, message string, args ...any) {
	if l.mayTell(subject, time.Now()) {
		l.log.Warn(message, args...) //nolint:sloglint // the callers' messages are constant
	}
}

func (l *logs) mayTell(subject string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for s, at := range l.told {
		if now.Sub(at) >= quietTime {
			delete(l.told, s)
		}
	}
	if _, ok := l.told[subject]; ok || len(l.told) >= quietMax {
		return false
	}
	l.told[subject] = now
	return true
}

// diagnosis is what a line of memberlist's log means for those who run routers.
type diagnosis struct {
	kind    string
	parts   []string // any of them in the line
	message string
	check   string
}

// diagnoses are the lines that somebody can do something about. memberlist offers no other way to learn of them.
func diagnoses() []diagnosis {
	return []diagnosis{
		{
			"key",
			[]string{"nstalled keys could decrypt", "encryption is configured", "encryption is not configured", "Decrypt packet failed"},
			"gossip with another key refused", "gossip.key_file must hold the same keys on all routers of a cluster",
		},
		{
			"label",
			[]string{"unacceptable label", "label header"},
			"gossip of another cluster refused", "cluster.name must be the same on all routers of a cluster",
		},
		{
			"udp",
			[]string{"over TCP but UDP probes failed"},
			"a router answers over TCP and not over UDP", "UDP must pass on the number of peer.listen",
		},
		{
			"full",
			[]string{"handler queue full", "Too many pending push/pull"},
			"gossip arrives faster than it is handled", "the machine may be overloaded",
		},
	}
}

// bridge takes memberlist's log apart: what somebody can do something about becomes a warning, the rest is for debugging.
type bridge struct {
	logs   *logs
	known  []diagnosis
	remote *regexp.Regexp
	label  *regexp.Regexp
}

func newBridge(l *logs) *bridge {
	return &bridge{
		logs: l, known: diagnoses(),
		remote: regexp.MustCompile(`(?:from=|failed to join )(\S+?):?(?: |$)`),
		label:  regexp.MustCompile(`label ("[^"]*")`),
	}
}

// Write takes one line.
func (b *bridge) Write(p []byte) (int, error) {
	line := strings.TrimSpace(string(p))
	if d := b.diagnose(line); d != nil {
		b.tell(d, line)
	} else {
		b.logs.log.Debug("memberlist", "line", line)
	}
	return len(p), nil
}

func (b *bridge) diagnose(line string) *diagnosis {
	for i := range b.known {
		for _, part := range b.known[i].parts {
			if strings.Contains(line, part) {
				return &b.known[i]
			}
		}
	}
	return nil
}

func (b *bridge) tell(d *diagnosis, line string) {
	remote := first(b.remote, line)
	host, _, err := net.SplitHostPort(remote) // all ports of a host are one subject
	if err != nil {
		host = remote
	}
	args := []any{"remote", remote, "check", d.check}
	if label := first(b.label, line); label != "" {
		args = append(args, "their_label", label)
	}
	b.logs.warn(d.kind+" "+host, d.message, append(args, "detail", line)...)
}

func first(re *regexp.Regexp, line string) string {
	if found := re.FindStringSubmatch(line); found != nil {
		return found[1]
	}
	return ""
}
