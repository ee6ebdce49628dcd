// Package sim runs whole clusters in virtual time: real routers and model servers on a simulated network, faults from a
// plan, clients, and invariants that are looked at all the time. One scenario is one function; each seed runs it in a
// testing/synctest bubble of its own. README.md shows how to write one.
package sim
