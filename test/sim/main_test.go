package sim

import (
	"os"
	"runtime/debug"
	"testing"
)

// TestMain has garbage collected less often, which costs a tenth of the time otherwise.
func TestMain(m *testing.M) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(1000)
	}
	os.Exit(m.Run())
}
