package telemetry

import (
	"context"

	"go.opentelemetry.io/contrib/propagators/b3"
	"go.opentelemetry.io/otel/propagation"
)

// propagator reads three formats and writes the two of W3C, so that a caller with B3 headers is understood but model
// servers see one format.
type propagator struct {
	w3c, b3 propagation.TextMapPropagator
}

func newPropagator() propagator {
	return propagator{
		w3c: propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{}),
		b3:  b3.New(),
	}
}

// Extract lets W3C win when a request carries both.
func (p propagator) Extract(ctx context.Context, c propagation.TextMapCarrier) context.Context {
	if c.Get("traceparent") == "" && (c.Get("b3") != "" || c.Get("x-b3-traceid") != "") {
		ctx = p.b3.Extract(ctx, c)
	}
	return p.w3c.Extract(ctx, c)
}

func (p propagator) Inject(ctx context.Context, c propagation.TextMapCarrier) { p.w3c.Inject(ctx, c) }

func (p propagator) Fields() []string { return p.w3c.Fields() }
