package proxy

import (
	"errors"
	"fmt"
	"time"
)

// Config says how requests are forwarded.
type Config struct {
	Timeouts Timeouts `yaml:"timeouts"`
	Pool     Pool     `yaml:"pool"`
	Retry    Retry    `yaml:"retry"`
	Queue    Queue    `yaml:"queue"`
}

// Timeouts bound the steps of an exchange with a backend.
type Timeouts struct {
	Connect   time.Duration `yaml:"connect"`    // TCP and TLS
	FirstByte time.Duration `yaml:"first_byte"` // from the request being sent to the first byte of the answer's body
	Idle      time.Duration `yaml:"idle"`       // between two reads, and for one write to a backend
	Stream    time.Duration `yaml:"stream"`     // a whole answer
}

// Pool bounds the idle connections to each backend.
type Pool struct {
	MaxIdle int           `yaml:"max_idle"`
	Idle    time.Duration `yaml:"idle"`
}

// Retry bounds how often a request is sent to another backend.
type Retry struct {
	Attempts     int     `yaml:"attempts"`       // backends tried for one request, the first included
	Budget       float64 `yaml:"budget"`         // retries for each request, over all requests
	MinPerSecond float64 `yaml:"min_per_second"` // retries that are always allowed
}

// Queue bounds the wait for a slot when every backend is at its max_inflight.
type Queue struct {
	Length  int           `yaml:"length"` // requests; 0: never wait
	Timeout time.Duration `yaml:"timeout"`
}

// Default is a Config for servers that answer within a minute.
func Default() Config {
	return Config{
		Timeouts: Timeouts{Connect: 2 * time.Second, FirstByte: time.Minute, Idle: time.Minute, Stream: 8 * time.Minute},
		Pool:     Pool{MaxIdle: 256, Idle: time.Minute},
		Retry:    Retry{Attempts: 3, Budget: 0.2, MinPerSecond: 10},
		Queue:    Queue{Length: 1024, Timeout: 10 * time.Second},
	}
}

// Validate returns all that is wrong with c, each error beginning with the
// path of the field.
func (c Config) Validate() error {
	var errs []error
	bad := func(field, want string, got any) {
		errs = append(errs, fmt.Errorf("proxy.%s: is %v, must be %s", field, got, want))
	}
	for _, d := range []struct {
		field string
		value time.Duration
	}{
		{"timeouts.connect", c.Timeouts.Connect},
		{"timeouts.first_byte", c.Timeouts.FirstByte},
		{"timeouts.idle", c.Timeouts.Idle},
		{"timeouts.stream", c.Timeouts.Stream},
		{"pool.idle", c.Pool.Idle},
		{"queue.timeout", c.Queue.Timeout},
	} {
		if d.value <= 0 {
			bad(d.field, "a positive duration such as 30s", d.value)
		}
	}
	if c.Pool.MaxIdle < 0 {
		bad("pool.max_idle", "0 or more", c.Pool.MaxIdle)
	}
	if c.Retry.Attempts < 1 || c.Retry.Attempts > 16 {
		bad("retry.attempts", "1 to 16", c.Retry.Attempts)
	}
	if !(c.Retry.Budget >= 0 && c.Retry.Budget <= 1) {
		bad("retry.budget", "0 to 1", c.Retry.Budget)
	}
	if !(c.Retry.MinPerSecond >= 0 && c.Retry.MinPerSecond <= 1e6) {
		bad("retry.min_per_second", "0 to 1000000", c.Retry.MinPerSecond)
	}
	if c.Queue.Length < 0 || c.Queue.Length > 1<<20 {
		bad("queue.length", "0 to 1048576", c.Queue.Length)
	}
	return errors.Join(errs...)
}
