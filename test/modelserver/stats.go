package modelserver

// Stats is a consistent snapshot of a server's counters. Sequences are counted:
// a chat request is one, an embedding request one for each input. At any moment
// Received = Waiting + Running + Served + Aborted.
type Stats struct {
	Requests int `json:"requests"` // inference requests over HTTP, refused ones included

	Received int `json:"received"` // sequences accepted by the engine
	Started  int `json:"started"`  // sequences that got into the batch
	Waiting  int `json:"waiting"`  // accepted and not started
	Running  int `json:"running"`  // in the batch
	Served   int `json:"served"`   // finished
	Limited  int `json:"limited"`  // of those, ended by the client's token limit
	Aborted  int `json:"aborted"`  // left by their client, or by the engine's stop

	PromptTokens    int `json:"prompt_tokens"`    // of started sequences
	CachedTokens    int `json:"cached_tokens"`    // of those, found in the cache
	GeneratedTokens int `json:"generated_tokens"` // of all answers
	Steps           int `json:"steps"`            // engine steps begun

	BlocksUsed    int `json:"blocks_used"`    // held by running sequences
	BlocksCached  int `json:"blocks_cached"`  // shareable, in use or free
	BlocksEvicted int `json:"blocks_evicted"` // since the start
	BlocksTotal   int `json:"blocks_total"`   // capacity
}

// snapshot returns the engine's counters; Requests is the server's.
func (e *engine) snapshot() Stats {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.stats
	s.Waiting, s.Running = len(e.waiting), len(e.running)
	s.BlocksUsed, s.BlocksCached = e.cache.used(), len(e.cache.blocks)
	s.BlocksEvicted, s.BlocksTotal = e.cache.evicted, e.cache.capacity
	return s
}
