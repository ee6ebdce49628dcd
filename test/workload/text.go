package workload

import (
	"slices"

	"github.com/warmring/warmring/routing/prefix"
)

// TokenBytes is the length of a token's text.
const TokenBytes = 4

// words are 64 tokens of a word and a space each.
const words = "the and for are but not you all any can her was one our out day get has him his how man new now old see " +
	"two way who boy did its let put say she too use dad mom car red big run sun top far few got yes end ask " +
	"why own try six ten air job law war oil age eye "

// AppendText appends the segment's text, at most limit bytes of it.
func (g *Segment) AppendText(dst []byte, limit int) []byte {
	n := max(0, min(g.Tokens*TokenBytes, limit))
	end := len(dst) + n
	dst = slices.Grow(dst, n+10*TokenBytes)
	for state := g.Seed; len(dst) < end; {
		state += golden
		draw := mix(state)
		for range 10 { // six bits each
			word := draw & 63 * TokenBytes
			draw >>= 6
			dst = append(dst, words[word], words[word+1], words[word+2], words[word+3])
		}
	}
	return dst[:end]
}

// Text puts the prompt's text into t, whose memory it uses again, cut at limit bytes.
func (u *Turn) Text(t *prefix.Text, limit int) {
	t.Bytes, t.Ends, t.FirstUser = t.Bytes[:0], t.Ends[:0], 0
	for i := range u.Prompt {
		g := &u.Prompt[i]
		left := limit - len(t.Bytes)
		t.Bytes = g.AppendText(t.Bytes, left)
		if g.Tokens*TokenBytes > left {
			return
		}
		if i+1 < len(u.Prompt) && u.Prompt[i+1].Role == g.Role {
			continue
		}
		t.Ends = append(t.Ends, len(t.Bytes))
		if g.Role == User && t.FirstUser == 0 {
			t.FirstUser = len(t.Bytes)
		}
	}
}

// Size is the length of the prompt's text in bytes.
func (u *Turn) Size() int { return u.Tokens * TokenBytes }

// Message is one of a chat.
type Message struct {
	Role Role
	Text string
}

// Messages are what a turn adds to the messages of the turns before it and their answers.
func (s *Session) Messages(turn int) []Message {
	added := s.Turns[turn].Prompt
	if turn > 0 {
		added = added[len(s.Turns[turn-1].Prompt)+1:]
	}
	var out []Message
	var text []byte
	for i := range added {
		g := &added[i]
		text = g.AppendText(text, g.Tokens*TokenBytes)
		if i+1 == len(added) || added[i+1].Role != g.Role {
			out = append(out, Message{g.Role, string(text)})
			text = text[:0]
		}
	}
	return out
}

// golden and mix are the increment and the finaliser of SplitMix64 (Steele, Lea, Flood 2014).
const golden = 0x9e3779b97f4a7c15

func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
