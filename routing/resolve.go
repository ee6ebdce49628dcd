package routing

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
// "" or an unknown name, the most that it reads for any. usual is enough where
// every character takes one byte, most is always enough.
func (e *Epoch) TextLimit(endpoint string) (usual, most int) {
	if t, ok := e.targets[endpoint]; ok {
		return t.usual, t.most
	}
	for _, t := range e.targets {
		usual, most = max(usual, t.usual), max(most, t.most)
	}
	return usual, most
}
