package workload

import "time"

// Script is a run: the same sessions for whatever routes them.
type Script struct {
	Name     string
	Sessions []Session // by start
	// Clients is how many sessions are alive at any time, each begun when another ends; 0: sessions begin at their Start.
	Clients int
	// Warm is when the figures begin to count, End when the run is over.
	Warm, End time.Duration
	// Servers is how many model servers there are at first, numbered from 0.
	Servers int
	Changes []Change
	Stalls  []Stall
	// Block is how many tokens a block of the model servers' caches has, and Blocks is above all ids of blocks.
	Block  int
	Blocks uint32
}

// Change is a new fleet.
type Change struct {
	At time.Duration
	Up []int // the model servers from then on
}

// Stall is a time in which a model server takes requests and computes nothing.
type Stall struct {
	Server   int
	From, To time.Duration
}

// Session is a conversation.
type Session struct {
	Start time.Duration // since the beginning of the run
	Turns []Turn
}

// Turn is one request. Its prompt holds those of the turns before it, and their answers.
type Turn struct {
	Prompt []Segment
	Answer Segment
	Think  time.Duration // from the end of the turn before to this one; 0 for the first
	Tokens int           // of the prompt
}

// Role is who says a segment.
type Role uint8

// The roles.
const (
	System Role = iota
	User
	Assistant
)

// String is the role's name in a chat.
func (r Role) String() string {
	switch r {
	case System:
		return "system"
	case User:
		return "user"
	default:
		return "assistant"
	}
}

// Segment is a stretch of text. Neighbours of one role are one message.
type Segment struct {
	Role   Role
	Tokens int
	Seed   uint64 // of the text: of two segments with one seed, one begins with the other
	first  uint32 // id of the first block that ends in it; 0: its blocks are not cached
}

// AppendBlocks appends the ids of the full blocks of a turn's prompt and answer, as far as they are cached. Equal ids mean
// equal tokens from the prompt's beginning on.
func (s *Script) AppendBlocks(dst []uint32, t *Turn) []uint32 {
	at := 0
	for i := range t.Prompt {
		if dst = t.Prompt[i].appendBlocks(dst, at, s.Block); t.Prompt[i].first == 0 {
			return dst
		}
		at += t.Prompt[i].Tokens
	}
	return t.Answer.appendBlocks(dst, at, s.Block)
}

func (g *Segment) appendBlocks(dst []uint32, at, block int) []uint32 {
	if g.first == 0 {
		return dst
	}
	for i := range uint32((at+g.Tokens)/block - at/block) {
		dst = append(dst, g.first+i)
	}
	return dst
}

// Requests is how many turns there are in all.
func (s *Script) Requests() int {
	n := 0
	for i := range s.Sessions {
		n += len(s.Sessions[i].Turns)
	}
	return n
}
