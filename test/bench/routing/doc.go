// Command routing compares ways to route in whole clusters in virtual time: the real routing code, with its routers' exchange
// of loads and placements and its hot table, in front of simulated model servers.
//
// The model servers are those of a 70B model on eight H100s and cache prefixes as vLLM does. A run is a script of
// test/workload, and the same for every policy. Nothing is random but by its seed: two runs have the same figures.
//
// "oracle" sees all caches and queues as they are. "least-own" is LEAST_OUTSTANDING_REQUESTS where a router knows of its own
// requests only, which is better than knowing late of the others'; the gates compare with the better of the two.
package main
