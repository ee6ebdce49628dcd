// Package arch holds the import law: who may import whom, as a test.
package arch

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/warmring/warmring"

// layers says which packages of ours each package may import. A package that
// is not listed fails the test: put it here, and argue for it.
var layers = map[string][]string{
	"routing/prefix":       {},
	"routing/hot":          {},
	"routing":              {"routing/prefix", "routing/hot"},
	"routing/proxy/field":  {},
	"routing/proxy/socket": {},
	"routing/proxy":        {"routing", "routing/proxy/field", "routing/proxy/socket"},
	"api/openai":           {"routing/prefix"},
	"api/strict":           {},
	"api/fleet":            {"routing"},
	"api/http1":            {"routing/proxy/field", "routing/proxy/socket"},
	"api/sagemaker":        {"routing", "routing/prefix", "routing/proxy"},
	"api":                  {"routing", "routing/prefix", "routing/proxy", "routing/proxy/field", "api/http1", "api/openai", "api/sagemaker"},
	"api/admin":            {"routing", "routing/prefix", "routing/proxy", "api", "api/fleet", "api/strict", "api/openai", "api/sagemaker"},
	"gossip/loads":         {},
	"gossip/places":        {},
	"gossip":               {},
	"consensus":            {"routing"},
	"api/peer/peerpb":      {},
	"api/peer":             {"routing", "routing/hot", "gossip/loads", "gossip/places", "api/peer/peerpb"},
	"node/telemetry":       {"routing", "routing/proxy", "api"},
	"node/port":            {"node/certs"},
	"node/certs":           {},
	"node/plan":            {"routing"},
	"node/probe":           {"gossip/loads"},
	"node/discovery":       {"routing", "node/plan"},
	"node": {
		"routing", "routing/prefix", "routing/hot", "routing/proxy", "gossip", "gossip/loads", "gossip/places", "consensus", "api", "api/admin", "api/fleet", "api/peer",
		"api/strict", "node/discovery", "node/plan", "node/port", "node/probe", "node/telemetry",
	},
	"cmd/warmring":      {"*"},
	"test/arch":         {},
	"test/modelserver":  {},
	"test/modelserver/": {"test/modelserver"},
	"test/":             {"*"},
}

// bans name imports that only some packages may have, with the reason.
var bans = []struct {
	prefix  string   // of the import path
	allowed []string // our packages, relative; a trailing slash means everything below
	reason  string
}{
	{module + "/test/", []string{"cmd/warmring", "test/"}, "test code is for tests and for the demo"},
	{"github.com/cespare/xxhash", []string{"routing", "routing/prefix", "api/openai", "test/modelserver"}, "hashes decide where a request goes, so they are made in the pure core"},
	{"go.opentelemetry.io/otel/sdk", []string{"node/telemetry", "test/"}, "the rest gets API values, so that a test can pass its own"},
	{"go.opentelemetry.io/otel/exporters", []string{"node/telemetry", "test/"}, "as above"},
	{"github.com/prometheus/", []string{"node/telemetry"}, "one place names the metrics"},
	{"google.golang.org/grpc", []string{"api/peer", "api/peer/"}, "nodes talk to each other in one place"},
	{"github.com/hashicorp/memberlist", []string{"gossip"}, "gossip advises"},
	{"github.com/hashicorp/raft", []string{"consensus"}, "the log decides"},
	{"go.etcd.io/bbolt", []string{"consensus"}, "as above"},
	{"github.com/aws/", []string{"api/sagemaker", "test/"}, "one dialect, one package"},
	{"github.com/spf13/", []string{"cmd/warmring"}, "the rest is a library"},
}

// pure packages do no I/O and read no clock: their imports show it.
var pure = []string{"routing", "routing/prefix", "api/openai", "api/fleet", "routing/hot", "gossip/loads", "gossip/places", "node/plan"}

// log/slog is not among them: routing implements its LogValuer, which keeps the salt out of logs.
var impure = []string{"net", "net/http", "os", "log", "context", "io/fs", "os/exec", "math/rand", "crypto/rand"}

type pkg struct {
	ImportPath string
	Imports    []string
}

func packages(t *testing.T) []pkg {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports", module+"/...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []pkg
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// rule finds the entry for a package: its own, or that of the folder it is in.
func rule(rel string) (allowed []string, ok bool) {
	if allowed, ok = layers[rel]; ok {
		return allowed, true
	}
	for dir := path.Dir(rel); dir != "."; dir = path.Dir(dir) {
		if allowed, ok = layers[dir+"/"]; ok {
			return allowed, true
		}
	}
	return nil, false
}

func within(rel string, allowed []string) bool {
	return slices.ContainsFunc(allowed, func(a string) bool {
		return rel == a || strings.HasSuffix(a, "/") && strings.HasPrefix(rel, a)
	})
}

func TestLayers(t *testing.T) {
	for _, p := range packages(t) {
		rel := strings.TrimPrefix(p.ImportPath, module+"/")
		allowed, ok := rule(rel)
		if !ok {
			t.Errorf("%s has no place in the import law", rel)
			continue
		}
		if slices.Contains(allowed, "*") {
			continue
		}
		for _, imp := range p.Imports {
			ours, is := strings.CutPrefix(imp, module+"/")
			if is && !slices.Contains(allowed, ours) {
				t.Errorf("%s imports %s; it may import %v", rel, ours, allowed)
			}
		}
	}
}

func TestBans(t *testing.T) {
	for _, p := range packages(t) {
		rel := strings.TrimPrefix(p.ImportPath, module+"/")
		for _, ban := range bans {
			for _, imp := range p.Imports {
				if strings.HasPrefix(imp, ban.prefix) && !within(rel, ban.allowed) {
					t.Errorf("%s imports %s: %s", rel, imp, ban.reason)
				}
			}
		}
	}
}

func TestPure(t *testing.T) {
	for _, p := range packages(t) {
		rel := strings.TrimPrefix(p.ImportPath, module+"/")
		if !slices.Contains(pure, rel) {
			continue
		}
		for _, imp := range p.Imports {
			if slices.Contains(impure, imp) {
				t.Errorf("%s is pure and imports %s", rel, imp)
			}
		}
	}
}

func TestNames(t *testing.T) {
	for _, p := range packages(t) {
		switch path.Base(p.ImportPath) {
		case "util", "utils", "common", "types", "helpers", "manager", "internal":
			t.Errorf("%s: the name says nothing", p.ImportPath)
		}
	}
}
