// Package simnet is a network in memory for whole clusters in one process: hosts with listeners, streams, datagrams and
// names, and the faults that real networks have. It is meant for a testing/synctest bubble, where its delays are virtual,
// and works outside of one too.
//
// Streams behave as TCP does, because libraries depend on it: what was sent is never overtaken, a write after the peer has
// closed succeeds, and the reset that it causes comes a round trip later and ends both directions (RFC 9293, section 3.6).
// A cut link delays a stream and loses nothing of it. Datagrams are lost, delayed and reordered.
//
// The fate of the k-th datagram from one host to another depends on the seed, the two and k alone, so that one packet more
// elsewhere changes nothing here.
//
// What it leaves out: congestion, window updates that are lost, retransmission timers (a stream resumes one delay after its
// link does), and the end of a connection that nobody acknowledges. No lock is held while anything waits.
package simnet
