package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/warmring/warmring/node"
)

// stopWithin is how long a router may take to stop before it is killed.
const stopWithin = 15 * time.Second

// process is a router as a process of its own.
type process struct {
	router
	cmd     *exec.Cmd
	in      io.WriteCloser
	answers *bufio.Reader
	log     *os.File
}

// processes are a cluster of them.
type processes struct {
	session  *session
	backends []node.BackendConfig
	n        int // how many there should be
	started  int // ever
	all      []*process
	client   *client
}

func startProcesses(ctx context.Context, s *session, n int, backends []node.BackendConfig) (*processes, error) {
	p := &processes{session: s, backends: backends, n: n, client: newClient()}
	for range n {
		if err := p.add(ctx); err != nil {
			return nil, errors.Join(err, p.stop())
		}
	}
	if err := settle(ctx, p.client, p.routers(), voters(n)); err != nil {
		return nil, errors.Join(err, p.stop())
	}
	return p, nil
}

func (p *processes) routers() []router {
	out := make([]router, len(p.all))
	for i, each := range p.all {
		out[i] = each.router
	}
	return out
}

// add starts one more, which joins those that run.
func (p *processes) add(ctx context.Context) error {
	var join []string
	for _, r := range p.all {
		join = append(join, r.Peer)
	}
	cfg := routerConfig(fmt.Sprintf("p%02d", p.started), p.n, p.backends, join...)
	p.started++
	r, err := p.start(ctx, cfg)
	if err != nil {
		return fmt.Errorf("%s: %w", cfg.Router.Name, err)
	}
	p.all = append(p.all, r)
	return nil
}

func (p *processes) start(ctx context.Context, cfg node.Config) (*process, error) {
	text, err := yaml.Marshal(cfg)
	if err != nil {
		return nil, err
	}
	base := filepath.Join(p.session.dir, cfg.Router.Name)
	if err := os.WriteFile(base+".yaml", text, 0o600); err != nil {
		return nil, err
	}
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	r := &process{cmd: exec.CommandContext(context.WithoutCancel(ctx), exe, routerCommand, base+".yaml")}
	if r.log, err = os.Create(base + ".log"); err != nil {
		return nil, err
	}
	r.cmd.Stderr = r.log
	r.cmd.WaitDelay = stopWithin
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if r.in, err = r.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := r.cmd.Start(); err != nil {
		return nil, err
	}
	r.answers = bufio.NewReader(out)
	if err := say(r.answers, &r.router); err != nil {
		return nil, errors.Join(err, errors.New(lastLine(base+".log")), r.stop())
	}
	return r, nil
}

// kill ends the i-th router as a crash does and forgets it.
func (p *processes) kill(i int) error {
	r := p.all[i]
	p.all = append(p.all[:i:i], p.all[i+1:]...)
	if err := r.cmd.Process.Kill(); err != nil {
		return err
	}
	_ = r.cmd.Wait() // it says that it was killed, and closes the pipes
	return r.log.Close()
}

func (p *processes) stop() error {
	p.client.close()
	var errs []error
	for _, r := range p.all {
		errs = append(errs, r.in.Close()) // all at once, so that none waits for another
	}
	for _, r := range p.all {
		errs = append(errs, r.stop())
	}
	return errors.Join(errs...)
}

// stop lets the process end in order.
func (r *process) stop() error {
	_ = r.in.Close() // it may be closed
	late := time.AfterFunc(stopWithin, func() { _ = r.cmd.Process.Kill() })
	defer late.Stop()
	err := r.cmd.Wait()
	if err != nil {
		err = fmt.Errorf("%s: %w", r.Name, err)
	}
	return errors.Join(err, r.log.Close())
}

// traffic is what the router has exchanged with others so far.
func (r *process) traffic() (t traffic, err error) {
	if _, err = io.WriteString(r.in, "\n"); err != nil {
		return t, err
	}
	return t, say(r.answers, &t)
}

// cpu is the time that the process has computed, in user and in kernel mode: proc_pid_stat(5), fields 14 and 15, in
// hundredths of a second.
func (r *process) cpu() (time.Duration, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", r.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(raw), ") ") // the name before may contain spaces
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat: %q", r.cmd.Process.Pid, raw)
	}
	var ticks int64
	for _, field := range fields[11:13] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc/%d/stat: %w", r.cmd.Process.Pid, err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond, nil
}

func lastLine(file string) string {
	raw, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
	return lines[len(lines)-1]
}
