// Package peer is how routers of one cluster talk to each other, by gRPC.
//
// [Server] answers and [Client] asks: who are you, take part in a founding, give
// me the epoch, carry this change to the leader. [Feed] follows the epochs that
// another router hands out of its [History]. [Mesh] keeps one stream open with each
// other router, over which both say what they have in flight and where they sent prompts.
//
// The package knows nothing of how routers agree or find each other: it is told
// who the members are, and it hands on what it is asked.
package peer
