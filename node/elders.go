package node

import (
	"context"

	"github.com/warmring/warmring/api/peer"
	"github.com/warmring/warmring/consensus"
	"github.com/warmring/warmring/routing"
)

// elders asks other routers for agreement's sake. Agreement and the wire do not know each other's types.
type elders struct{ client *peer.Client }

// Hello implements consensus.Peers.
func (e elders) Hello(ctx context.Context, address string) (consensus.Hello, error) {
	h, err := e.client.Hello(ctx, address)
	return consensus.Hello(h), err
}

// Promise implements consensus.Peers.
func (e elders) Promise(ctx context.Context, address string, b consensus.Ballot) error {
	return e.client.Promise(ctx, address, peer.Ballot(b))
}

// Image implements consensus.Peers.
func (e elders) Image(ctx context.Context, address string) (routing.Image, error) {
	return e.client.Image(ctx, address)
}

// council answers such questions. It is a peer.Group.
type council struct{ agreement *consensus.Log }

// Hello implements peer.Group.
func (c council) Hello() peer.Hello { return peer.Hello(c.agreement.Hello()) }

// Promise implements peer.Group.
func (c council) Promise(_ context.Context, b peer.Ballot) error {
	return c.agreement.Promised(consensus.Ballot(b))
}
