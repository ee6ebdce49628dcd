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
	Connect   time.Duration `yaml:"connect" about:"longest wait for a connection to a backend, TCP and TLS, above 0"`
	FirstByte time.Duration `yaml:"first_byte" about:"longest wait from a request being sent to the first byte of the answer's body, above 0"`
	Idle      time.Duration `yaml:"idle" about:"longest wait between two reads of an answer, and for one write to a backend, above 0"`
	Stream    time.Duration `yaml:"stream" about:"longest time that a whole answer may take, above 0"`
}

// Pool bounds the idle connections to each backend.
type Pool struct {
	MaxIdle int           `yaml:"max_idle" about:"most idle connections to keep to each backend; 0: none"`
	Idle    time.Duration `yaml:"idle" about:"how long an idle connection to a backend is kept, above 0"`
}

// Retry bounds how often a request is sent to another backend.
type Retry struct {
	Attempts     int     `yaml:"attempts" about:"most backends to try for one request, the first included, 1 to 16"`
	Budget       float64 `yaml:"budget" about:"retries allowed for each request, counted over all requests, 0 to 1"`
	MinPerSecond float64 `yaml:"min_per_second" about:"retries allowed each second, whatever proxy.retry.budget is, 0 to 1000000"`
}

// Queue bounds the wait for a slot when every backend is at its max_inflight.
type Queue struct {
	Length  int           `yaml:"length" about:"most requests that wait while every backend is at its max_inflight, 0 (never wait) to 1048576"`
	Timeout time.Duration `yaml:"timeout" about:"longest wait for a backend below its max_inflight, above 0"`
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
