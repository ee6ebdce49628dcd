package peer

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Source is a router that epochs may come from.
type Source struct {
	Name    string
	Address string
	Version Version // the newest that it is known to hold
	Voter   bool    // it gets epochs from the agreement itself
}

// choice decides whose epochs to follow. It is one goroutine's.
type choice struct {
	own    string
	avoid  map[string]time.Time // until when, by name of the source
	behind time.Time            // since when a source holds more than we do; zero: none does
}

func newChoice(own string) choice { return choice{own: own, avoid: map[string]time.Time{}} }

// next is the source to follow: first those that have not failed of late, then those
// that are ahead of us, then voters, and among equals by rendezvous, so that the
// followers spread over them. fresh is false if even the best has failed of late. The
// source is empty if there is none.
func (c *choice) next(sources []Source, have Version, now time.Time) (best Source, fresh bool) {
	c.behind = time.Time{}
	c.forget(sources, now)
	for _, s := range sources {
		if best.Name == "" || c.compare(s, best, have) < 0 {
			best = s
		}
	}
	return best, c.avoid[best.Name].IsZero()
}

// compare is negative when a is better than b.
func (c *choice) compare(a, b Source, have Version) int {
	return cmp.Or(
		c.avoid[a.Name].Compare(c.avoid[b.Name]), // none is the zero time
		first(a.Version.Compare(have) > 0, b.Version.Compare(have) > 0),
		first(a.Voter, b.Voter),
		cmp.Compare(rank(c.own, a.Name), rank(c.own, b.Name)),
	)
}

// first orders what holds before what does not.
func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	default:
		return 1
	}
}

// rank is a source's place in a follower's order: pseudo-random, and always the same.
func rank(follower, source string) uint64 {
	sum := sha256.Sum256([]byte(follower + "\x00" + source))
	return binary.LittleEndian.Uint64(sum[:])
}

// forget drops what was over, and who is gone.
func (c *choice) forget(sources []Source, now time.Time) {
	maps.DeleteFunc(c.avoid, func(name string, until time.Time) bool {
		return !now.Before(until) || !slices.ContainsFunc(sources, func(s Source) bool { return s.Name == name })
	})
}

func (c *choice) failed(name string, now time.Time) { c.avoid[name] = now.Add(avoidFor) }

func (c *choice) delivered(name string) {
	delete(c.avoid, name)
	c.behind = time.Time{}
}

// stay says why to leave a source, nil for no reason.
func (c *choice) stay(source Source, sources []Source, have Version, now time.Time) error {
	c.forget(sources, now)
	listed, ahead, voters := false, Source{}, false
	for _, s := range sources {
		if s.Name == source.Name {
			listed = s.Address == source.Address
			source = s
		}
		if s.Version.Compare(have) > 0 {
			ahead = s
		}
		voters = voters || s.Voter && c.avoid[s.Name].IsZero()
	}
	switch {
	case len(sources) == 0:
		return errOwn
	case !listed:
		return fmt.Errorf("%w: it is no longer a member", errBetter)
	case ahead.Name == "":
		c.behind = time.Time{}
		if voters && !source.Voter {
			return fmt.Errorf("%w: it is no voter", errBetter)
		}
		return nil
	case c.behind.IsZero():
		c.behind = now
		return nil
	case now.Sub(c.behind) >= behindMost:
		return fmt.Errorf("%w: %s has %s", errBehind, ahead.Name, ahead.Version)
	default:
		return nil
	}
}
