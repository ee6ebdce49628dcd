package main

import (
	"bytes"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/warmring/warmring/node/port"
)

func TestCerts(t *testing.T) {
	dir := t.TempDir()
	ca := filepath.Join(dir, "ca")
	code, out, errOut := cli(t, "", "certs", "ca", "--out", ca)
	if code != exitDone || !strings.Contains(out, "ca-key.pem") {
		t.Fatalf("ca: %d %s %s", code, out, errOut)
	}
	node := []string{"certs", "node", "--ca", ca, "--name", "gpu-router-1", "--out", filepath.Join(dir, "node")}
	code, out, errOut = cli(t, "", node...)
	if code != exitDone {
		t.Fatalf("node: %d %s %s", code, out, errOut)
	}

	// what it prints is a configuration that a port takes
	_, text, _ := strings.Cut(out, "\n\n")
	var printed struct{ Peer port.Config }
	if err := yaml.Unmarshal([]byte(text), &printed); err != nil {
		t.Fatal(err)
	}
	printed.Peer.Listen = "0.0.0.0:7946"
	if err := printed.Peer.Validate(); err != nil {
		t.Error(err)
	}
	if _, err := port.New(printed.Peer, port.Deps{}); err != nil {
		t.Error(err)
	}
	for _, name := range []string{printed.Peer.KeyFile, filepath.Join(ca, "ca-key.pem")} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", name, info, err)
		}
	}

	before, err := os.ReadFile(printed.Peer.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	if code, _, errOut = cli(t, "", node...); code != exitUsage || !strings.Contains(errOut, "--force") {
		t.Errorf("a second time: %d %s", code, errOut)
	}
	if after, _ := os.ReadFile(printed.Peer.KeyFile); !bytes.Equal(before, after) {
		t.Error("the key was overwritten")
	}
	if code, _, errOut = cli(t, "", append(node, "--force")...); code != exitDone {
		t.Errorf("with --force: %d %s", code, errOut)
	}
	if after, _ := os.ReadFile(printed.Peer.KeyFile); bytes.Equal(before, after) {
		t.Error("the key was not replaced")
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*", "*.pem.*")); left != nil {
		t.Errorf("left behind: %v", left)
	}
}

func TestCertsRefuse(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"certs", "node", "--ca", dir}, "--name"},
		{[]string{"certs", "node", "--ca", dir, "--name", "a/b"}, "--name"},
		{[]string{"certs", "node", "--ca", dir, "--name", "a"}, "ca.pem"},
		{[]string{"certs", "ca", "x"}, "flags only"},
	} {
		if code, _, errOut := cli(t, "", c.args...); code == exitDone || !strings.Contains(errOut, c.want) {
			t.Errorf("%v: %d %s", c.args, code, errOut)
		}
	}
}

func TestCertsGossipKey(t *testing.T) {
	_, one, _ := cli(t, "", "certs", "gossip-key")
	_, two, _ := cli(t, "", "certs", "gossip-key")
	key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(one))
	if err != nil || len(key) != gossipKeyLen || one == two {
		t.Errorf("%q and %q: %v", one, two, err)
	}
}
