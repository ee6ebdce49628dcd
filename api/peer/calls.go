package peer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	grpcpeer "google.golang.org/grpc/peer"

	"github.com/warmring/warmring/api/peer/peerpb"
	"github.com/warmring/warmring/routing"
)

// The longest that a call may take, when its context allows as much.
const (
	askTimeout     = 2 * time.Second
	imageTimeout   = 10 * time.Second
	proposeTimeout = 10 * time.Second
)

// ask makes one call with a deadline. Nothing here waits for a connection to become
// ready longer than one attempt takes: whoever needs the answer asks again.
func ask[Q, A any](ctx context.Context, c *Client, address string, timeout time.Duration,
	method func(peerpb.PeerClient, context.Context, Q, ...grpc.CallOption) (A, error), request Q, options ...grpc.CallOption,
) (A, error) {
	client, release, err := c.acquire(address)
	if err != nil {
		var none A
		return none, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	defer release()
	ctx, cancel := context.WithTimeout(c.cfg.Identity.introduce(ctx), timeout)
	defer cancel()
	var to grpcpeer.Peer // its address is known once the call had a connection
	reply, err := method(client, ctx, request, append(options, grpc.Peer(&to))...)
	if err == nil {
		return reply, nil
	}
	if to.Addr == nil {
		return reply, fmt.Errorf("%w: %s: %w", ErrUnreachable, address, inward(err))
	}
	return reply, inward(err)
}

// Hello asks who is at address.
func (c *Client) Hello(ctx context.Context, address string) (Hello, error) {
	reply, err := ask(ctx, c, address, askTimeout, peerpb.PeerClient.Hello, &peerpb.HelloRequest{})
	if err != nil {
		return Hello{}, err
	}
	return helloFromWire(reply), nil
}

// Promise asks for a promise to found the cluster as the ballot says.
func (c *Client) Promise(ctx context.Context, address string, b Ballot) error {
	_, err := ask(ctx, c, address, askTimeout, peerpb.PeerClient.Promise, b.wire())
	return err
}

// Image asks for the newest epoch, whole.
func (c *Client) Image(ctx context.Context, address string) (routing.Image, error) {
	reply, err := ask(ctx, c, address, imageTimeout, peerpb.PeerClient.Image, &peerpb.ImageRequest{}, grpc.MaxCallRecvMsgSize(imageSize))
	if err != nil {
		return routing.Image{}, err
	}
	var image routing.Image
	if err := json.Unmarshal(reply.GetImage(), &image); err != nil {
		return routing.Image{}, fmt.Errorf("image from %s: %w", address, err)
	}
	return image, nil
}

// Propose hands a change to the router at address, which must lead, and returns the
// epoch that carries it. ErrUnreachable means that nothing was sent; any error after
// which the change may have been applied is ErrUnknown.
func (c *Client) Propose(ctx context.Context, address string, p Proposal) (Version, error) {
	request, err := p.wire()
	if err != nil {
		return Version{}, err
	}
	reply, err := ask(ctx, c, address, proposeTimeout, peerpb.PeerClient.Propose, request)
	switch {
	case err == nil:
		return versionFromWire(reply.GetVersion()), nil
	case answered(err), errors.Is(err, ErrUnknown):
		return Version{}, err
	default:
		return Version{}, fmt.Errorf("%w: %w", ErrUnknown, err)
	}
}

// answered reports whether err says for certain that the change was not applied: it
// was not sent, or the other router says so.
func answered(err error) bool {
	if remote, ok := errors.AsType[*remoteError](err); ok {
		return remote.certain
	}
	return errors.Is(err, ErrUnreachable)
}

// Renew prolongs a lease through the router at address, which must lead.
func (c *Client) Renew(ctx context.Context, address string, l Lease) error {
	request, err := l.wire()
	if err != nil {
		return err
	}
	_, err = ask(ctx, c, address, askTimeout, peerpb.PeerClient.Renew, request)
	return err
}
