package api

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/warmring/warmring/api/openai"
	"github.com/warmring/warmring/api/sagemaker"
	"github.com/warmring/warmring/routing"
)

// query is a request as far as its target depends on it.
type query struct {
	header    http.Header
	endpoint  string // from the URL; "" when the model decides
	component string // inference component from the URL
	scanned   *openai.Request
	size      int // of the prompt in bytes, as promptSize has it
}

// target finds what the map needs to know.
func (q *query) target(e *routing.Epoch) (routing.Request, error) {
	m := routing.Request{Endpoint: q.endpoint, Tenant: q.scanned.Tenant, Text: &q.scanned.Text, Size: q.size}
	if named := q.header[sagemaker.HeaderTargetVariant]; len(named) > 0 {
		m.Variant = named[0]
	}
	id, err := sagemaker.PrefixAwareID(q.header)
	if err != nil {
		return m, err
	}
	if id != "" {
		m.Tenant = id
	}
	if err := begun(e); err != nil {
		return m, err
	}
	endpoint, adapter, err := e.Resolve(q.scanned.Model)
	if q.endpoint == "" {
		if err != nil {
			return m, q.unknown(err)
		}
		m.Endpoint, m.Adapter = endpoint, adapter
		return m, nil
	}
	m.Adapter = q.scanned.Model // a name of the model server's own
	if err == nil && endpoint == q.endpoint {
		m.Adapter = adapter
	}
	if q.component != "" {
		m.Adapter = q.component
		if !hasAdapter(e, q.endpoint, q.component) {
			return m, fmt.Errorf("%w: %s", errComponent, q.component)
		}
	}
	return m, nil
}

// begun is errNotReady until there is an epoch: nothing is agreed on yet, so nothing can be said to be unknown.
func begun(e *routing.Epoch) error {
	if e.Generation() == 0 {
		return fmt.Errorf("%w: there is no epoch yet", errNotReady)
	}
	return nil
}

// unknown says what would be right where no endpoint was found.
func (q *query) unknown(err error) error {
	name := q.scanned.Model
	switch {
	case name != "" || !errors.Is(err, routing.ErrUnknownModel):
		return fmt.Errorf("%w: %q", err, fmt.Sprintf("%.128s", name))
	case q.scanned.Text.Raw: // nobody looked for a model
		return errInURL
	default:
		return errModelNeeded
	}
}

func hasAdapter(e *routing.Epoch, endpoint, adapter string) bool {
	for _, ep := range e.Endpoints() {
		if ep.Name == endpoint {
			return slices.Contains(ep.Adapters, adapter)
		}
	}
	return false
}
