package modelserver

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"math/rand/v2"
)

const (
	maxDimensions = 8192
	maxInputs     = 2048 // OpenAI's limit on the inputs of one request
)

// embeddingBody is the part of an embedding request that matters here.
type embeddingBody struct {
	Model          string          `json:"model"`
	Input          json.RawMessage `json:"input"`
	EncodingFormat string          `json:"encoding_format"`
	Dimensions     *int            `json:"dimensions"`
}

// embedding is one element of an embedding answer's data.
type embedding struct {
	Object    string `json:"object"`
	Index     int    `json:"index"`
	Embedding any    `json:"embedding"` // []float32, or base64 of little-endian ones
}

// check returns the length of the vectors, or what is wrong with b.
func (b *embeddingBody) check(dimensions, inputs int) (int, error) {
	if b.Dimensions != nil {
		dimensions = *b.Dimensions
	}
	switch {
	case dimensions < 1 || dimensions > maxDimensions:
		return 0, badRequest("dimensions", "dimensions must be 1 to %d, got %d.", maxDimensions, dimensions)
	case b.EncodingFormat != "" && b.EncodingFormat != "float" && b.EncodingFormat != "base64":
		return 0, badRequest("encoding_format", "encoding_format must be float or base64, got %q.", b.EncodingFormat)
	case inputs > maxInputs:
		return 0, badRequest("input", "input: at most %d a request, got %d.", maxInputs, inputs)
	}
	return dimensions, nil
}

// embed serves POST /v1/embeddings.
func embed(c *call) error {
	var body embeddingBody
	if err := decode(c.body, &body); err != nil {
		return err
	}
	model, err := c.resolve(body.Model)
	if err != nil {
		return err
	}
	inputs, err := promptTokens(body.Input, "input", c.cfg.BytesPerToken)
	if err != nil {
		return err
	}
	dimensions, err := body.check(c.cfg.Dimensions, len(inputs))
	if err != nil {
		return err
	}
	total, err := c.prefill(model, inputs)
	if err != nil {
		return err
	}
	data := make([]embedding, len(inputs))
	for i, tokens := range inputs {
		v := vector(tokens, dimensions)
		data[i] = embedding{Object: "embedding", Index: i, Embedding: v}
		if body.EncodingFormat == "base64" {
			data[i].Embedding = encodeVector(v)
		}
	}
	return c.reply(fields{"object": "list", "id": "embd-" + c.id, "model": model, "data": data, "usage": total.wire()})
}

// prefill runs the prompts through the engine, all at once, without answers.
func (c *call) prefill(model string, prompts [][]token) (total usage, err error) {
	root := cacheRoot(model, "")
	all := make([]*sequence, len(prompts))
	for i, tokens := range prompts {
		if _, err := c.want(len(tokens), nil); err != nil {
			return total, err
		}
		all[i], _ = c.sequence(root, tokens, 0)
	}
	for _, q := range all {
		defer c.engine.abort(q)
		if err := c.engine.submit(q); err != nil {
			return total, err
		}
	}
	for _, q := range all {
		if _, err := q.wait(c.r.Context()); err != nil {
			return total, err
		}
		total.prompt += q.prompt
		total.cached += q.cached
	}
	return total, nil
}

// vector returns a unit vector that depends on the tokens alone.
func vector(tokens []token, dimensions int) []float32 {
	var h hasher
	seed := uint64(h.next(0, tokens))
	r := rand.New(rand.NewPCG(seed, seed))
	v := make([]float64, dimensions)
	var square float64
	for i := range v {
		v[i] = r.NormFloat64()
		square += v[i] * v[i]
	}
	unit := make([]float32, dimensions)
	for i := range v {
		unit[i] = float32(v[i] / math.Sqrt(square))
	}
	return unit
}

// encodeVector returns v as OpenAI's base64 format: little-endian float32s.
func encodeVector(v []float32) string {
	raw := make([]byte, 0, 4*len(v))
	for _, x := range v {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
	}
	return base64.StdEncoding.EncodeToString(raw)
}
