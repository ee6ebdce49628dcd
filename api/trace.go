package api

import (
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/warmring/warmring/routing"
)

// Span and attribute names follow OpenTelemetry's semantic conventions for HTTP
// servers and generative AI; what has no name there begins with "warmring.".

// startSpan begins the request's server span.
func (x *exchange) startSpan() {
	d := &x.api.deps
	if !d.Tracing {
		return
	}
	x.ctx = d.Propagator.Extract(x.ctx, propagation.HeaderCarrier(x.r.Header))
	x.ctx, x.span = d.Tracer.Start(x.ctx, x.route.name, trace.WithSpanKind(trace.SpanKindServer)) //nolint:spancheck // endSpan ends it
}

// startRoute begins the span around the decision.
func (x *exchange) startRoute() trace.Span {
	if x.span == nil {
		return nil
	}
	_, span := x.api.deps.Tracer.Start(x.ctx, "route") //nolint:spancheck // endRoute ends it
	return span                                        //nolint:spancheck // the same
}

// endRoute ends the span around the decision, which led to place or to err.
func (x *exchange) endRoute(span trace.Span, place *routing.Place, err error) {
	if span == nil {
		return
	}
	if span.IsRecording() {
		if err != nil {
			span.SetStatus(codes.Error, err.Error())
		} else {
			span.SetAttributes(
				attribute.String("warmring.endpoint", place.Endpoint()),
				attribute.String("warmring.variant", place.Variant()),
				attribute.String("warmring.strategy", string(place.Strategy())),
				attribute.String("warmring.epoch", place.Epoch().ID()),
				attribute.String("warmring.home", place.Home()),
				attribute.Int("warmring.prompt_tokens", place.Tokens()),
				attribute.Int64("warmring.bytes_read", x.body.read),
			)
		}
	}
	span.End()
}

// endSpan ends the request's server span.
func (x *exchange) endSpan() {
	if x.span == nil {
		return
	}
	if x.span.IsRecording() {
		x.describe()
	}
	x.span.End()
}

func (x *exchange) describe() {
	rec := &x.record
	x.span.SetAttributes(
		attribute.String("http.request.method", x.r.Method),
		attribute.String("http.route", rec.Route),
		attribute.Int("http.response.status_code", rec.Status),
	)
	if rec.Code != "" {
		x.span.SetAttributes(attribute.String("error.type", rec.Code))
	}
	if rec.Status >= 500 || rec.Broken != nil {
		x.span.SetStatus(codes.Error, rec.Code)
	}
	if rec.Backend == "" {
		return
	}
	x.span.SetAttributes(
		attribute.String("warmring.endpoint", rec.Endpoint),
		attribute.String("warmring.variant", rec.Variant),
		attribute.String("warmring.backend", rec.Backend),
		attribute.String("warmring.decision", string(rec.Decision)),
		attribute.Int("warmring.attempts", rec.Attempts),
		attribute.String("gen_ai.operation.name", rec.Route),
		attribute.String("gen_ai.request.model", x.model),
	)
	if rec.Usage.Known {
		x.span.SetAttributes(
			attribute.Int("gen_ai.usage.input_tokens", rec.Usage.Prompt),
			attribute.Int("gen_ai.usage.cache_read.input_tokens", rec.Usage.Cached),
			attribute.Int("gen_ai.usage.output_tokens", rec.Usage.Completion),
		)
	}
	if !x.answer.began.IsZero() {
		x.span.SetAttributes(attribute.Float64("gen_ai.server.time_to_first_token", x.answer.began.Sub(x.start).Seconds()))
	}
}
