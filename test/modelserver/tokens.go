package modelserver

import (
	"encoding/binary"
	"math/rand/v2"

	"github.com/cespare/xxhash/v2"
)

// token is the number of a piece of text.
type token uint32

// Special tokens mark the parts of a chat. Being tokens of their own, they keep
// the text on either side from running together, as a real chat template does.
const (
	tokenEnd token = iota + 1
	tokenTools
	tokenSystem
	tokenUser
	tokenAssistant
	tokenTool
	tokenOther
)

// encode appends the tokens of text: one for each size bytes from its start, so
// that texts which begin alike have tokens which begin alike.
func encode(dst []token, text string, size int) []token {
	for len(text) > 0 {
		n := min(size, len(text))
		dst = append(dst, token(xxhash.Sum64String(text[:n])))
		text = text[n:]
	}
	return dst
}

// hasher computes block ids.
type hasher struct{ buf []byte }

// next returns the id of tokens that follow the block parent.
func (h *hasher) next(parent blockID, tokens []token) blockID {
	h.buf = binary.LittleEndian.AppendUint64(h.buf[:0], uint64(parent))
	for _, t := range tokens {
		h.buf = binary.LittleEndian.AppendUint32(h.buf, uint32(t))
	}
	return blockID(xxhash.Sum64(h.buf))
}

// chain returns the ids of the full blocks of tokens. The root keeps prompts of
// different adapters and cache salts apart, as vLLM does.
func (h *hasher) chain(root blockID, tokens []token, size int) []blockID {
	ids := make([]blockID, 0, len(tokens)/size)
	for len(tokens) >= size {
		root = h.next(root, tokens[:size])
		ids = append(ids, root)
		tokens = tokens[size:]
	}
	return ids
}

// compose returns the answer to a prompt: n tokens of size bytes each, words of
// alternating consonants and vowels, the same for the same seed.
func compose(seed uint64, n, size int) string {
	const consonants, vowels = "bdfgklmnprstvwz", "aeiou"
	r := rand.New(rand.NewPCG(seed, seed))
	text := make([]byte, 0, n*size)
	for i := range n {
		for j := range size {
			switch {
			case j == 0 && i > 0 && size > 1:
				text = append(text, ' ')
			case j%2 == 1:
				text = append(text, consonants[r.IntN(len(consonants))])
			default:
				text = append(text, vowels[r.IntN(len(vowels))])
			}
		}
	}
	return string(text)
}
