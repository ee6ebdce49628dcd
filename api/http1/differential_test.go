package http1

import (
	"bufio"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const sentinel = "GET /sentinel HTTP/1.1\r\nHost: s\r\nConnection: close\r\n\r\n"

// conversations are what clients send, and the statuses that both servers must
// answer with. A further request follows each; it is among the statuses when
// the connection has to be kept open.
var conversations = []struct {
	name, raw string
	want      string
}{
	// Plain ones.
	{"get", "GET /a?b=c HTTP/1.1\r\nHost: h\r\nX-A: 1\r\nX-A:  2 \r\n\r\n", "200 200"},
	{"post", "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello", "200 200"},
	{"chunked", "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n0\r\n\r\n", "200 200"},
	{"request trailers", "POST /a HTTP/1.1\r\nHost: h\r\nTrailer: X-T\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-T: v\r\n\r\n", "200 200"},
	{"unannounced trailers", "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-T: v\r\n\r\n", "200 200"},
	{"pipelined", "GET /1 HTTP/1.1\r\nHost: h\r\n\r\nPOST /2 HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nokGET /3 HTTP/1.1\r\nHost: h\r\n\r\n", "200 200 200 200"},
	{"absolute form", "GET http://other:81/x HTTP/1.1\r\nHost: h\r\n\r\n", "200 200"},
	{"options *", "OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", "200 200"},
	{"connect", "CONNECT h:1 HTTP/1.1\r\nHost: h\r\n\r\n", "200 200"},
	{"escaped slash", "GET /a%2Fb//c/ HTTP/1.1\r\nHost: h\r\n\r\n", "200 200"},
	{"close", "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", "200"},
	{"close in a list", "GET / HTTP/1.1\r\nHost: h\r\nConnection: x, Close\r\n\r\n", "200"},
	{"1.0", "GET / HTTP/1.0\r\n\r\n", "200"},
	{"1.0 keep-alive", "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "200 200"},
	{"1.0 keep-alive large", "GET /large HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "200"},
	{"1.0 flush", "GET /flush HTTP/1.0\r\n\r\n", "200"},
	{"1.2", "GET / HTTP/1.2\r\nHost: h\r\n\r\n", "200 200"},
	{"bare LF", "GET / HTTP/1.1\nHost: h\n\n", "200 200"},
	{"empty line after post", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx\r\n", "200 200"},
	{"large head", "GET / HTTP/1.1\r\nHost: h\r\nX: " + strings.Repeat("x", 12<<10) + "\r\n\r\n", "200 200"},
	{"large head and body", "POST / HTTP/1.1\r\nHost: h\r\nX: " + strings.Repeat("x", 12<<10) + "\r\nContent-Length: 20000\r\n\r\n" + strings.Repeat("b", 20000), "200 200"},
	{"large body", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 300000\r\n\r\n" + strings.Repeat("b", 300000), "200 200"},
	{"pragma", "GET / HTTP/1.1\r\nHost: h\r\nPragma: no-cache\r\n\r\n", "200 200"},
	{"no host value", "GET / HTTP/1.1\r\nHost:\r\n\r\n", "200 200"},

	// Answers of all kinds.
	{"empty", "GET /empty HTTP/1.1\r\nHost: h\r\n\r\n", "200 200"},
	{"head", "HEAD /length HTTP/1.1\r\nHost: h\r\n\r\n", "200 200"},
	{"head sniffed", "HEAD /html HTTP/1.1\r\nHost: h\r\n\r\n", "200 200"},
	{"head empty", "HEAD /empty HTTP/1.1\r\nHost: h\r\n\r\n", "200 200"},
	{"head large", "HEAD /large HTTP/1.1\r\nHost: h\r\n\r\n", "200 200"},
	{"head flushed", "HEAD /flush HTTP/1.1\r\nHost: h\r\n\r\n", "200 200"},
	{"204", "GET /204 HTTP/1.1\r\nHost: h\r\n\r\n", "204 200"},
	{"304", "GET /304 HTTP/1.1\r\nHost: h\r\n\r\n", "304 200"},
	{"599", "GET /599 HTTP/1.1\r\nHost: h\r\n\r\n", "599 200"},
	{"large", "GET /large HTTP/1.1\r\nHost: h\r\n\r\n", "200 200"},
	{"at the edge", "GET /edge HTTP/1.1\r\nHost: h\r\n\r\n", "200 200"},
	{"over the edge", "GET /over HTTP/1.1\r\nHost: h\r\n\r\n", "200 200"},
	{"flush", "GET /flush HTTP/1.1\r\nHost: h\r\n\r\n", "200 200"},
	{"headers only", "GET /headers-only HTTP/1.1\r\nHost: h\r\n\r\n", "202 200"},
	{"length", "GET /length HTTP/1.1\r\nHost: h\r\n\r\n", "200"},
	{"short", "GET /short HTTP/1.1\r\nHost: h\r\n\r\n", "200"},
	{"identity", "GET /identity HTTP/1.1\r\nHost: h\r\n\r\n", "200"},
	{"sniffed", "GET /html HTTP/1.1\r\nHost: h\r\n\r\n", "200 200"},
	{"untyped", "GET /untyped HTTP/1.1\r\nHost: h\r\n\r\n", "200 200"},
	{"encoded", "GET /encoded HTTP/1.1\r\nHost: h\r\n\r\n", "200 200"},
	{"inject", "GET /inject HTTP/1.1\r\nHost: h\r\n\r\n", "200 200"},
	{"late header", "GET /late HTTP/1.1\r\nHost: h\r\n\r\n", "200 200"},
	{"trailers", "GET /trailers HTTP/1.1\r\nHost: h\r\n\r\n", "200 200"},
	{"trailers 1.0", "GET /trailers HTTP/1.0\r\nHost: h\r\n\r\n", "200"},
	{"informs", "GET /informs HTTP/1.1\r\nHost: h\r\n\r\n", "103 200 200"},
	{"handler closes", "GET /close HTTP/1.1\r\nHost: h\r\n\r\n", "200"},
	{"abort", "GET /abort HTTP/1.1\r\nHost: h\r\n\r\n", "200"},
	{"abort at once", "GET /abort-at-once HTTP/1.1\r\nHost: h\r\n\r\n", ""},

	// Bodies that the handler does not read.
	{"early", "POST /early HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello", "200 200"},
	{"early chunked", "POST /early HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", "200 200"},
	{"early, too much left", "POST /early HTTP/1.1\r\nHost: h\r\nContent-Length: 300000\r\n\r\n" + strings.Repeat("b", 300000), "200"},
	{"early, bad chunk left", "POST /early HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nz\r\n\r\n", "200"},
	{"read after the answer", "POST /unread-flushed HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello", "200 200"},
	{"duplex", "POST /duplex HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello", "200 200"},
	{"expect", "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello", "100 200 200"},
	{"expect 1.0", "POST / HTTP/1.0\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello", "200"},
	{"expect, not read", "POST /early HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello", "200"},
	{"expect no body", "GET / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n\r\n", "200 200"},
	{"expect the unknown", "GET / HTTP/1.1\r\nHost: h\r\nExpect: miracles\r\n\r\n", "417"},

	// Refused.
	{"garbage", "\x16\x03\x01\x02\r\n\r\n", "400"},
	{"half a request", "GET / HTTP/1.1\r\nHo", "400"},
	{"half a line", "GE", "400"},
	{"empty line first", "\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", "400"},
	{"0.9", "GET /\r\n\r\n", "400"},
	{"2.0", "GET / HTTP/2.0\r\nHost: h\r\n\r\n", "505"},
	{"3.0", "GET / HTTP/3.0\r\nHost: h\r\n\r\n", "505"},
	{"bad version", "GET / HTTP/1.10\r\nHost: h\r\n\r\n", "400"},
	{"lower case version", "GET / http/1.1\r\nHost: h\r\n\r\n", "400"},
	{"bad method", "G(T / HTTP/1.1\r\nHost: h\r\n\r\n", "400"},
	{"spaces in target", "GET /a b HTTP/1.1\r\nHost: h\r\n\r\n", "400"},
	{"relative target", "GET a HTTP/1.1\r\nHost: h\r\n\r\n", "400"},
	{"no host", "GET / HTTP/1.1\r\n\r\n", "400"},
	{"no host, absolute form", "GET http://h/ HTTP/1.1\r\n\r\n", "400"},
	{"two hosts", "GET / HTTP/1.1\r\nHost: h\r\nHost: h\r\n\r\n", "400"},
	{"bad host", "GET / HTTP/1.1\r\nHost: a b\r\n\r\n", "400"},
	{"bad host, absolute form", "GET http://h/ HTTP/1.1\r\nHost: a\x01b\r\n\r\n", "400"},
	{"space before colon", "GET / HTTP/1.1\r\nHost: h\r\nX-A : 1\r\n\r\n", "400"},
	{"space before colon of length", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length : 5\r\n\r\nhello", "400"},
	{"no colon", "GET / HTTP/1.1\r\nHost: h\r\nX-A\r\n\r\n", "400"},
	{"no name", "GET / HTTP/1.1\r\nHost: h\r\n: 1\r\n\r\n", "400"},
	{"NUL in value", "GET / HTTP/1.1\r\nHost: h\r\nX-A: a\x00b\r\n\r\n", "400"},
	{"CR in value", "GET / HTTP/1.1\r\nHost: h\r\nX-A: a\rb\r\n\r\n", "400"},
	{"NUL in name", "GET / HTTP/1.1\r\nHost: h\r\nX\x00A: a\r\n\r\n", "400"},
	{"folded first line", "GET / HTTP/1.1\r\n Host: h\r\n\r\n", "400"},
	{"head too large", "GET / HTTP/1.1\r\nHost: h\r\nX: " + strings.Repeat("x", 40<<10) + "\r\n\r\n", "431"},
	{"line too large", "GET /" + strings.Repeat("x", 40<<10) + " HTTP/1.1\r\nHost: h\r\n\r\n", "431"},
	{"no line", strings.Repeat("x", 40<<10), "431"},

	// What smugglers send.
	{"two lengths", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!", "400"},
	{"same length twice", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello", "200 200"},
	{"lengths in a list", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5, 5\r\n\r\nhello", "400"},
	{"signed length", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: +5\r\n\r\nhello", "400"},
	{"negative length", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: -5\r\n\r\nhello", "400"},
	{"hex length", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0x5\r\n\r\nhello", "400"},
	{"empty length", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: \r\n\r\nhello", "400"},
	{"length overflow", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9223372036854775808\r\n\r\nhello", "400"},
	{"two codings", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n", "501"},
	{"coding list", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "501"},
	{"identity coding", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: identity\r\nContent-Length: 5\r\n\r\nhello", "501"},
	{"coding with tab", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: \tchunked\r\n\r\n0\r\n\r\n", "200 200"},
	{"coding with vertical tab", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n", "400"},
	{"chunk size overflow", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000005\r\nhello\r\n0\r\n\r\n", "200"},
	{"chunk size signed", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n+5\r\nhello\r\n0\r\n\r\n", "200"},
	{"chunk without end", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhelloGET\r\n0\r\n\r\n", "200"},
	{"chunk ends early", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel", "200"},
	{"bare LF chunks", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\nhello\n0\n\n", "200"},
	{"bad trailer name", "POST / HTTP/1.1\r\nHost: h\r\nTrailer: Content-Length\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400"},
}

var statusLine = regexp.MustCompile(`(?m)^HTTP/1\.\d (\d+) `)

// statuses are those of rendered answers.
func statuses(rendered string) string {
	var all []string
	for _, m := range statusLine.FindAllStringSubmatch(rendered, -1) {
		all = append(all, m[1])
	}
	return strings.Join(all, " ")
}

// TestConversations has both servers answer the same bytes.
func TestConversations(t *testing.T) {
	theirs, ours := kinds[0].start(t, http.HandlerFunc(handler)), kinds[1].start(t, http.HandlerFunc(handler))
	for _, c := range conversations {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			raw := c.raw + sentinel
			if strings.HasPrefix(c.name, "half") {
				raw = c.raw
			}
			got := answers(talk(t, ours, raw))
			if s := statuses(got); s != c.want {
				t.Errorf("statuses %q, want %q", s, c.want)
			}
			want := answers(talk(t, theirs, raw))
			if refused := strings.HasPrefix(c.want, "4") || strings.HasPrefix(c.want, "5"); refused && c.want != "417" && c.want != "599 200" {
				got, want = statuses(got), statuses(want) // the texts may differ
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("net/http (-) and we (+) differ:\n%s", d)
			}
		})
	}
}

// TestStricter has what net/http lets pass, or reads on after, and we do not.
func TestStricter(t *testing.T) {
	addr := kinds[1].start(t, http.HandlerFunc(handler))
	for _, c := range []struct{ name, raw, want string }{
		{"folded field", "GET / HTTP/1.1\r\nHost: h\r\nX-A: 1\r\n 2\r\n\r\n", "400"},
		{"folded length", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length:\r\n 5\r\n\r\nhello", "400"},
		{"get *", "GET * HTTP/1.1\r\nHost: h\r\n\r\n", "400"},
		{"length and coding", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "200"},
		{"coding in 1.0", "POST / HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "200"},
		{"HTTP/2 without a server for it", preface, "505"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := statuses(answers(talk(t, addr, c.raw+sentinel))); got != c.want {
				t.Errorf("statuses %q, want %q", got, c.want)
			}
		})
	}
}

// sortHead sorts the fields of an answer's head, which are in no order.
func sortHead(raw string) string {
	head, body, _ := strings.Cut(raw, "\r\n\r\n")
	lines := strings.Split(head, "\r\n")
	slices.SortStableFunc(lines[1:], func(a, b string) int {
		nameA, _, _ := strings.Cut(a, ":")
		nameB, _, _ := strings.Cut(b, ":")
		return strings.Compare(nameA, nameB)
	})
	return strings.Join(lines, "\r\n") + "\r\n\r\n" + body
}

// TestGolden pins what is on the wire.
func TestGolden(t *testing.T) {
	addr := kinds[1].start(t, http.HandlerFunc(handler))
	date := regexp.MustCompile(`Date: \w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT`)
	for _, c := range []struct{ raw, want string }{
		{"GET /flush HTTP/1.1\r\nHost: h\r\n\r\n", "HTTP/1.1 200 OK\r\nX-Method: GET\r\nDate: D\r\nContent-Type: text/plain; charset=utf-8\r\n" +
			"Transfer-Encoding: chunked\r\n\r\n4\r\none \r\n3\r\ntwo\r\n0\r\n\r\n"},
		{"GET /length HTTP/1.1\r\nHost: h\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Method: GET\r\nDate: D\r\nContent-Type: text/plain; charset=utf-8\r\n\r\nhello"},
		{"GET /bad-length HTTP/1.1\r\nHost: h\r\n\r\n", "HTTP/1.1 200 OK\r\nX-Method: GET\r\nDate: D\r\nContent-Length: 5\r\nContent-Type: text/plain; charset=utf-8\r\n\r\nhello"},
		{"GET /html HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "HTTP/1.0 200 OK\r\nX-Method: GET\r\nDate: D\r\nContent-Length: 13\r\n" +
			"Content-Type: text/html; charset=utf-8\r\nConnection: keep-alive\r\n\r\n<html><body>x"},
		{"GET /inject HTTP/1.1\r\nHost: h\r\n\r\n", "HTTP/1.1 200 OK\r\nX-Bad: a  Set-Cookie: x \ty\r\nX-Many: 1\r\nX-Many: 2\r\nX-Method: GET\r\nDate: D\r\nContent-Length: 0\r\n\r\n"},
		{"GET /trailers HTTP/1.1\r\nHost: h\r\n\r\n", "HTTP/1.1 200 OK\r\nTrailer: X-Sum, X-Two,Te\r\nX-Method: GET\r\nDate: D\r\n" +
			"Content-Type: text/plain; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\nX-Sum: 42\r\nX-Unannounced: yes  X: y\r\n\r\n"},
		{"GET /abort HTTP/1.1\r\nHost: h\r\n\r\n", "HTTP/1.1 200 OK\r\nX-Method: GET\r\nDate: D\r\nContent-Type: text/plain; charset=utf-8\r\n" +
			"Transfer-Encoding: chunked\r\n\r\n4\r\npart\r\n"},
		{"GET / HTTP/1.1\r\n\r\n", "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n400 Bad Request: missing required Host header"},
	} {
		got, want := sortHead(date.ReplaceAllString(talk(t, addr, c.raw), "Date: D")), sortHead(c.want)
		if got != want {
			t.Errorf("%q:\ngot  %q\nwant %q", c.raw, got, want)
		}
	}
}

// TestPieces sends a request byte by byte.
func TestPieces(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			c := dial(t, kind.start(t, http.HandlerFunc(handler)))
			for _, b := range []byte("POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc") {
				send(t, c, string([]byte{b}))
				time.Sleep(100 * time.Microsecond) // so that they are not sent together; none is needed
			}
			if _, body := receive(t, bufio.NewReader(c)); !strings.Contains(body, `body 3 "abc" false`) {
				t.Errorf("body %q", body)
			}
		})
	}
}

// FuzzRequestHead has net/http and us read the same bytes: we never panic,
// always answer or close, and differ only where TestStricter says so, and in
// that net/http also finds tokens that no comma separates.
func FuzzRequestHead(f *testing.F) {
	for _, c := range conversations {
		if len(c.raw) < 4096 {
			f.Add([]byte(c.raw))
		}
	}
	// On TCP, ports would run out.
	theirs := serveOn(f, standard(http.HandlerFunc(fuzzed)), "unix", filepath.Join(f.TempDir(), "theirs"))
	ours := serveOn(f, New(configFor(http.HandlerFunc(fuzzed))), "unix", filepath.Join(f.TempDir(), "ours"))
	strict := regexp.MustCompile(`(?i)\n[ \t]|\n(expect|connection):[ \t]*\S+[ \t]+\S|^\S+ \*|\ntransfer-encoding:|^PRI |\n\r?\n.*\n`)
	f.Fuzz(func(t *testing.T, raw []byte) {
		got := talk(t, ours, string(raw))
		if strict.Match(raw) || len(raw) > headLimit {
			return
		}
		want := answers(talk(t, theirs, string(raw)))
		g := answers(got)
		if rest, ok := strings.CutPrefix(g, want); ok && statuses(rest) == "400" {
			return // of less than four bytes, net/http makes nothing
		}
		refused := regexp.MustCompile(`(?s)HTTP/1.[01] [45].*`) // in words of one's own
		if statuses(want) != statuses(g) || refused.ReplaceAllString(want, "") != refused.ReplaceAllString(g, "") {
			t.Errorf("net/http: %s\nwe: %s", want, g)
		}
	})
}

func fuzzed(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	w.Header().Set("Content-Type", "text/plain")
	_, _ = io.WriteString(w, saw(r)+string(body))
	if err != nil {
		panic(http.ErrAbortHandler)
	}
}
