// Package consensus keeps the replicas agreed on one epoch of the fleet, and on
// who may change it.
//
// Every replica runs a [Log]. It owns a raft object; only three or five of a
// cluster's replicas are voters, the others idle and are called subscribers. The
// package founds a cluster from replicas that know nothing, once and only once;
// seats voters and replaces the dead; takes proposals on the leader; and founds a
// new generation when the voters are lost for good.
//
// It never waits for a majority in order to serve: without one the last epoch
// stays, and only changes are refused.
package consensus
