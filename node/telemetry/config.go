package telemetry

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/warmring/warmring/routing"
)

// Config says what a node tells about itself. Start from Default.
type Config struct {
	Log          LogConfig     `yaml:"log"`
	Traces       TracesConfig  `yaml:"traces"`
	Metrics      MetricsConfig `yaml:"metrics"`
	FlushTimeout time.Duration `yaml:"flush_timeout" about:"longest wait, at the end, for spans and metrics to leave, above 0"`
}

// LogConfig chooses the form and the least level of the log.
type LogConfig struct {
	Level  string `yaml:"level" about:"least level to log: debug, info, warn or error"`
	Format string `yaml:"format" about:"form of the log: text or json"`
}

// TracesConfig says where spans go. The standard OTEL_TRACES_EXPORTER, OTEL_TRACES_SAMPLER and OTEL_EXPORTER_OTLP_*
// variables are honoured; a variable wins over the file, as everywhere.
type TracesConfig struct {
	Exporter string  `yaml:"exporter" about:"where spans go: none or otlp; OTEL_TRACES_EXPORTER wins; empty: otlp if the environment has an endpoint"`
	Protocol string  `yaml:"protocol" about:"how spans are sent: grpc or http/protobuf; OTEL_EXPORTER_OTLP_PROTOCOL wins; empty: grpc"`
	Endpoint string  `yaml:"endpoint" about:"URL of the spans' collector; OTEL_EXPORTER_OTLP_ENDPOINT wins; empty: on this machine"`
	Sample   float64 `yaml:"sample" about:"share of new traces to keep, 0 to 1; a caller's decision is followed; OTEL_TRACES_SAMPLER wins"`
}

// MetricsConfig says whether metrics are pushed as well as served on /metrics.
type MetricsConfig struct {
	Exporter string        `yaml:"exporter" about:"where metrics are pushed, beside /metrics: none or otlp; OTEL_METRICS_EXPORTER wins; empty: none"`
	Protocol string        `yaml:"protocol" about:"how metrics are pushed: grpc or http/protobuf; OTEL_EXPORTER_OTLP_PROTOCOL wins; empty: grpc"`
	Endpoint string        `yaml:"endpoint" about:"URL of the metrics' collector; OTEL_EXPORTER_OTLP_ENDPOINT wins; empty: on this machine"`
	Interval time.Duration `yaml:"interval" about:"time between two pushes of metrics, at least 1s"`
}

// Default logs text at info level and exports nothing.
func Default() Config {
	return Config{
		Log:          LogConfig{Level: "info", Format: "text"},
		Traces:       TracesConfig{Sample: 1},
		Metrics:      MetricsConfig{Interval: time.Minute},
		FlushTimeout: 5 * time.Second,
	}
}

// Validate reports everything that is wrong, each with the path of its field; it changes nothing.
func (c Config) Validate() error {
	var errs []error
	oneOf := func(path, got string, want ...string) {
		if slices.Contains(want, got) {
			return
		}
		if want[0] == "" {
			want = append(want[1:], "or empty")
		}
		errs = append(errs, fmt.Errorf("telemetry.%s: %q is not one of %s", path, got, strings.Join(want, ", ")))
	}
	if _, err := parseLevel(c.Log.Level); err != nil {
		errs = append(errs, fmt.Errorf("telemetry.log.level: %q is not one of debug, info, warn, error", c.Log.Level))
	}
	oneOf("log.format", c.Log.Format, "text", "json")
	for _, s := range []struct{ path, exporter, protocol, endpoint string }{
		{"traces", c.Traces.Exporter, c.Traces.Protocol, c.Traces.Endpoint},
		{"metrics", c.Metrics.Exporter, c.Metrics.Protocol, c.Metrics.Endpoint},
	} {
		oneOf(s.path+".exporter", s.exporter, "", "none", "otlp")
		oneOf(s.path+".protocol", s.protocol, "", "grpc", "http/protobuf")
		if u, err := url.Parse(s.endpoint); s.endpoint != "" && (err != nil || u.Host == "" || !httpScheme(u.Scheme)) {
			errs = append(errs, fmt.Errorf("telemetry.%s.endpoint: %q is not a URL such as http://collector:4317", s.path, routing.WithoutUser(s.endpoint)))
		}
	}
	if !(c.Traces.Sample >= 0 && c.Traces.Sample <= 1) { // written so that NaN is refused too
		errs = append(errs, fmt.Errorf("telemetry.traces.sample: %v is not between 0 and 1", c.Traces.Sample))
	}
	if c.Metrics.Interval < time.Second {
		errs = append(errs, fmt.Errorf("telemetry.metrics.interval: %s is under 1s", c.Metrics.Interval))
	}
	if c.FlushTimeout <= 0 {
		errs = append(errs, fmt.Errorf("telemetry.flush_timeout: %s is not positive", c.FlushTimeout))
	}
	return errors.Join(errs...)
}

func httpScheme(s string) bool { return s == "http" || s == "https" }

func parseLevel(s string) (slog.Level, error) {
	var l slog.Level
	err := l.UnmarshalText([]byte(s))
	return l, err
}
