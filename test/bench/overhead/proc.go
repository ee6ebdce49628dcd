package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/warmring/warmring/test/bench/sheet"
)

// cpuTime adds up how long the threads of the processes have run, from the kernel's schedstat
// (nanoseconds). A thread that has ended is not counted; the proxies keep theirs.
func cpuTime(pids []int) (time.Duration, error) {
	var sum time.Duration
	for _, pid := range pids {
		files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
		if err != nil {
			return 0, err
		}
		if len(files) == 0 {
			return 0, fmt.Errorf("no threads of process %d in /proc", pid)
		}
		for _, file := range files {
			raw, err := os.ReadFile(file)
			if err != nil {
				continue // the thread ended
			}
			first, _, _ := bytes.Cut(raw, []byte(" "))
			ns, err := strconv.ParseInt(string(first), 10, 64)
			if err != nil {
				return 0, fmt.Errorf("%s: %w", file, err)
			}
			sum += time.Duration(ns)
		}
	}
	return sum, nil
}

// resident is the resident set of the processes in bytes, pages they share counted in each.
func resident(pids []int) (int64, error) {
	var sum int64
	for _, pid := range pids {
		kb, err := statusField(pid, "VmRSS:")
		if err != nil {
			return 0, err
		}
		sum += kb << 10
	}
	return sum, nil
}

// family is the process and its direct children: a master and its workers.
func family(pid int) []int {
	pids := []int{pid}
	entries, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return pids
	}
	for _, entry := range entries {
		child, err := strconv.Atoi(filepath.Base(entry))
		if err != nil {
			continue
		}
		if parent, err := statusField(child, "PPid:"); err == nil && parent == int64(pid) {
			pids = append(pids, child)
		}
	}
	return pids
}

// statusField reads one number from /proc/PID/status.
func statusField(pid int, name string) (int64, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(raw)) {
		if value, ok := strings.CutPrefix(line, name); ok {
			return strconv.ParseInt(strings.Fields(value)[0], 10, 64)
		}
	}
	return 0, fmt.Errorf("no %s of process %d", name, pid)
}

// machine is this machine and the programs on it that we compare with.
type machine struct {
	sheet.Machine
	Versions map[string]string `json:"versions"`
}

func describeMachine(ctx context.Context) machine {
	return machine{sheet.ThisMachine(), map[string]string{
		"haproxy": version(ctx, "haproxy", "-v"),
		"nginx":   version(ctx, "nginx", "-v"),
	}}
}

// version is the first line a program prints about itself, empty when it cannot be run.
func version(ctx context.Context, name string, args ...string) string {
	path, err := locate(name)
	if err != nil {
		return ""
	}
	out, err := exec.CommandContext(ctx, path, args...).CombinedOutput()
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(out), "\n")
	return strings.TrimSpace(line)
}

// locate finds a program on the path, or where Debian keeps its servers: that directory is not
// on the path of an ordinary user.
func locate(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return exec.LookPath(filepath.Join("/usr/sbin", filepath.Base(name)))
	}
	return path, nil
}
