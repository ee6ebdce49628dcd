package api

import (
	"bufio"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
)

// errKey: the request has no key, or none of ours.
var errKey = errors.New("missing or unknown API key: send one as `Authorization: Bearer KEY`")

// Keys are the keys that clients must send, and those that backends are sent, as their files had them when they were last
// read. They are safe for concurrent use.
type Keys struct {
	clientsFile, backendsFile string

	clients  atomic.Pointer[digests]
	backends atomic.Pointer[map[string][]string] // Authorization by endpoint; of all others by ""
}

// digests are those of the clients' keys; none: every request is accepted.
type digests [][sha256.Size]byte

// OpenKeys reads the files that cfg names.
func OpenKeys(cfg Config) (*Keys, error) {
	k := &Keys{clientsFile: cfg.KeysFile, backendsFile: cfg.BackendKeysFile}
	replace, err := k.Read()
	if err != nil {
		return nil, err
	}
	replace()
	return k, nil
}

// Read reads the files again. Nothing has changed until replace is called.
func (k *Keys) Read() (replace func(), err error) {
	clients, err := readKeys("api.keys_file", k.clientsFile)
	if err != nil {
		return nil, err
	}
	list := make(digests, 0, len(clients))
	for _, c := range clients {
		list = append(list, sha256.Sum256([]byte(c.secret)))
	}
	const field = "api.backend_keys_file"
	backends, err := readKeys(field, k.backendsFile)
	if err != nil {
		return nil, err
	}
	headers := make(map[string][]string, len(backends))
	for _, b := range backends {
		if _, twice := headers[b.name]; twice {
			return nil, fmt.Errorf("%s: line %d of %s has a second key for the same endpoint", field, b.line, k.backendsFile)
		}
		if strings.ContainsFunc(b.secret, func(c rune) bool { return c <= ' ' || c > '~' }) {
			return nil, fmt.Errorf("%s: the key on line %d of %s has a character that no header can have", field, b.line, k.backendsFile)
		}
		headers[b.name] = []string{"Bearer " + b.secret}
	}
	return func() { k.clients.Store(&list); k.backends.Store(&headers) }, nil
}

// Backend is the value of the Authorization header for the backends of an endpoint; "" where they are sent what the client
// sent.
func (k *Keys) Backend(endpoint string) string {
	if h := k.backend(endpoint); h != nil {
		return h[0]
	}
	return ""
}

// backend is Backend as a header has it, which nobody may change.
func (k *Keys) backend(endpoint string) []string {
	headers := *k.backends.Load()
	if h := headers[endpoint]; h != nil {
		return h
	}
	return headers[""]
}

// guarded: clients must send a key.
func (k *Keys) guarded() bool { return len(*k.clients.Load()) > 0 }

// check looks for the request's key among all of ours, whether or not one
// matched already, so that the time taken tells nothing.
func (k *Keys) check(h http.Header) error {
	list := *k.clients.Load()
	if len(list) == 0 {
		return nil
	}
	sum := sha256.Sum256([]byte(presented(h)))
	found := 0
	for _, known := range list {
		found |= subtle.ConstantTimeCompare(sum[:], known[:])
	}
	if found == 0 {
		return errKey
	}
	return nil
}

// presented is the key a client sent: as a bearer token, or as clients of
// Anthropic's API do, in X-Api-Key.
func presented(h http.Header) string {
	scheme, key, ok := strings.Cut(h.Get("Authorization"), " ")
	if ok && strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(key)
	}
	return h.Get("X-Api-Key")
}

// namedKey is what a line of a keys file has.
type namedKey struct {
	line         int
	name, secret string // the name may be empty
}

// readKeys reads a keys file; see Config.KeysFile. No error shows a key.
func readKeys(field, path string) ([]namedKey, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	defer f.Close() //nolint:errcheck // read only
	var list []namedKey
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		if name, secret := cutKey(lines.Text()); secret != "" {
			list = append(list, namedKey{n, name, secret})
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s: %s has no key", field, path)
	}
	return list, nil
}

// cutKey is what is on a line of a keys file; no key: nothing.
func cutKey(line string) (name, key string) {
	line = strings.TrimSpace(line)
	if strings.HasPrefix(line, "#") {
		return "", ""
	}
	line, _, _ = strings.Cut(line, " #")
	if name, key, named := strings.Cut(line, ": "); named {
		return strings.TrimSpace(name), strings.TrimSpace(key)
	}
	return "", strings.TrimSpace(line)
}
