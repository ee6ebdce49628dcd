package modelserver

import (
	"net/http"
	"slices"
	"time"
)

// ask is what the engine needs to know of a generation request.
type ask struct {
	model  string // empty for the default
	salt   string // vLLM's cache_salt: keeps caches of different tenants apart
	prompt []token
	limit  *int // the client's limit on the answer's tokens, if any
}

// generation is an accepted request: its sequence and, known from the start,
// the text of its answer.
type generation struct {
	*sequence
	model   string
	id      string
	created int64 // Unix seconds
	text    string
	size    int // bytes of text in a token
}

// usage counts the tokens of a request.
type usage struct{ prompt, cached, made int }

// piece returns the text of the i-th token.
func (g *generation) piece(i int) string { return g.text[i*g.size : (i+1)*g.size] }

// usage may be called once a token was waited for.
func (g *generation) usage() usage {
	return usage{prompt: g.prompt, cached: g.cached, made: g.want}
}

// finish is OpenAI's finish_reason.
func (g *generation) finish() string {
	if g.limited {
		return "length"
	}
	return "stop"
}

// resolve returns the name under which a model or adapter is served.
func (s *Server) resolve(model string) (string, error) {
	if model == "" {
		return s.cfg.Model, nil
	}
	if model != s.cfg.Model && !slices.Contains(s.cfg.Adapters, model) {
		return "", newError(http.StatusNotFound, "model", "The model `%s` does not exist.", model)
	}
	return model, nil
}

// want returns the length of the answer to a prompt.
func (s *Server) want(prompt int, limit *int) (int, error) {
	room := s.cfg.MaxContext - prompt
	switch {
	case prompt == 0:
		return 0, badRequest("", "The prompt is empty.")
	case room < 1:
		return 0, badRequest("", "This model's maximum context length is %d tokens, but the prompt has %d.", s.cfg.MaxContext, prompt)
	case limit == nil:
		return min(s.cfg.DefaultAnswer, room), nil
	case *limit < 1:
		return 0, badRequest("max_tokens", "The limit on tokens must be at least 1, got %d.", *limit)
	case *limit > room:
		return 0, badRequest("max_tokens", "This model's maximum context length is %d tokens, but the prompt has %d and %d more are asked for.",
			s.cfg.MaxContext, prompt, *limit)
	}
	return *limit, nil
}

// generate hands a request to the engine. The caller aborts it when it is no
// longer interested; that does no harm to one that is over.
func (c *call) generate(prefix string, a ask) (*generation, error) {
	model, err := c.resolve(a.model)
	if err != nil {
		return nil, err
	}
	want, err := c.want(len(a.prompt), a.limit)
	if err != nil {
		return nil, err
	}
	q, text := c.sequence(cacheRoot(model, a.salt), a.prompt, want)
	q.limited = a.limit != nil
	g := &generation{
		sequence: q, model: model, id: prefix + c.id, created: time.Now().Unix(),
		text: text, size: c.cfg.BytesPerToken,
	}
	return g, c.engine.submit(q)
}

// cacheRoot returns the block before the first block of a prompt.
func cacheRoot(model, salt string) blockID {
	var h hasher
	return h.next(0, append(append(encode(nil, model, 64), tokenEnd), encode(nil, salt, 64)...))
}

// sequence prepares a prompt for the engine and returns its answer of want
// tokens, which depends on the prompt alone.
func (s *Server) sequence(root blockID, prompt []token, want int) (*sequence, string) {
	var h hasher
	text := compose(uint64(h.next(root, prompt)), want, s.cfg.BytesPerToken)
	all := encode(slices.Clip(prompt), text, s.cfg.BytesPerToken)
	return &sequence{
		blocks:   h.chain(root, all, s.cfg.Block),
		prompt:   len(prompt),
		want:     want,
		progress: make(chan int, 1),
	}, text
}

// dialect shapes answers for one route.
type dialect interface {
	opening() []event                     // sent at once
	first() []event                       // sent with the first token
	delta(text string) event              // sent for each token
	closing(text string, u usage) []event // sent after the last token
	whole(text string, u usage) any       // sent alone when the answer is not streamed
}

// answer sends g in the form of d.
func (c *call) answer(g *generation, d dialect, stream bool) error {
	if stream {
		return c.stream(g, d)
	}
	for made := 0; made < g.want; {
		var err error
		if made, err = g.wait(c.r.Context()); err != nil {
			return err
		}
	}
	return c.reply(d.whole(g.text, g.usage()))
}

// stream sends one event for each token as it is made.
func (c *call) stream(g *generation, d dialect) error {
	if err := c.begin(); err != nil {
		return err
	}
	if err := c.sendAll(d.opening()); err != nil {
		return err
	}
	for sent := 0; sent < g.want; {
		made, err := g.wait(c.r.Context())
		if err != nil {
			return err
		}
		if sent == 0 {
			if err := c.sendAll(d.first()); err != nil {
				return err
			}
		}
		for ; sent < made; sent++ {
			if err := c.send(d.delta(g.piece(sent))); err != nil {
				return err
			}
		}
	}
	return c.sendAll(d.closing(g.text, g.usage()))
}

// sendAll sends events one by one.
func (c *call) sendAll(events []event) error {
	for _, e := range events {
		if err := c.send(e); err != nil {
			return err
		}
	}
	return nil
}

// firstSet returns the first limit that is set.
func firstSet(limits ...*int) *int {
	i := slices.IndexFunc(limits, func(l *int) bool { return l != nil })
	if i < 0 {
		return nil
	}
	return limits[i]
}
