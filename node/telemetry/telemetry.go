// Package telemetry makes a node's logger, tracer and metrics and flushes them at the end. It is the only package that
// knows the OpenTelemetry SDK; the others are given API values. Nothing here is global: two nodes in one process have two
// registries and two tracer providers.
package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

const scope = "github.com/warmring/warmring"

// Options are what a Telemetry is given besides its configuration.
type Options struct {
	Node    string              // the router's name, for exported resources
	Version string              // of the program, for build_info and exported resources
	Getenv  func(string) string // the environment, for the OTEL_* variables; nil: empty
	Log     *slog.Logger
}

// Telemetry holds the instruments of one node. New starts nothing; Start opens the exporters, Shutdown flushes and ends them.
type Telemetry struct {
	Metrics *Metrics

	cfg      Config
	export   exportPlan
	resource *resource.Resource
	provider *sdktrace.TracerProvider // nil when spans go nowhere
	log      *slog.Logger

	mu    sync.Mutex                        // guards stops
	stops []func(ctx context.Context) error // what Start opened, in that order
}

// New makes the instruments. The configuration must be valid.
func New(cfg Config, opts Options) (*Telemetry, error) {
	if opts.Getenv == nil {
		opts.Getenv = func(string) string { return "" }
	}
	plan, err := planExport(cfg, opts.Getenv)
	if err != nil {
		return nil, err
	}
	metrics, err := newMetrics(opts.Version)
	if err != nil {
		return nil, err
	}
	t := &Telemetry{Metrics: metrics, cfg: cfg, export: plan, log: opts.Log}
	t.resource, err = resource.Merge(resource.NewSchemaless(
		semconv.ServiceName("warmring"), semconv.ServiceVersion(opts.Version), semconv.ServiceInstanceID(opts.Node),
	), resource.Environment()) // OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES win
	if err != nil {
		return nil, fmt.Errorf("telemetry resource: %w", err)
	}
	if plan.traces.on {
		t.provider = newProvider(cfg.Traces.Sample, opts.Getenv("OTEL_TRACES_SAMPLER") != "", t.resource)
	}
	return t, nil
}

// newProvider has no exporter yet: that one owns a goroutine, so Start adds it.
func newProvider(sample float64, samplerFromEnv bool, res *resource.Resource) *sdktrace.TracerProvider {
	opts := []sdktrace.TracerProviderOption{sdktrace.WithResource(res)}
	if !samplerFromEnv { // otherwise the SDK reads OTEL_TRACES_SAMPLER and its argument
		opts = append(opts, sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(sample))))
	}
	return sdktrace.NewTracerProvider(opts...)
}

// Tracing says whether spans go anywhere; if not, callers may skip making attributes.
func (t *Telemetry) Tracing() bool { return t.provider != nil }

// Tracer makes the node's spans; without an exporter it is a no-op.
func (t *Telemetry) Tracer() trace.Tracer { return t.TracerProvider().Tracer(scope) }

// TracerProvider is for libraries that make spans of their own; without an exporter it is a no-op.
func (t *Telemetry) TracerProvider() trace.TracerProvider {
	if t.provider == nil {
		return noop.NewTracerProvider()
	}
	return t.provider
}

// Propagator reads trace context from requests (W3C, else B3) and writes it to them (W3C).
func (t *Telemetry) Propagator() propagation.TextMapPropagator { return newPropagator() }

// Start opens the exporters that are configured. Without any it does nothing.
func (t *Telemetry) Start(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.export.traces.on {
		exporter, err := newSpanExporter(ctx, t.export.traces)
		if err != nil {
			return fmt.Errorf("trace exporter: %w", err)
		}
		t.provider.RegisterSpanProcessor(sdktrace.NewBatchSpanProcessor(exporter))
		t.stops = append(t.stops, t.provider.Shutdown)
	}
	if t.export.metrics.on {
		stop, err := startMetricExport(ctx, t.export.metrics, t.cfg.Metrics.Interval, t.Metrics.registry, t.resource)
		if err != nil {
			return fmt.Errorf("metric exporter: %w", err)
		}
		t.stops = append(t.stops, stop)
	}
	return nil
}

// Shutdown sends what is pending and closes the exporters, within the configured flush timeout.
func (t *Telemetry) Shutdown(ctx context.Context) error {
	t.mu.Lock()
	stops := t.stops
	t.stops = nil
	t.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, t.cfg.FlushTimeout)
	defer cancel()
	var errs []error
	for _, stop := range stops {
		errs = append(errs, stop(ctx))
	}
	return errors.Join(errs...)
}
