package consensus

import (
	"fmt"
	"io"
	"log/slog"

	"github.com/hashicorp/go-hclog"
)

// sink passes raft's warnings and errors to slog.
type sink struct{ log *slog.Logger }

func newLogger(log *slog.Logger) hclog.Logger {
	logger := hclog.NewInterceptLogger(&hclog.LoggerOptions{Level: hclog.Warn, Output: io.Discard})
	logger.RegisterSink(sink{log})
	return logger
}

// Accept takes one line of raft's log. What raft says of an election or of a peer
// that does not answer is ordinary in the life of a cluster and stays at debug.
func (s sink) Accept(_ string, level hclog.Level, msg string, args ...any) {
	if level < hclog.Warn {
		return
	}
	s.log.Debug("raft", "message", msg, "details", fmt.Sprint(args...))
}
