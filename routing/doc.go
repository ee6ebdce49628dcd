// Package routing decides which model server answers a request.
//
// A decision has three layers that are kept apart. The map ([Epoch.Map]) is a
// pure function of the agreed epoch and the request, so it is the same on every
// replica: it names the candidates and ranks them. The view ([Picker]) is what
// this replica knows of loads and health, by itself and from its peers. The choice
// ([Picker.Pick]) is the least cost over the candidates in that view, and reserves
// what it chose in the same step. The package does no I/O, reads no clock and
// starts no goroutine: time comes in as an argument.
package routing

import "errors"

// Facts that a caller can tell apart with errors.Is.
var (
	// ErrNoEndpoint: the epoch has no endpoint at all.
	ErrNoEndpoint = errors.New("no endpoint is configured")
	// ErrUnknownModel: no endpoint goes by this name, alias or adapter.
	ErrUnknownModel = errors.New("unknown model")
	// ErrUnknownEndpoint: the epoch has no endpoint of this name.
	ErrUnknownEndpoint = errors.New("unknown endpoint")
	// ErrUnknownVariant: the endpoint has no variant of this name.
	ErrUnknownVariant = errors.New("unknown variant")
	// ErrNoBackend: no model server is left that may be asked.
	ErrNoBackend = errors.New("no model server available")
	// ErrSaturated: every model server that may be asked has its hard cap of
	// requests in flight; waiting may help.
	ErrSaturated = errors.New("all model servers are at their limit")
)
