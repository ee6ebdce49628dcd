// Package workload makes scripts of requests: who asks what and when, the same for the same seed.
//
// A [Script] is sessions of turns. A prompt is made of segments, stretches of text that are made from a number alone: prompts
// share a prefix exactly if they begin with the same segments. The same script so serves a simulated model server, which
// caches the prompt's blocks, a router, which hashes its bytes, and a client that sends it as a chat.
//
// A token is four bytes of ASCII, a word of three letters and a space, which is one token of most models' too. The workloads
// are sized for seven model servers, each with the cost of a 70B model on eight H100s: random routing is loaded by them and
// not collapsed.
package workload
