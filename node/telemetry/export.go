package telemetry

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	prombridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// exportPlan is what the configuration and the standard variables together ask for.
type exportPlan struct{ traces, metrics signal }

type signal struct {
	on       bool
	http     bool   // OTLP over HTTP instead of gRPC
	endpoint string // empty: the exporter reads OTEL_EXPORTER_OTLP_*
}

// planExport applies the OpenTelemetry environment variable specification (sections "Exporter Selection" and
// "Protocol Exporter"), with one difference: without an endpoint in the environment nothing is exported.
func planExport(cfg Config, getenv func(string) string) (exportPlan, error) {
	first := func(values ...string) string {
		for _, v := range values {
			if v != "" {
				return v
			}
		}
		return ""
	}
	traceDefault := "none"
	if first(getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), getenv("OTEL_EXPORTER_OTLP_ENDPOINT")) != "" {
		traceDefault = "otlp"
	}
	protocol := getenv("OTEL_EXPORTER_OTLP_PROTOCOL")
	traces, err := newSignal("traces", first(getenv("OTEL_TRACES_EXPORTER"), cfg.Traces.Exporter, traceDefault),
		first(getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"), protocol, cfg.Traces.Protocol, "grpc"), cfg.Traces.Endpoint)
	if err != nil {
		return exportPlan{}, err
	}
	metrics, err := newSignal("metrics", first(getenv("OTEL_METRICS_EXPORTER"), cfg.Metrics.Exporter, "none"),
		first(getenv("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL"), protocol, cfg.Metrics.Protocol, "grpc"), cfg.Metrics.Endpoint)
	if err != nil {
		return exportPlan{}, err
	}
	if first(getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), getenv("OTEL_EXPORTER_OTLP_ENDPOINT")) != "" {
		traces.endpoint = "" // the variable wins
	}
	if first(getenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"), getenv("OTEL_EXPORTER_OTLP_ENDPOINT")) != "" {
		metrics.endpoint = ""
	}
	if getenv("OTEL_SDK_DISABLED") == "true" {
		traces.on, metrics.on = false, false
	}
	return exportPlan{traces, metrics}, nil
}

func newSignal(name, exporter, protocol, endpoint string) (signal, error) {
	s := signal{on: exporter == "otlp", http: protocol == "http/protobuf"}
	if !s.on && exporter != "none" {
		return s, fmt.Errorf("%s exporter %q is not supported: use otlp or none", name, exporter)
	}
	if !s.http && protocol != "grpc" {
		return s, fmt.Errorf("%s protocol %q is not supported: use grpc or http/protobuf", name, protocol)
	}
	if endpoint == "" {
		return s, nil
	}
	u, err := url.Parse(endpoint)
	if err != nil {
		return s, fmt.Errorf("%s endpoint: %w", name, err)
	}
	if s.http && (u.Path == "" || u.Path == "/") { // the path that OTLP/HTTP gives each signal
		u.Path = "/v1/" + name
	}
	s.endpoint = u.String()
	return s, nil
}

func newSpanExporter(ctx context.Context, s signal) (sdktrace.SpanExporter, error) {
	if s.http {
		var opts []otlptracehttp.Option
		if s.endpoint != "" {
			opts = append(opts, otlptracehttp.WithEndpointURL(s.endpoint))
		}
		return otlptracehttp.New(ctx, opts...)
	}
	var opts []otlptracegrpc.Option
	if s.endpoint != "" {
		opts = append(opts, otlptracegrpc.WithEndpointURL(s.endpoint))
	}
	return otlptracegrpc.New(ctx, opts...)
}

// startMetricExport pushes what /metrics shows, so that both ways of collecting have the same names and values.
func startMetricExport(ctx context.Context, s signal, every time.Duration, from prometheus.Gatherer, res *resource.Resource) (func(context.Context) error, error) {
	exporter, err := newMetricExporter(ctx, s)
	if err != nil {
		return nil, err
	}
	reader := sdkmetric.NewPeriodicReader(exporter, sdkmetric.WithInterval(every),
		sdkmetric.WithProducer(prombridge.NewMetricProducer(prombridge.WithGatherer(from))))
	return sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader), sdkmetric.WithResource(res)).Shutdown, nil
}

func newMetricExporter(ctx context.Context, s signal) (sdkmetric.Exporter, error) {
	if s.http {
		var opts []otlpmetrichttp.Option
		if s.endpoint != "" {
			opts = append(opts, otlpmetrichttp.WithEndpointURL(s.endpoint))
		}
		return otlpmetrichttp.New(ctx, opts...)
	}
	var opts []otlpmetricgrpc.Option
	if s.endpoint != "" {
		opts = append(opts, otlpmetricgrpc.WithEndpointURL(s.endpoint))
	}
	return otlpmetricgrpc.New(ctx, opts...)
}
