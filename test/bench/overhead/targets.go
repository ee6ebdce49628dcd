package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	startWithin = 10 * time.Second
	stopWithin  = 5 * time.Second
	// startTries covers the moment between choosing a free port and the proxy binding it.
	startTries = 3
)

// target is something the clients can send the load to.
type target struct {
	name  string
	addrs []string
	child *child // nil for direct
}

// pids are the processes whose CPU and memory count as the target's; none for direct.
func (t *target) pids() []int {
	if t.child == nil {
		return nil
	}
	return family(t.child.cmd.Process.Pid)
}

func (t *target) stop() {
	if t.child != nil {
		t.child.stop()
	}
}

// child is a process we started and will stop.
type child struct {
	cmd    *exec.Cmd
	log    string
	exited chan struct{}
}

// startChild runs a program with its output in a file of dir.
func startChild(ctx context.Context, dir, name string, argv ...string) (*child, error) {
	c := &child{
		cmd:    exec.CommandContext(ctx, argv[0], argv[1:]...),
		log:    filepath.Join(dir, name+".log"),
		exited: make(chan struct{}),
	}
	out, err := os.Create(c.log)
	if err != nil {
		return nil, err
	}
	defer out.Close() //nolint:errcheck // the child has its own descriptor
	c.cmd.Stdout, c.cmd.Stderr = out, out
	c.cmd.Cancel = func() error { return c.cmd.Process.Signal(syscall.SIGTERM) }
	c.cmd.WaitDelay = stopWithin
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { // ends with the process; stop waits for it
		_ = c.cmd.Wait()
		close(c.exited)
	}()
	return c, nil
}

// stop asks the process to end, then insists, and waits until it has.
func (c *child) stop() {
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-c.exited:
	case <-time.After(stopWithin):
		_ = c.cmd.Process.Kill()
		<-c.exited
	}
}

// explain adds what the target printed to an error if its process has ended.
func (t *target) explain(err error) error {
	if t.child == nil {
		return err
	}
	select {
	case <-t.child.exited:
		return fmt.Errorf("%w: %s has ended: %s", err, t.name, t.child.tail())
	default:
		return err
	}
}

// tail is the end of what the process printed, for an error message.
func (c *child) tail() string {
	raw, err := os.ReadFile(c.log)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(raw[max(0, len(raw)-600):]))
}

// await polls the target with real requests until the first good answer.
func (t *target) await(ctx context.Context, s script) error {
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := t.probe(ctx, s)
		if err == nil {
			return nil
		}
		select {
		case <-t.child.exited:
			return fmt.Errorf("%s ended at once: %s", t.name, t.child.tail())
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w: %s", t.name, err, t.child.tail())
		case <-tick.C:
		}
	}
}

func (t *target) probe(ctx context.Context, s script) error {
	c, err := dial(ctx, t.addrs[0], clientBuffer)
	if err != nil {
		return err
	}
	defer c.close()
	if err := c.conn.SetDeadline(time.Now().Add(slowest)); err != nil {
		return err
	}
	_, err = c.do(s.requests[0], s.want)
	return err
}

// freeAddrs asks the kernel for n free loopback ports and lets them go again, for programs that
// cannot be handed a listener.
func freeAddrs(ctx context.Context, n int) ([]string, error) {
	addrs := make([]string, n)
	for i := range addrs {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() //nolint:errcheck // held until all are chosen, so that no two are equal
		addrs[i] = l.Addr().String()
	}
	return addrs, nil
}

// backendProcess is the child that plays the model servers.
type backendProcess struct {
	addrs []string
	cmd   *exec.Cmd
	stdin io.Closer
}

// startBackend runs this program again as the backend, so that it does not share a scheduler
// and a heap with the clients.
func startBackend(ctx context.Context) (*backendProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	b := &backendProcess{cmd: exec.CommandContext(ctx, self, backendCommand)}
	b.cmd.Stderr = os.Stderr
	if b.stdin, err = b.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := b.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := b.cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err == nil {
		b.addrs, err = readAddrs(line)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("backend process: %w", err), b.stop())
	}
	return b, nil
}

func (b *backendProcess) stop() error {
	_ = b.stdin.Close()
	return b.cmd.Wait()
}
