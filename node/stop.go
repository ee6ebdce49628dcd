package node

import (
	"context"
	"log/slog"
	"time"
)

// step is one part of an orderly end. Its context ends after limit.
type step struct {
	name  string
	limit time.Duration
	do    func(ctx context.Context) error
}

// runSteps takes the steps in order. A step that fails or runs out of time is told in the log and does not keep the later
// ones from their turn: the way out has no other answer to an error than to go on.
func runSteps(ctx context.Context, log *slog.Logger, steps []step) {
	for _, s := range steps {
		began := time.Now()
		stepCtx, cancel := context.WithTimeout(ctx, s.limit)
		err := s.do(stepCtx)
		cancel()
		took := slog.Duration("took", time.Since(began))
		if err != nil {
			log.WarnContext(ctx, "stopping step failed", slog.String("step", s.name), took, slog.Any("error", err))
			continue
		}
		log.InfoContext(ctx, "stopping", slog.String("step", s.name), took)
	}
}
