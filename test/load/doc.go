// Package load sends scripted conversations in real time to anything that speaks OpenAI's chat completions, measures how each
// answer came about, and sets runs side by side: as figures, as JSON and as one HTML page.
//
// It is a client like any other. What it knows of caches is what servers say in `usage.prompt_tokens_details`; what it knows
// of servers is what a router says in X-Warmring-Backend.
package load
