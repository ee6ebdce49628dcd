package workload

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmring/warmring/routing/prefix"
)

func made(t *testing.T, name string, o Options) *Script {
	t.Helper()
	s, err := New(name, o)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return s
}

// names are those that need no file.
func names() []string {
	var out []string
	for _, k := range Kinds() {
		if k.Name != "e1" {
			out = append(out, k.Name)
		}
	}
	return out
}

func text(u *Turn) prefix.Text {
	var t prefix.Text
	u.Text(&t, u.Size())
	return t
}

func TestScripts(t *testing.T) {
	for _, name := range names() {
		s := made(t, name, Options{Seed: 1, Length: 0.05})
		if s.Requests() == 0 || s.Servers < 7 || s.Warm >= s.End {
			t.Errorf("%s: %d requests, %d servers, counts from %v to %v", name, s.Requests(), s.Servers, s.Warm, s.End)
		}
		last := time.Duration(0)
		for i := range s.Sessions {
			if s.Sessions[i].Start < last || len(s.Sessions[i].Turns) == 0 {
				t.Fatalf("%s: session %d begins at %v after one at %v", name, i, s.Sessions[i].Start, last)
			}
			last = s.Sessions[i].Start
			for k := range s.Sessions[i].Turns {
				check(t, s, &s.Sessions[i].Turns[k])
			}
		}
	}
}

// check holds a turn's blocks and lengths against each other.
func check(t *testing.T, s *Script, u *Turn) {
	t.Helper()
	tokens := 0
	for i := range u.Prompt {
		tokens += u.Prompt[i].Tokens
	}
	blocks := s.AppendBlocks(nil, u)
	if u.Tokens != tokens || u.Tokens < 1 || u.Answer.Tokens < 1 || len(blocks) != (tokens+u.Answer.Tokens)/s.Block {
		t.Fatalf("%s: %d tokens said and %d found, answer %d, %d blocks", s.Name, u.Tokens, tokens, u.Answer.Tokens, len(blocks))
	}
	if most := slices.Max(append(blocks, 0)); most >= s.Blocks {
		t.Fatalf("%s: block %d of %d", s.Name, most, s.Blocks)
	}
}

func TestSameSeedSameScript(t *testing.T) {
	for _, name := range names() {
		o := Options{Seed: 5, Length: 0.05}
		a, b := made(t, name, o), made(t, name, o)
		if !reflect.DeepEqual(a, b) {
			t.Errorf("%s: two scripts of one seed differ", name)
		}
		o.Seed = 6
		if c := made(t, name, o); reflect.DeepEqual(a.Sessions, c.Sessions) {
			t.Errorf("%s: two seeds have one script", name)
		}
	}
}

// Two prompts have as many blocks in common as text, which holds the sizes of the simulation's caches and of the router's
// chain against each other.
func TestBlocksAreSharedAsTextIs(t *testing.T) {
	for _, name := range []string{"a1", "b", "c", "d", "growing", "single", "tenant"} {
		s := made(t, name, Options{Seed: 2, Length: 0.05})
		draw := rand.New(rand.NewPCG(1, 2))
		shared := 0
		for range 300 {
			a, b := pick(s, draw), pick(s, draw)
			one, two := text(a), text(b)
			bytes := common(one.Bytes, two.Bytes)
			blocks := common(s.AppendBlocks(nil, a), s.AppendBlocks(nil, b))
			blocks = min(blocks, a.Tokens/s.Block, b.Tokens/s.Block)
			shared += blocks
			// Texts that part may have a token in common by chance.
			if want := bytes / TokenBytes / s.Block; blocks > want || blocks < want-1 {
				t.Fatalf("%s: %d bytes in common, %d blocks", name, bytes, blocks)
			}
		}
		if shared == 0 {
			t.Errorf("%s: nothing is shared", name)
		}
	}
}

func pick(s *Script, draw *rand.Rand) *Turn {
	turns := s.Sessions[draw.IntN(len(s.Sessions))].Turns
	return &turns[draw.IntN(len(turns))]
}

func common[T comparable](a, b []T) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// A turn's chain begins with that of the turn before it, and its blocks with those.
func TestTurnsGrow(t *testing.T) {
	s := made(t, "b", Options{Seed: 3, Length: 0.05})
	for i := range s.Sessions {
		turns := s.Sessions[i].Turns
		for k := 1; k < len(turns); k++ {
			before, after := text(&turns[k-1]), text(&turns[k])
			a, b := prefix.AppendChain(nil, 1, &before), prefix.AppendChain(nil, 1, &after)
			if common(a, b) != min(len(a), prefix.MaxChunks) {
				t.Fatalf("session %d, turn %d: %d of %d chunks come again", i, k, common(a, b), len(a))
			}
			c, d := s.AppendBlocks(nil, &turns[k-1]), s.AppendBlocks(nil, &turns[k])
			if common(c, d) != len(c) {
				t.Fatalf("session %d, turn %d: %d of %d blocks come again", i, k, common(c, d), len(c))
			}
		}
	}
}

// What is sent turn by turn, with the answers between, is the prompt's text.
func TestMessagesAreTheText(t *testing.T) {
	for _, name := range []string{"b", "c", "growing"} {
		s := made(t, name, Options{Seed: 4, Length: 0.03})
		for i := range s.Sessions {
			session := &s.Sessions[i]
			var said []byte
			var ends []int
			for k := range session.Turns {
				u := &session.Turns[k]
				if k > 0 {
					said = session.Turns[k-1].Answer.AppendText(said, 1<<20)
					ends = append(ends, len(said))
				}
				for _, m := range session.Messages(k) {
					said = append(said, m.Text...)
					ends = append(ends, len(said))
				}
				want := text(u)
				if !bytes.Equal(said, want.Bytes) || !slices.Equal(ends, want.Ends) || len(said) != u.Size() {
					t.Fatalf("%s: session %d, turn %d: %d bytes said, prompt has %d; ends %v, %v", name, i, k, len(said), len(want.Bytes), ends, want.Ends)
				}
			}
		}
	}
}

func TestTextIsCut(t *testing.T) {
	s := made(t, "c", Options{Seed: 1, Length: 0.02})
	u := &s.Sessions[0].Turns[0]
	whole := text(u)
	var cut prefix.Text
	for _, limit := range []int{0, 1, 4, 5, 2432, 8448, 8449, len(whole.Bytes) - 1, len(whole.Bytes), len(whole.Bytes) + 1} {
		u.Text(&cut, limit)
		n := min(limit, len(whole.Bytes))
		ends := 0
		for ends < len(whole.Ends) && whole.Ends[ends] <= n {
			ends++
		}
		if !bytes.Equal(cut.Bytes, whole.Bytes[:n]) || !slices.Equal(cut.Ends, whole.Ends[:ends]) || cut.FirstUser > n {
			t.Errorf("limit %d: %d bytes, ends %v, first user %d; whole: ends %v", limit, len(cut.Bytes), cut.Ends, cut.FirstUser, whole.Ends)
		}
	}
	if whole.FirstUser != len(whole.Bytes) {
		t.Errorf("the first user message ends at %d of %d", whole.FirstUser, len(whole.Bytes))
	}
}

func TestRateAndLength(t *testing.T) {
	usual := made(t, "d", Options{Length: 0.2})
	twice := made(t, "d", Options{Length: 0.2, Rate: 2})
	if r := float64(twice.Requests()) / float64(usual.Requests()); r < 1.9 || r > 2.1 || twice.End != usual.End {
		t.Errorf("twice the rate makes %.2f times the requests in %v instead of %v", r, twice.End, usual.End)
	}
	if c := made(t, "a1", Options{Rate: 2}).Clients; c != 32 {
		t.Errorf("twice the rate makes %d clients of 16", c)
	}
}

func TestTrace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "trace.jsonl")
	lines := `{"timestamp": 3000, "input_length": 1100, "output_length": 5, "hash_ids": [0, 1, 7]}
{"timestamp": 0, "input_length": 1024, "output_length": 0, "hash_ids": [0, 1]}

{"timestamp": 60000, "input_length": 600, "output_length": 9, "hash_ids": [0, 9]}
`
	if err := os.WriteFile(file, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	s := made(t, "e1", Options{Trace: file})
	if len(s.Sessions) != 3 || s.Block != 512 {
		t.Fatalf("%d sessions of blocks of %d", len(s.Sessions), s.Block)
	}
	first, second, third := &s.Sessions[0].Turns[0], &s.Sessions[1].Turns[0], &s.Sessions[2].Turns[0]
	if first.Tokens != 1024 || first.Answer.Tokens != 1 || second.Tokens != 1100 {
		t.Errorf("turns %+v, %+v", first, second)
	}
	for _, u := range []*Turn{first, second} {
		if got := s.AppendBlocks(nil, u); !slices.Equal(got, []uint32{1, 2}) {
			t.Errorf("blocks %v, want those of ids 0 and 1", got)
		}
	}
	a, b, c := text(first), text(second), text(third)
	if n := common(a.Bytes, b.Bytes); n != 4096 {
		t.Errorf("%d bytes in common, want 4096", n)
	}
	if n := common(b.Bytes, c.Bytes); n < 2048 || n > 2100 {
		t.Errorf("%d bytes in common, want 2048", n)
	}
	if s.Sessions[2].Start < 30*time.Second || s.Sessions[2].Start > 32*time.Second {
		t.Errorf("a minute of the trace begins at %v, want half of it", s.Sessions[2].Start)
	}
}

func TestErrors(t *testing.T) {
	if _, err := New("z", Options{}); !errors.Is(err, ErrUnknown) {
		t.Errorf("unknown workload: %v", err)
	}
	if _, err := New("e1", Options{}); !errors.Is(err, ErrNoTrace) {
		t.Errorf("no trace: %v", err)
	}
	if _, err := New("e1", Options{Trace: filepath.Join(t.TempDir(), "none")}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing trace: %v", err)
	}
	file := filepath.Join(t.TempDir(), "bad")
	for text, says := range map[string]string{
		"": "no request in it", "\n{": "line 2", `{"prompt":"x"}`: "line 1 is not a request of such a trace: it has no input_length",
		`{"timestamp":1.7e12,"input_length":1}`: "its timestamp is 1.7e+12, and must be", `{"timestamp":-1,"input_length":1}`: "its timestamp is -1",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := New("e1", Options{Trace: file}); err == nil || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), says) {
			t.Errorf("a trace that is %q: %v", text, err)
		}
	}
}

func BenchmarkText(b *testing.B) {
	s, err := New("a2", Options{Length: 0.05})
	if err != nil {
		b.Fatal(err)
	}
	u := &s.Sessions[0].Turns[0]
	var t prefix.Text
	b.SetBytes(int64(u.Size()))
	for b.Loop() {
		u.Text(&t, u.Size())
	}
}
