package load

import (
	"fmt"
	"net/url"
	"strings"
)

// Target is what a run sends its requests to.
type Target struct {
	Bases []string // OpenAI base URLs as ParseBase returns them; requests take them in turn
	Model string
	Key   string // for `Authorization: Bearer`; empty: none
}

// ParseBase returns an OpenAI base URL without a slash at its end. One that names only a host gets the path that servers have
// by default, /v1.
func ParseBase(text string) (string, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return "", fmt.Errorf("%q: must be a URL such as http://127.0.0.1:8080/v1", text)
	case u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return "", fmt.Errorf("%q: must have a host and a path only", text)
	}
	if strings.Trim(u.Path, "/") == "" {
		u.Path = "/v1"
	}
	return strings.TrimRight(u.String(), "/"), nil
}
