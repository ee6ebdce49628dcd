// Package gossip tells routers of each other: who is there, at which address, what epoch each has, and facts that any of
// them announces, such as the model servers it has discovered. It advises; what must be agreed is agreed elsewhere.
package gossip
