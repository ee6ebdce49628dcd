package node

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/warmring/warmring/api/peer"
)

// traceWrites gives every admin request that may change something a server span, so that a change can be followed from
// who asked for it to the leader.
func (n *Node) traceWrites(next http.Handler) http.Handler {
	if !n.telemetry.Tracing() {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			next.ServeHTTP(w, r)
			return
		}
		ctx := n.telemetry.Propagator().Extract(r.Context(), propagation.HeaderCarrier(r.Header))
		ctx, span := n.telemetry.Tracer().Start(ctx, "admin "+r.Method, trace.WithSpanKind(trace.SpanKindServer),
			trace.WithAttributes(attribute.String("http.request.method", r.Method), attribute.String("url.path", r.URL.Path)))
		defer span.End()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// spanned runs do within a span about a change of the fleet.
func (r *replica) spanned(ctx context.Context, name string, do func(ctx context.Context) (peer.Version, error)) (peer.Version, error) {
	ctx, span := r.tracer.Tracer("github.com/warmring/warmring/node").Start(ctx, name)
	defer span.End()
	v, err := do(ctx)
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
		return v, err
	}
	span.SetAttributes(attribute.Int64("warmring.generation", int64(v.Generation)), attribute.Int64("warmring.epoch", int64(v.Number)))
	return v, nil
}
