package conformance

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// installed is where install.sh puts the SDKs.
const installed = "../../build/conformance"

// TestSDKs runs the suites in python and node, which are clients in processes
// of their own, against one cluster.
func TestSDKs(t *testing.T) {
	if os.Getenv("WARMRING_SDKS") != "1" {
		t.Skip("the Python and Node SDKs are run by `make conformance`, which installs them")
	}
	c := start(t)
	install, err := filepath.Abs(installed)
	if err != nil {
		t.Fatal(err)
	}
	suite, err := filepath.Abs("node/openai.test.mjs")
	if err != nil {
		t.Fatal(err)
	}
	for _, run := range []struct {
		name, dir string
		command   []string
	}{
		{"python", "python", []string{filepath.Join(install, "venv/bin/python"), "-m", "pytest", "-q", "-p", "no:cacheprovider"}},
		{"node", filepath.Join(install, "node"), []string{"node", "--test", suite}},
	} {
		t.Run(run.name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), run.command[0], run.command[1:]...)
			cmd.Dir = run.dir
			cmd.Env = append(os.Environ(), "WARMRING_BASE_URL="+c.url, "PYTHONDONTWRITEBYTECODE=1", "NO_PROXY=127.0.0.1", "no_proxy=127.0.0.1")
			cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
			if err := cmd.Run(); err != nil {
				t.Errorf("%s: %v", run.name, err)
			}
		})
	}
}
