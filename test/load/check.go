package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

const (
	checkTimeout = 30 * time.Second
	maxModels    = 1 << 20 // bytes of a list of models
)

// Check sends one short request to each base, so that a mistake is told before a run and not by each of its requests.
// An empty model becomes the only one of the first base's list.
func (t *Target) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	client := newClient(1)
	defer client.CloseIdleConnections()
	for _, base := range t.Bases {
		if err := t.check(ctx, client, base); err != nil {
			return err
		}
	}
	return nil
}

func (t *Target) check(ctx context.Context, client *http.Client, base string) error {
	if t.Model == "" {
		if err := t.choose(ctx, client, base); err != nil {
			return err
		}
	}
	r := ask(ctx, client, t, base, chat{Messages: []Message{{"user", "Hello"}}, MaxTokens: 1}, nil)
	if r.Err == nil {
		return nil
	}
	if status, ok := errors.AsType[*StatusError](r.Err); ok && status.Code == http.StatusNotFound {
		if names, err := t.models(ctx, client, base); err == nil && !slices.Contains(names, t.Model) {
			return fmt.Errorf("%s: %w: %s; its models are: %s", base, ErrNoModel, t.Model, strings.Join(names, ", "))
		}
	}
	return found(r.Err, base)
}

// choose takes the only model.
func (t *Target) choose(ctx context.Context, client *http.Client, base string) error {
	names, err := t.models(ctx, client, base)
	status, refused := errors.AsType[*StatusError](err)
	switch {
	case refused && status.Code == http.StatusNotFound:
		return fmt.Errorf("%s: %w: it lists no models (%w)", base, ErrAmbiguous, err)
	case err != nil:
		return found(err, base)
	case len(names) == 0:
		return fmt.Errorf("%s: %w: it has none", base, ErrAmbiguous)
	case len(names) > 1:
		return fmt.Errorf("%s: %w: it has %s", base, ErrAmbiguous, strings.Join(names, ", "))
	}
	t.Model = names[0]
	return nil
}

// models lists the models of a base; at most 20 of them.
func (t *Target) models(ctx context.Context, client *http.Client, base string) ([]string, error) {
	const most = 20
	req, err := newRequest(ctx, t, http.MethodGet, base+"/models", nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }() // it was read as far as it is wanted
	if resp.StatusCode != http.StatusOK {
		return nil, refusal(resp)
	}
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxModels)).Decode(&list); err != nil {
		return nil, fmt.Errorf("%w: the list of models: %w", ErrDialect, err)
	}
	var names []string
	for _, m := range list.Data[:min(len(list.Data), most)] {
		names = append(names, m.ID)
	}
	return names, nil
}
