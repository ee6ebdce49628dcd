package api

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Bytes is a size. In text it is a number of bytes, or a number with one of
// the units KiB, MiB and GiB.
type Bytes int64

// The units of Bytes.
const (
	KiB Bytes = 1 << 10
	MiB Bytes = 1 << 20
	GiB Bytes = 1 << 30
)

// UnmarshalText reads "25MiB", "64 KiB" or "1024".
func (b *Bytes) UnmarshalText(text []byte) error {
	number, unit := strings.TrimSpace(string(text)), Bytes(1)
	for suffix, size := range map[string]Bytes{"KiB": KiB, "MiB": MiB, "GiB": GiB} {
		if rest, ok := strings.CutSuffix(number, suffix); ok {
			number, unit = strings.TrimSpace(rest), size
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/int64(unit) {
		return fmt.Errorf("%q is not a size: want a number of bytes, or one such as 25MiB (KiB, MiB, GiB)", text)
	}
	*b = Bytes(n) * unit
	return nil
}

// MarshalText writes b in the largest unit that leaves no fraction.
func (b Bytes) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

func (b Bytes) String() string {
	switch {
	case b != 0 && b%GiB == 0:
		return strconv.FormatInt(int64(b/GiB), 10) + "GiB"
	case b != 0 && b%MiB == 0:
		return strconv.FormatInt(int64(b/MiB), 10) + "MiB"
	case b != 0 && b%KiB == 0:
		return strconv.FormatInt(int64(b/KiB), 10) + "KiB"
	default:
		return strconv.FormatInt(int64(b), 10)
	}
}
