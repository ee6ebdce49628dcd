package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/warmring/warmring/api/admin"
)

const (
	keyModels   = 8
	keyReplicas = 3
	keyAskers   = 4 // at once
)

// movedKeys measures which keys get another home when a model server comes, and when one goes.
func movedKeys(ctx context.Context, s *session) (table, error) {
	t := table{
		Title: fmt.Sprintf("Keys that move, of %d, with %d replicas", s.size.bodies, keyReplicas),
		Notes: []string{
			"homes as POST /admin/v1/explain of each router names them for different bodies; routers in this process",
			"unequal: keys for which two routers name two homes; needless: keys that moved, but not to the new server or away from the old one",
		},
		Columns: []string{"moved_%", "expected_%", "needless", "unequal"},
	}
	m, err := startModels(ctx, keyModels+1, 20)
	if err != nil {
		return t, err
	}
	s.progress.step("keys")
	c, err := startLocal(ctx, s, keyReplicas, m.backends[:keyModels])
	if err != nil {
		return t, errors.Join(err, m.stop())
	}
	k := keys{local: c, bodies: prompts(s.size.bodies, 1)}
	return t, errors.Join(k.measure(ctx, &t, m), c.stop(), m.stop())
}

type keys struct {
	*local
	bodies [][]byte
}

func (k *keys) measure(ctx context.Context, t *table, m *models) error {
	was, unequal, err := k.homes(ctx)
	if err != nil {
		return err
	}
	t.add(fmt.Sprintf("%d model servers", keyModels), map[string]float64{"unequal": float64(unequal)})
	added := m.backends[keyModels]
	body := fmt.Appendf(nil, `{"url":%q,"endpoint":%q}`, added.URL, model)
	if err := k.change(ctx, http.MethodPut, added.ID, body, keyModels+1); err != nil {
		return err
	}
	if err := k.compare(ctx, t, "one more", was, added.ID, 1.0/(keyModels+1)); err != nil {
		return err
	}
	if err := k.change(ctx, http.MethodDelete, added.ID, nil, keyModels); err != nil {
		return err
	}
	if err := k.compare(ctx, t, "back again", was, "", 0); err != nil {
		return err
	}
	gone := m.backends[0].ID
	if err := k.change(ctx, http.MethodDelete, gone, nil, keyModels-1); err != nil {
		return err
	}
	return k.compare(ctx, t, "one less", was, gone, 1.0/keyModels)
}

// compare adds a row: which keys have another home than before.
func (k *keys) compare(ctx context.Context, t *table, name string, was []string, server string, expected float64) error {
	is, unequal, err := k.homes(ctx)
	if err != nil {
		return err
	}
	moved, needless := 0, 0
	for i := range is {
		if is[i] == was[i] {
			continue
		}
		moved++
		if is[i] != server && was[i] != server {
			needless++
		}
	}
	t.add(name, map[string]float64{
		"moved_%": share(moved, len(is)), "expected_%": 100 * expected, "needless": float64(needless), "unequal": float64(unequal),
	})
	return nil
}

// change changes the fleet and waits until every router has so many servers, all of them active.
func (k *keys) change(ctx context.Context, method, id string, body []byte, servers int) error {
	if err := k.client.call(ctx, method, k.routers[0], "backends/"+id, body, nil); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	for _, r := range k.routers {
		for active := -1; active != servers; {
			var list []admin.BackendStatus
			if err := k.client.read(ctx, r, "backends", &list); err != nil {
				return err
			}
			active = 0
			for _, b := range list {
				if b.State == "active" && !b.Gone {
					active++
				}
			}
			if active != servers && !sleep(ctx, 20*time.Millisecond) {
				return fmt.Errorf("%s has %d active servers, want %d: %w", r.Name, active, servers, errNotSettled)
			}
		}
	}
	return nil
}

// homes is the home of each body, and for how many the routers do not agree.
func (k *keys) homes(ctx context.Context) (homes []string, unequal int, err error) {
	all := make([][]string, len(k.routers))
	for i, r := range k.routers {
		all[i] = make([]string, len(k.bodies))
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(keyAskers)
		for b, body := range k.bodies {
			group.Go(func() error {
				var e admin.Explanation
				if err := k.client.call(ctx, http.MethodPost, r, "explain?kind=chat", body, &e); err != nil {
					return err
				}
				all[i][b] = e.Home
				return nil
			})
		}
		if err := group.Wait(); err != nil {
			return nil, 0, err
		}
	}
	for b := range k.bodies {
		for i := range all {
			if all[i][b] != all[0][b] {
				unequal++
				break
			}
		}
	}
	return all[0], unequal, nil
}
