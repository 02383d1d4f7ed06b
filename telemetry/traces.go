package telemetry

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"net/url"
	"path"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Traces creates a span for each run and for each attempt of a step.
//
// It creates a span at its end and derives the ids from the id of the run. So all spans of a run
// belong to one trace, even if the run moved to another process or continued after a crash.
type Traces struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
	watch    *stopwatch
}

// OTLP returns an exporter of spans to a collector, such as http://127.0.0.1:4318: it sends to /v1/traces below endpoint.
// If endpoint is empty, the OTEL_EXPORTER_OTLP variables apply.
func OTLP(ctx context.Context, endpoint string) (sdk.SpanExporter, error) {
	var options []otlptracehttp.Option
	if endpoint != "" {
		at, err := signalURL(endpoint, "traces")
		if err != nil {
			return nil, err
		}
		options = append(options, otlptracehttp.WithEndpointURL(at))
	}
	return otlptracehttp.New(ctx, options...)
}

// NewTraces sends spans to an exporter in batches. Close must be called.
func NewTraces(exporter sdk.SpanExporter, version string) *Traces {
	provider := sdk.NewTracerProvider(sdk.WithBatcher(exporter), sdk.WithIDGenerator(contextIDs{}), sdk.WithResource(serviceResource(version)))
	return &Traces{provider: provider, tracer: provider.Tracer("github.com/pawl-dev/pawl/workflow"), watch: newStopwatch()}
}

// signalURL is where a collector takes a signal: endpoint is a base, or where it takes one of the signals.
func signalURL(endpoint, signal string) (string, error) {
	u, err := url.Parse(endpoint)
	if err != nil {
		return "", err
	}
	if dir, last := path.Split(u.Path); path.Base(dir) == "v1" && last != "" {
		u.Path = path.Dir(path.Clean(dir))
	}
	return u.JoinPath("v1", signal).String(), nil
}

func serviceResource(version string) *resource.Resource {
	return resource.NewSchemaless(attribute.String("service.name", "pawl"), attribute.String("service.version", version))
}

// Close sends the remaining spans and ends the exporter.
func (t *Traces) Close(ctx context.Context) error { return t.provider.Shutdown(ctx) }

// Flush sends the remaining spans.
func (t *Traces) Flush(ctx context.Context) error { return t.provider.ForceFlush(ctx) }

// Hook creates spans from saved events.
func (t *Traces) Hook() workflow.Hook { return workflow.Hook{Name: "traces", OnEvent: t.onEvent} }

func (t *Traces) onEvent(info workflow.RunInfo, e runtype.Event) {
	begun := t.watch.observe(e)
	run := runSpan(e.Run)
	common := []attribute.KeyValue{attribute.String("pawl.run", e.Run), attribute.String("pawl.flow", info.Flow), attribute.Int("pawl.flow.version", info.Version), attribute.String("pawl.subject", info.Subject)}
	switch {
	case endsRun(e.Kind):
		if begun.IsZero() { // it started before this process: report its end
			begun = e.At
		}
		ctx := withIDs(context.Background(), run.TraceID(), run.SpanID())
		t.span(ctx, "run "+info.Flow, begun, e, common)
	case endsAttempt(e.Kind):
		if begun.IsZero() {
			if e.Kind == runtype.StepSkippedEvent || e.Kind == runtype.StepWaitingEvent {
				return // it was never open, or it still waits
			}
			begun = e.At
		}
		ctx := trace.ContextWithRemoteSpanContext(context.Background(), run)
		ctx = withIDs(ctx, run.TraceID(), spanID(fmt.Sprintf("%s/%s/%d", e.Run, e.Step, e.Seq)))
		t.span(ctx, "step "+withoutLoopKeys(e.Step), begun, e, append(common, attribute.String("pawl.step", e.Step), attribute.Int("pawl.attempt", e.Attempt), attribute.String("pawl.outcome", outcomeOf(e.Kind))))
	}
}

func (t *Traces) span(ctx context.Context, name string, begun time.Time, e runtype.Event, attributes []attribute.KeyValue) {
	_, span := t.tracer.Start(ctx, name, trace.WithTimestamp(begun), trace.WithAttributes(attributes...))
	if e.Code != "" {
		span.SetAttributes(attribute.String("pawl.code", string(e.Code)))
	}
	switch e.Kind {
	case runtype.StepFailedEvent, runtype.StepRetryingEvent, runtype.StepLost, runtype.RunCancelled:
		span.SetStatus(codes.Error, cmp.Or(e.Message, string(e.Code)))
	case runtype.StepDoneEvent, runtype.RunSucceeded:
		span.SetStatus(codes.Ok, "")
	}
	span.End(trace.WithTimestamp(e.At))
}

// runSpan returns the span context of a run. Every process derives the same one from the id.
func runSpan(run string) trace.SpanContext {
	sum := sha256.Sum256([]byte(run))
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID(sum[:16]), SpanID: spanID(run), TraceFlags: trace.FlagsSampled, Remote: true})
}

func spanID(text string) trace.SpanID {
	sum := sha256.Sum256([]byte("span " + text))
	return trace.SpanID(sum[:8])
}

// contextIDs generates the span ids that are stored in the context.
type contextIDs struct{}

type contextIDsKey struct{}

type ids struct {
	trace trace.TraceID
	span  trace.SpanID
}

func withIDs(ctx context.Context, t trace.TraceID, s trace.SpanID) context.Context {
	return context.WithValue(ctx, contextIDsKey{}, ids{t, s})
}

// NewIDs returns the ids of a span without a parent.
func (contextIDs) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	id, _ := ctx.Value(contextIDsKey{}).(ids)
	return id.trace, id.span
}

// NewSpanID returns the id of a span with a parent.
func (contextIDs) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	id, _ := ctx.Value(contextIDsKey{}).(ids)
	return id.span
}
