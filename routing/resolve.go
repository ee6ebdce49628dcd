package routing

import "github.com/warmring/warmring/routing/prefix"

// Resolve finds the endpoint that a request's model field means: by name, alias
// or adapter. With a single endpoint any other model is taken for an adapter of
// it. The errors are ErrNoEndpoint and ErrUnknownModel.
func (e *Epoch) Resolve(name string) (endpoint, adapter string, err error) {
	if m, ok := e.models[name]; ok {
		return m.endpoint, m.adapter, nil
	}
	switch len(e.endpoints) {
	case 0:
		return "", "", ErrNoEndpoint
	case 1:
		return e.endpoints[0].Name, name, nil
	}
	return "", "", ErrUnknownModel
}

// TextLimit is how many bytes of canonical text Map reads for the endpoint; for
// "" or an unknown name, the most that it reads for any. usual is enough for most
// requests, and Place.Needs tells of the others; most is always enough. They are
// the same where a request is counted for hot tables, which takes all of its text.
func (e *Epoch) TextLimit(endpoint string, counted bool) (usual, most int) {
	if t, ok := e.targets[endpoint]; ok {
		return t.limit(counted, e.settled.Load())
	}
	for i := range e.endpoints { // of which there are few: sooner done than going through a map
		u, m := e.targets[e.endpoints[i].Name].limit(counted, e.settled.Load())
		usual, most = max(usual, u), max(most, m)
	}
	return usual, most
}

// Reading a text twice costs more than reading fewChunks of it, and less than reading manyChunks of all texts because some are
// hot that deep.
const fewChunks, manyChunks = 4, 16

// limit is TextLimit of the endpoint: with `auto`, as much as any request needed since the epoch began, within bounds.
func (t *target) limit(counted, settled bool) (usual, most int) {
	switch {
	case !t.adaptive:
		return t.usual, t.most
	case counted:
		return t.most, t.most
	case !settled:
		usual = startText
	}
	return max(t.usual, usual, min(max(fewChunks, int(t.deepest.Load()+1)), manyChunks)*prefix.ChunkSize), t.most
}

// deepen notes that a place took so many chunks to find.
func (t *target) deepen(chunks int) {
	for {
		was := t.deepest.Load()
		if int64(chunks) <= was || t.deepest.CompareAndSwap(was, int64(chunks)) {
			return
		}
	}
}
