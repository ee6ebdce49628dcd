package sim

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/warmring/warmring/test/sim/simnet"
)

// Process is what runs on a host. World.Start makes one.
type Process struct {
	Name  string // of its host
	Host  *simnet.Host
	w     *World
	begin Begin
	log   *ring

	mu      sync.Mutex // guards all below
	cancel  context.CancelFunc
	done    chan struct{} // closed when it has ended
	killed  bool
	leaving bool
	running bool
}

// Begin makes a process anew at each start. What it returns runs until its context ends and leaves nothing behind.
type Begin func(h *simnet.Host, log io.Writer) (run func(context.Context) error, err error)

// Start runs a process on the host of that name.
func (w *World) Start(name string, begin Begin) *Process {
	p := &Process{Name: name, Host: w.Host(name), w: w, begin: begin, log: newRing()}
	w.mu.Lock()
	w.processes = append(w.processes, p)
	w.mu.Unlock()
	p.start()
	return p
}

func (p *Process) start() {
	run, err := p.begin(p.Host, p.log)
	if err != nil {
		p.w.Errorf("%s does not start: %v", p.Name, err)
		return
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(p.w.ctx))
	p.mu.Lock()
	defer p.mu.Unlock()
	done := make(chan struct{})
	p.cancel, p.done, p.killed, p.leaving, p.running = cancel, done, false, false, true
	go func() {
		defer close(done)
		err := run(ctx)
		p.mu.Lock()
		killed, leaving := p.killed, p.leaving
		p.running = false
		p.mu.Unlock()
		switch {
		case killed:
		case !leaving:
			p.w.Errorf("%s ended by itself: %v", p.Name, err)
		case err != nil:
			p.w.Errorf("%s did not stop in order: %v", p.Name, err)
		}
	}()
}

// Running is false after Kill or Stop.
func (p *Process) Running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.running && !p.killed
}

// Kill takes the host off the network and then lets the code end, without waiting for it: from outside this is a crash.
func (p *Process) Kill() {
	p.mu.Lock()
	p.killed = p.running // what the code says from now on about its network is no news
	p.mu.Unlock()
	p.Host.Kill()
	p.end()
}

// Stop ends the process in order and waits for it.
func (p *Process) Stop() { p.await(p.end()) }

// Restart starts a killed or stopped process again, when the code that ran before has ended.
func (p *Process) Restart() {
	p.await(p.end())
	p.Host.Restart()
	p.start()
}

// Move kills the process and starts it again at another address.
func (p *Process) Move() {
	p.Kill()
	p.await(p.end())
	p.Host.Move()
	p.start()
}

// end cancels and returns what is closed at the end of the code, nil if it never ran.
func (p *Process) end() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cancel == nil {
		return nil
	}
	p.leaving = true
	p.cancel()
	return p.done
}

func (p *Process) await(done <-chan struct{}) {
	if done == nil {
		return
	}
	t := time.NewTimer(stopLimit)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
		p.w.Errorf("%s does not stop within %v", p.Name, stopLimit)
	}
}
