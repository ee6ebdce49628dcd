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
)

// errKey: the request has no key, or none of ours.
var errKey = errors.New("missing or unknown API key: send one as `Authorization: Bearer KEY`")

// keys are the digests of the API keys; none: every request is accepted.
type keys [][sha256.Size]byte

// loadKeys reads a keys file; see Config.KeysFile.
func loadKeys(name string) (keys, error) {
	if name == "" {
		return nil, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("api.keys_file: %w", err)
	}
	defer f.Close() //nolint:errcheck // read only
	var list keys
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		key := keyOf(lines.Text())
		if key != "" {
			list = append(list, sha256.Sum256([]byte(key)))
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("api.keys_file: %w", err)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("api.keys_file: %s has no key", name)
	}
	return list, nil
}

// keyOf is the key on a line of a keys file; "" when there is none.
func keyOf(line string) string {
	line = strings.TrimSpace(line)
	if strings.HasPrefix(line, "#") {
		return ""
	}
	line, _, _ = strings.Cut(line, " #")
	if _, key, named := strings.Cut(line, ": "); named {
		line = key
	}
	return strings.TrimSpace(line)
}

// check looks for the request's key among all of ours, whether or not one
// matched already, so that the time taken tells nothing.
func (k keys) check(h http.Header) error {
	if len(k) == 0 {
		return nil
	}
	sum := sha256.Sum256([]byte(presented(h)))
	found := 0
	for i := range k {
		found |= subtle.ConstantTimeCompare(sum[:], k[i][:])
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
