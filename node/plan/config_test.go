package plan

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestConfig(t *testing.T) {
	if err := Default().Validate(); err != nil {
		t.Error(err)
	}
	err := Config{DrainLimit: -1, EpochGap: time.Hour, MaxShrink: math.NaN()}.Validate()
	for _, path := range []string{"fleet.drain_limit: ", "fleet.epoch_gap: ", "fleet.max_shrink: "} {
		if err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%v lacks %s", err, path)
		}
	}
}
