// Package deploy checks that what is in deploy/ fits the program: its configuration, flags, variables and ports.
package deploy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/warmring/warmring/node"
)

const dir = "../../deploy"

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// load is a configuration as the program would have it, with variables of its environment.
func load(t *testing.T, file string, env map[string]string) node.Config {
	t.Helper()
	cfg, err := node.Load(strings.NewReader(file), func(name string) string { return env[name] }, nil)
	if err := errors.Join(err, cfg.Validate()); err != nil {
		t.Fatal(err)
	}
	return cfg
}

// variables fails the test for each WARMRING_* that the program does not know.
func variables(t *testing.T, env map[string]string) {
	t.Helper()
	known := map[string]bool{"WARMRING_ADMIN_TOKEN": true} // the command line's
	cfg := node.Default()
	for _, leaf := range node.Leaves(&cfg) {
		known[leaf.Env] = true
	}
	for name := range env {
		if strings.HasPrefix(name, "WARMRING_") && !known[name] {
			t.Errorf("no setting has the variable %s", name)
		}
	}
}

func port(t *testing.T, address string) string {
	t.Helper()
	_, number, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return number
}

// ports are those that a configuration listens on.
func ports(t *testing.T, cfg node.Config) (api, admin, peer string) {
	t.Helper()
	return port(t, cfg.API.Listen), port(t, cfg.Admin.Listen), port(t, cfg.Peer.Listen)
}

// timely fails the test if a router may be killed before it has stopped by itself: a margin of 20 s is for the steps of the
// end that have limits of their own.
func timely(t *testing.T, cfg node.Config, before, limit time.Duration) {
	t.Helper()
	if need := before + cfg.Shutdown.DrainDelay + cfg.Shutdown.Grace + 20*time.Second; limit < need {
		t.Errorf("it is killed after %v and may take %v to stop", limit, need)
	}
}

// program is the binary, built once for all tests.
var program string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		at, err := os.MkdirTemp("", "warmring-")
		if err != nil {
			panic(err) // there is no test yet that could fail
		}
		defer func() { _ = os.RemoveAll(at) }() // a directory of our own in the temporary one
		program = filepath.Join(at, "warmring")
		if out, err := exec.Command("go", "build", "-o", program, "github.com/warmring/warmring/cmd/warmring").CombinedOutput(); err != nil {
			panic(fmt.Sprintf("%v: %s", err, out))
		}
		return m.Run()
	}())
}

// accepts fails the test unless the program has the command and each of its flags.
func accepts(t *testing.T, argv []string) {
	t.Helper()
	help, err := exec.CommandContext(t.Context(), program, argv[0], "--help").CombinedOutput()
	if err != nil || !bytes.Contains(help, []byte("warmring "+argv[0])) {
		t.Fatalf("no command %q: %v: %s", argv[0], err, help)
	}
	for _, word := range argv[1:] {
		if flag, _, _ := strings.Cut(word, "="); strings.HasPrefix(flag, "--") && !bytes.Contains(help, []byte(flag+" ")) {
			t.Errorf("%s has no flag %s", argv[0], flag)
		}
	}
}

// documents are all YAML documents of a file.
func documents(t *testing.T, name string) []map[string]any {
	t.Helper()
	var all []map[string]any
	for dec := yaml.NewDecoder(strings.NewReader(read(t, name))); ; {
		var doc map[string]any
		if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all = append(all, doc)
	}
}

func TestYAML(t *testing.T) {
	found := 0
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if ext := filepath.Ext(path); err == nil && !entry.IsDir() && (ext == ".yaml" || ext == ".yml") {
			name, _ := filepath.Rel(dir, path)
			if len(documents(t, name)) == 0 {
				t.Errorf("%s is empty", name)
			}
			found++
		}
		return err
	})
	if err != nil || found < 8 {
		t.Errorf("%d files, %v", found, err)
	}
}

func TestDockerfile(t *testing.T) {
	text := read(t, "Dockerfile")
	api, admin, peer := ports(t, load(t, read(t, "compose/warmring.yaml"), nil))
	if want := "EXPOSE " + strings.Join([]string{api, admin, peer + "/tcp", peer + "/udp"}, " ") + "\n"; !strings.Contains(text, want) {
		t.Errorf("the image does not have %q", want)
	}
	argv := regexp.MustCompile(`(?m)^CMD (\[.*\])$`).FindStringSubmatch(text)
	var words []string
	if argv == nil || yaml.Unmarshal([]byte(argv[1]), &words) != nil {
		t.Fatalf("no CMD in %s", text)
	}
	accepts(t, words)
}

func TestSystemd(t *testing.T) {
	text := read(t, "systemd/warmring.service")
	line := regexp.MustCompile(`(?m)^ExecStart=(\S+) (.*)$`).FindStringSubmatch(text)
	if line == nil {
		t.Fatal("no ExecStart")
	}
	accepts(t, strings.Fields(line[2]))
	stop := regexp.MustCompile(`(?m)^TimeoutStopSec=(\d+)$`).FindStringSubmatch(text)
	if stop == nil {
		t.Fatal("no TimeoutStopSec")
	}
	limit, err := time.ParseDuration(stop[1] + "s")
	if err != nil {
		t.Fatal(err)
	}
	timely(t, node.Default(), 0, limit)
	if !strings.Contains(text, "Restart=on-failure\n") || !strings.Contains(text, "\nStartLimitIntervalSec=0\n") {
		t.Error("systemd gives up when it fails five times in a row") // within 10 s, unless the unit says otherwise
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Log("systemd-analyze is not here: the unit is not verified")
		return
	}
	unit := filepath.Join(t.TempDir(), "warmring.service")
	if err := os.WriteFile(unit, []byte(strings.ReplaceAll(text, line[1], program)), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), analyze, "verify", "--man=no", unit).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v: %s", err, out)
	}
}

// TestReadme runs the commands of the README that make certificates, and looks for the files that it then names.
func TestReadme(t *testing.T) {
	text, at := read(t, "README.md"), t.TempDir()
	commands := regexp.MustCompile(`(?m)^ +warmring (certs .*)$`).FindAllStringSubmatch(text, -1)
	for _, command := range commands {
		line, to, _ := strings.Cut(command[1], ">")
		cmd := exec.CommandContext(t.Context(), program, strings.Fields(line)...)
		cmd.Dir = at
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("warmring %s: %v", line, err)
		}
		if to != "" {
			if err := os.WriteFile(filepath.Join(at, strings.TrimSpace(to)), out, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	files := 0
	for _, secret := range []string{"warmring-tls", "warmring-gossip"} {
		line := regexp.MustCompile(`(?m)^.*secret generic ` + secret + ` .*$`).FindString(text)
		for _, from := range regexp.MustCompile(`--from-file=\S+?=(\S+)`).FindAllStringSubmatch(line, -1) {
			files++
			if _, err := os.Stat(filepath.Join(at, from[1])); err != nil {
				t.Errorf("%s is made from a file that no command makes: %v", secret, err)
			}
		}
	}
	if len(commands) != 3 || files != 4 {
		t.Errorf("%d commands, %d files", len(commands), files)
	}
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
