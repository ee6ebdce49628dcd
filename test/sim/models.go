package sim

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync/atomic"

	"github.com/warmring/warmring/test/modelserver"
	"github.com/warmring/warmring/test/sim/simnet"
)

// modelPort is where model servers listen.
const modelPort = ":8000"

// Model is a simulated model server on a host of its own.
type Model struct {
	*Process
	server atomic.Pointer[modelserver.Server]
}

// URL is by the host's name, so that it stays when the host moves.
func (m *Model) URL() string { return "http://" + m.Name + modelPort }

// Server is the one that was started last, for faults and counters.
func (m *Model) Server() *modelserver.Server { return m.server.Load() }

// Models starts n model servers, m00 and so on, of the model "demo". Each tweak changes the configuration.
func (w *World) Models(n int, tweak ...func(*modelserver.Config)) []*Model {
	var models []*Model
	for _, name := range w.freeNames("m", n) {
		m := new(Model)
		m.Process = w.Start(name, func(h *simnet.Host, _ io.Writer) (func(context.Context) error, error) {
			cfg := modelserver.Default()
			cfg.ID, cfg.DefaultAnswer = h.Name(), 16
			for _, t := range tweak {
				t(&cfg)
			}
			s, err := modelserver.New(cfg)
			if err != nil {
				return nil, err
			}
			l, err := h.Listen(w.ctx, "tcp", modelPort)
			if err != nil {
				return nil, err
			}
			m.server.Store(s)
			return func(ctx context.Context) error { return s.Run(ctx, l) }, nil
		})
		w.Idle(m.Name+"'s sequences", func() int { s := m.Server().Stats(); return s.Waiting + s.Running })
		models = append(models, m)
	}
	return models
}

// freeNames are a letter and the next numbers.
func (w *World) freeNames(letter string, n int) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	next := 0
	for _, p := range w.processes {
		if strings.HasPrefix(p.Name, letter) {
			next++
		}
	}
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("%s%02d", letter, next+i))
	}
	return names
}
