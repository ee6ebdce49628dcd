package prefix

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// chat makes a text of messages, each of which ends where the next begins.
func chat(messages ...string) *Text {
	var t Text
	for _, m := range messages {
		t.Bytes = append(t.Bytes, m...)
		t.Ends = append(t.Ends, len(t.Bytes))
	}
	return &t
}

// Two processes, builds or machines that disagree on a key would send the same
// prompt to two servers, so the values are pinned down.
func TestKeysAreStable(t *testing.T) {
	root := Root(42, "endpoint", "variant", "adapter", "tenant")
	text := chat(strings.Repeat("system ", 50), "hello", strings.Repeat("ü", 200))
	text.FirstUser = text.Ends[1]
	got := map[string]uint64{
		"empty root": Root(0),
		"root":       root,
		"fixed":      Fixed(root, text, 1024),
		"start":      Start(root, text),
	}
	want := map[string]uint64{
		"empty root": 0xef46db3751d8e999, // XXH64 of nothing, seed 0
		"root":       8707921754509734734,
		"fixed":      1508180367729618621,
		"start":      3013926239483218214,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	chain := AppendChain(nil, root, text)
	if diff := cmp.Diff([]uint64{
		1014137132154235312, 534064696702684383, 18282734094376734552, 6607821515391781690, 3474658259401582333,
	}, chain); diff != "" {
		t.Error(diff)
	}
}

func TestRootTellsPartsApart(t *testing.T) {
	roots := map[uint64][]string{}
	for _, parts := range [][]string{
		nil,
		{""},
		{"", ""},
		{"ab", "c"},
		{"a", "bc"},
		{"abc"},
		{"abc", ""},
		{"endpoint", "variant", "", "tenant"},
		{"endpoint", "variant", "tenant", ""},
		{"endpoint", "variant", "", "tenant2"},
	} {
		for _, salt := range []uint64{0, 1, 1 << 63} {
			root := Root(salt, parts...)
			if other, ok := roots[root]; ok {
				t.Errorf("%q and %q have the same root", parts, other)
			}
			roots[root] = parts
		}
	}
}

func TestChainCuts(t *testing.T) {
	long := strings.Repeat("x", ChunkSize)
	for name, c := range map[string]struct {
		text *Text
		want int
	}{
		"empty":                         {chat(), 0},
		"one byte":                      {chat("a"), 1},
		"a full chunk":                  {chat(long), 1},
		"one byte more":                 {chat(long + "a"), 2},
		"a message end cuts":            {chat("a", long), 2},
		"256 counts from the last cut":  {chat("a", long+"b"), 3},
		"no end":                        {&Text{Bytes: []byte(long + long + "a")}, 3},
		"equal ends, ends out of range": {&Text{Bytes: []byte("ab"), Ends: []int{0, 1, 1, 2, 2, 9}}, 2},
		"at most MaxChunks":             {&Text{Bytes: make([]byte, MaxText+1)}, MaxChunks},
	} {
		if got := len(AppendChain(nil, 1, c.text)); got != c.want {
			t.Errorf("%s: %d chunks, want %d", name, got, c.want)
		}
	}
}

func TestChainOfATurnBeginsTheNext(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		messages := rapid.SliceOfN(rapid.OneOf(rapid.String(), rapid.StringMatching(`[ab]{200,700}`)), 1, 8).Draw(t, "messages")
		turns := rapid.IntRange(0, len(messages)).Draw(t, "turns")
		root := rapid.Uint64().Draw(t, "root")
		before, after := chat(messages[:turns]...), chat(messages...)
		chain, longer := AppendChain(nil, root, before), AppendChain(nil, root, after)
		if len(longer) < len(chain) || !slices.Equal(chain, longer[:len(chain)]) {
			t.Fatalf("the chain of %d messages does not begin that of %d", turns, len(messages))
		}
		if other := AppendChain(nil, root+1, after); len(other) > 0 && slices.ContainsFunc(other, func(h uint64) bool { return slices.Contains(longer, h) }) {
			t.Fatal("another root has a hash in common")
		}
		if len(before.Bytes) < len(after.Bytes) && len(longer) == len(chain) {
			t.Fatal("different texts have the same end key")
		}
	})
}

// referenceFixed is the first n characters the plain way.
func referenceFixed(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}

func TestFixedCutsAtCharacters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := strings.Repeat(rapid.StringN(1, 40, -1).Draw(t, "text"), rapid.IntRange(1, 50).Draw(t, "times"))
		n := rapid.IntRange(1, 300).Draw(t, "n")
		want := referenceFixed(s, n)
		if got := s[:characters([]byte(s), n)]; got != want {
			t.Fatalf("%d characters of %q: %q, want %q", n, s, got, want)
		}
		// Whatever follows the first n characters, and even a cut at 4n bytes,
		// does not change the key.
		key := Fixed(7, &Text{Bytes: []byte(want)}, n)
		if utf8.RuneCountInString(s) >= n {
			tail := rapid.String().Draw(t, "tail")
			other := []byte(want + tail)
			if got := Fixed(7, &Text{Bytes: other[:min(len(other), 4*n)]}, n); got != key {
				t.Fatalf("the tail %q changes the key of %q", tail, want)
			}
		}
	})
}

// Enough is true of nothing that more text would change, and of what was cut behind as many bytes where all are ASCII.
func TestEnough(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text := []byte(strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "é", "漢", "😀", "\xfe", "\xff"}), 0, 60).Draw(rt, "text"), ""))
		n, size := rapid.IntRange(1, 70).Draw(rt, "n"), rapid.IntRange(0, len(text)).Draw(rt, "size")
		raw := rapid.Bool().Draw(rt, "raw")
		cut := &Text{Bytes: text[:size], Cut: size < len(text), Raw: raw}
		same := Fixed(1, cut, n) == Fixed(1, &Text{Bytes: text, Raw: raw}, n)
		if Enough(cut, n) && !same {
			rt.Fatal("not enough")
		}
		ascii := &Text{Bytes: bytes.Repeat([]byte{'a'}, n), Cut: true}
		if !Enough(ascii, n) || Enough(&Text{Bytes: ascii.Bytes[1:], Cut: true}, n) {
			rt.Fatal("bytes are characters")
		}
		if framed := append(ascii.Bytes[1:], '\xfe'); !Enough(&Text{Bytes: framed, Cut: true}, n) {
			rt.Fatal("a framing byte is never part of a character that was cut")
		}
	})
}

func TestFixedCountsFramingAndRawBytes(t *testing.T) {
	framed := []byte("\xffMé\xfe")
	for n, want := range []int{0, 1, 2, 4, 5, 5} {
		if got := characters(framed, n); got != want {
			t.Errorf("%d characters are %d bytes, want %d", n, got, want)
		}
	}
	raw := &Text{Bytes: bytes.Repeat([]byte("é"), 600), Raw: true}
	cut := &Text{Bytes: raw.Bytes[:1025], Raw: true}
	if Fixed(1, raw, 1025) != Fixed(1, cut, 1025) || Fixed(1, raw, 1025) == Fixed(1, raw, 1026) {
		t.Error("a character of a raw text is not a byte")
	}
}

func TestStart(t *testing.T) {
	long := chat("system", strings.Repeat("u", 5000))
	long.FirstUser = len(long.Bytes)
	short := chat("system", "question", "answer")
	short.FirstUser = short.Ends[1]
	asked := chat("system", "question")
	asked.FirstUser = len(asked.Bytes)
	if Start(1, short) != Start(1, asked) {
		t.Error("the start goes on behind the first user message")
	}
	if Start(1, long) != Start(1, &Text{Bytes: long.Bytes[:4096]}) {
		t.Error("the start goes on behind 4,096 bytes")
	}
	if Start(1, short) == Start(2, short) {
		t.Error("the root does not count")
	}
}

func TestNothingIsAllocated(t *testing.T) {
	text := chat(strings.Repeat("message ", 3000))
	dst := make([]uint64, 0, MaxChunks)
	tenant := "tenant"
	if n := testing.AllocsPerRun(100, func() {
		root := Root(1, "endpoint", "variant", tenant)
		dst = AppendChain(dst[:0], root, text)
		dst = append(dst, Fixed(root, text, 1024), Start(root, text))
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Texts of an adversary cost no more than others: the chain is bounded.
func FuzzChain(f *testing.F) {
	f.Add([]byte("system prompt, then a question"), uint16(13), uint16(20), uint16(1024))
	f.Add(bytes.Repeat([]byte{0xff}, 3000), uint16(0), uint16(1), uint16(1))
	f.Add(bytes.Repeat([]byte("\x80é"), 900), uint16(256), uint16(256), uint16(999))
	f.Fuzz(func(t *testing.T, p []byte, end1, end2, n uint16) {
		ends := []int{int(min(end1, end2)), int(max(end1, end2))}
		whole := &Text{Bytes: p, Ends: ends}
		chain := AppendChain(nil, 1, whole)
		if len(chain) > MaxChunks || len(chain) > len(p)/ChunkSize+1+len(ends) {
			t.Fatalf("%d chunks of %d bytes", len(chain), len(p))
		}
		cut := min(ends[1], len(p))
		part := AppendChain(nil, 1, &Text{Bytes: p[:cut], Ends: ends})
		if !slices.Equal(part, chain[:len(part)]) {
			t.Fatal("the chain of the text up to a message end does not begin the chain of the text")
		}
		end := characters(p, int(n))
		if again := characters(p[:end], int(n)); again != end || end > len(p) {
			t.Fatalf("%d characters are %d bytes, and of these %d", n, end, again)
		}
		Start(1, &Text{Bytes: p, FirstUser: cut})
	})
}

func BenchmarkAppendChain200K(b *testing.B) {
	text := chat(strings.Repeat("message ", 25_600))
	dst := make([]uint64, 0, MaxChunks)
	b.ReportAllocs()
	for b.Loop() {
		dst = AppendChain(dst[:0], 1, text)
	}
}

func BenchmarkFixed1024(b *testing.B) {
	text := chat(strings.Repeat("message ", 512))
	b.ReportAllocs()
	for b.Loop() {
		Fixed(1, text, 1024)
	}
}
