//go:build !race

package cluster

// scaled is for loops that the race detector makes too slow.
func scaled(n int) int { return n }
