// Package port is the one address at which routers reach each other: TCP for the log, for calls and for streams of
// gossip, and UDP on the same number for packets of gossip.
package port
