package consensus

import "errors"

// What a proposal may come to besides an epoch or a *routing.ChangeError.
var (
	// ErrNotLeader: another replica leads. A *NotLeaderError names it.
	ErrNotLeader = errors.New("this replica is not the leader")
	// ErrNoQuorum: no leader is known, so nothing can be agreed on.
	ErrNoQuorum = errors.New("no majority of the voters is reachable")
	// ErrConflict: the epoch is no longer the proposal's base.
	ErrConflict = errors.New("the epoch has changed since it was read")
	// ErrUnknown: it may have been applied, now or later. Read the epoch, or repeat
	// the proposal under the same id.
	ErrUnknown = errors.New("the outcome is unknown: the change may have been applied")
	// ErrShrink: it would take too many backends out of service at once.
	ErrShrink = errors.New("too many backends would leave service at once")
	// ErrBusy: too many proposals wait.
	ErrBusy = errors.New("too many changes are waiting to be agreed on")
	// ErrTooLarge: the change does not fit into one entry of the log.
	ErrTooLarge = errors.New("the change is larger than 512 KiB")
	// ErrRefused: a ballot was not promised.
	ErrRefused = errors.New("the ballot is refused")
)

// NotLeaderError is an ErrNotLeader that says who is.
type NotLeaderError struct{ Leader string }

func (e *NotLeaderError) Error() string { return "the leader is server " + e.Leader }

// Unwrap makes it an ErrNotLeader.
func (e *NotLeaderError) Unwrap() error { return ErrNotLeader }
