package consensus

import (
	"context"
	"errors"
	"testing"
	"time"
)

func timeout(t *testing.T, d time.Duration) (context.Context, context.CancelFunc) {
	t.Helper()
	return context.WithTimeout(t.Context(), d)
}

func isNoQuorum(err error) bool { return errors.Is(err, ErrNoQuorum) }
