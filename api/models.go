package api

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/warmring/warmring/routing"
)

// modelCard is OpenAI's shape of a model.
type modelCard struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"` // seconds since 1970; the fleet does not know it
	OwnedBy string `json:"owned_by"`
}

// cards are the models of an epoch, or of one endpoint: its name, aliases and
// adapters; for one inference component that alone.
func cards(e *routing.Epoch, endpoint, component string) []modelCard {
	list := []modelCard{}
	for _, ep := range e.Endpoints() {
		if endpoint != "" && endpoint != ep.Name {
			continue
		}
		for _, id := range slices.Concat([]string{ep.Name}, ep.Aliases, ep.Adapters) {
			if component == "" || component == id {
				list = append(list, modelCard{ID: id, Object: "model", OwnedBy: ep.Name})
			}
		}
	}
	return list
}

// models answers with the list.
func (x *exchange) models() error {
	list, err := x.cards()
	if err != nil {
		return err
	}
	x.client.json(http.StatusOK, struct {
		Object string      `json:"object"`
		Data   []modelCard `json:"data"`
	}{"list", list})
	return nil
}

// oneModel answers with one of the list.
func (x *exchange) oneModel() error {
	list, err := x.cards()
	if err != nil {
		return err
	}
	i := slices.IndexFunc(list, func(m modelCard) bool { return m.ID == x.route.id })
	if i < 0 {
		return fmt.Errorf("%w: %.128q", routing.ErrUnknownModel, x.route.id)
	}
	x.client.json(http.StatusOK, list[i])
	return nil
}

func (x *exchange) cards() ([]modelCard, error) {
	e := x.api.deps.Epoch()
	if err := begun(e); err != nil {
		return nil, err
	}
	if x.route.endpoint != "" && !e.Has(x.route.endpoint) {
		return nil, routing.ErrUnknownEndpoint
	}
	if c := x.route.component; c != "" && !hasAdapter(e, x.route.endpoint, c) {
		return nil, fmt.Errorf("%w: %.64s", errComponent, c)
	}
	return cards(e, x.route.endpoint, x.route.component), nil
}
