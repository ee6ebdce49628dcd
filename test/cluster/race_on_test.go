//go:build race

package cluster

// scaled makes loops shorter where the race detector makes them slow.
func scaled(n int) int { return n / 10 }
