package peer

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"google.golang.org/grpc"

	"github.com/warmring/warmring/api/peer/peerpb"
	"github.com/warmring/warmring/routing"
)

// How a feed moves between sources.
const (
	lookEvery  = 100 * time.Millisecond // at the sources, while a stream is open
	behindMost = 300 * time.Millisecond // behind what others hold, before it tries another source
	avoidFor   = 5 * time.Second        // a source that failed, while there are others
	retryFirst = 50 * time.Millisecond
	retryMost  = time.Second
	wholeEvery = time.Second // at most, so that who contradicts for ever costs little
)

// FeedConfig is what a Feed needs.
type FeedConfig struct {
	Client  *Client
	Name    string // this router's; spreads the followers over the voters
	History *History
	// Sources are the routers to choose from, without this one. None: the feed
	// rests, as it does on a voter. It is asked each 100 ms and must not block.
	Sources func() []Source
	// OnEpoch takes what came: an epoch with the steps that lead to it, or none if it
	// came whole. It has to be in History when this returns. An epoch of the version at
	// hand with another content comes from a voter and replaces what is at hand.
	OnEpoch func(e *routing.Epoch, steps []Step)
	// OnMismatch is told of two contents by one name: ours, and what source has.
	OnMismatch func(source string, ours, theirs Version)
	Log        *slog.Logger
}

// Feed follows the epochs of one other router at a time.
type Feed struct {
	cfg     FeedConfig
	refresh chan struct{}
	choice  choice

	// Run's alone:
	whole bool      // ask for the image next
	asked time.Time // when the image was asked for last
}

// NewFeed returns a feed that does nothing until it is run.
func NewFeed(cfg FeedConfig) *Feed {
	return &Feed{cfg: cfg, refresh: make(chan struct{}, 1), choice: newChoice(cfg.Name)}
}

// Refresh asks for the whole epoch, because somebody holds another one by its name.
func (f *Feed) Refresh() {
	select {
	case f.refresh <- struct{}{}:
	default: // it will be done already
	}
}

// Why a feed leaves a source that it could go on with.
var (
	errWhole  = errors.New("the whole epoch is needed")
	errBetter = errors.New("another source is better")
	errBehind = errors.New("others are ahead and the source sends nothing")
	errOwn    = errors.New("this router has epochs from its own log again")
)

// Run follows until ctx ends.
func (f *Feed) Run(ctx context.Context) error {
	retry := retryFirst
	for ctx.Err() == nil {
		source, fresh := f.choice.next(f.cfg.Sources(), f.have(), time.Now())
		if source.Name == "" {
			pause(ctx, lookEvery)
			continue
		}
		if !fresh { // all have failed of late
			pause(ctx, retry)
			retry = min(2*retry, retryMost)
		}
		began := f.have()
		err := f.follow(ctx, source)
		if f.have() != began {
			retry = retryFirst
		}
		f.left(ctx, source, err)
	}
	return nil
}

// left draws the conclusions of the end of a stream.
func (f *Feed) left(ctx context.Context, source Source, err error) {
	switch {
	case ctx.Err() != nil:
		return
	case errors.Is(err, errWhole):
		f.whole = true
		pause(ctx, time.Until(f.asked.Add(wholeEvery)))
	case errors.Is(err, errOwn):
		return // as it should be: a voter that is slow may come here with each epoch
	case !errors.Is(err, errBetter):
		f.choice.failed(source.Name, time.Now())
	}
	f.cfg.Log.InfoContext(ctx, "no longer follow the epochs of a router", "router", source.Name, "reason", err)
}

func (f *Feed) have() Version { return VersionOf(f.cfg.History.Latest()) }

// pause waits, or less if ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// follow takes what source sends until the stream breaks or there is reason to leave.
func (f *Feed) follow(ctx context.Context, source Source) error {
	ctx, cancel := context.WithCancel(ctx)
	replies, ended := make(chan *peerpb.WatchReply), make(chan error, 1)
	request := &peerpb.WatchRequest{Have: f.have().wire(), Image: f.whole}
	if f.whole {
		f.whole, f.asked = false, time.Now()
	}
	go func() {
		defer close(ended)
		ended <- f.cfg.Client.watch(ctx, source.Address, request, replies)
	}()
	defer func() {
		cancel()
		for range ended { // it is closed when watch has returned
		}
	}()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		select {
		case reply := <-replies:
			if err := f.take(source, reply); err != nil {
				return err
			}
			f.choice.delivered(source.Name)
		case err := <-ended:
			return err
		case now := <-look.C:
			if err := f.choice.stay(source, f.cfg.Sources(), f.have(), now); err != nil {
				return err
			}
		case <-f.refresh:
			if time.Since(f.asked) > wholeEvery {
				return errWhole
			}
		}
	}
}

// watch hands on what the router at address sends. A slow taker stops the stream,
// not this router or that one.
func (c *Client) watch(ctx context.Context, address string, request *peerpb.WatchRequest, out chan<- *peerpb.WatchReply) error {
	client, release, err := c.acquire(address)
	if err != nil {
		return err
	}
	defer release()
	stream, err := client.Watch(c.cfg.Identity.introduce(ctx), request, grpc.MaxCallRecvMsgSize(imageSize))
	if err != nil {
		return inward(err)
	}
	for {
		reply, err := stream.Recv()
		if err != nil {
			return inward(err)
		}
		select {
		case out <- reply:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
