package telemetry

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	"go.opentelemetry.io/otel/log"
	sdk "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/trace"

	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

// Logs creates a log record for each line that a step prints. Records belong to the trace of their run: see Traces.
type Logs struct {
	provider *sdk.LoggerProvider
	logger   log.Logger
}

// OTLPLogs is OTLP for log records, which it sends to /v1/logs.
func OTLPLogs(ctx context.Context, endpoint string) (sdk.Exporter, error) {
	var options []otlploghttp.Option
	if endpoint != "" {
		at, err := signalURL(endpoint, "logs")
		if err != nil {
			return nil, err
		}
		options = append(options, otlploghttp.WithEndpointURL(at))
	}
	return otlploghttp.New(ctx, options...)
}

// NewLogs sends log records to an exporter in batches. While the exporter does not take them, the oldest are dropped.
// Close must be called.
func NewLogs(exporter sdk.Exporter, version string) *Logs {
	provider := sdk.NewLoggerProvider(sdk.WithProcessor(sdk.NewBatchProcessor(exporter)), sdk.WithResource(serviceResource(version)))
	return &Logs{provider: provider, logger: provider.Logger("github.com/pawl-dev/pawl/workflow")}
}

// Close sends the remaining records and ends the exporter.
func (l *Logs) Close(ctx context.Context) error { return l.provider.Shutdown(ctx) }

// Hook creates records of printed lines.
func (l *Logs) Hook() workflow.Hook { return workflow.Hook{Name: "logs", OnPrinted: l.onPrinted} }

func (l *Logs) onPrinted(p workflow.PrintedLines) {
	ctx := trace.ContextWithSpanContext(context.Background(), runSpan(p.Run))
	for _, line := range p.Lines {
		var r log.Record
		r.SetTimestamp(line.At)
		r.SetBody(attribute.StringValue(line.Text))
		severity := severityOf(line)
		r.SetSeverity(severity)
		r.SetSeverityText(severity.String())
		r.AddAttributes(attribute.String("pawl.run", p.Run), attribute.String("pawl.step", p.Step), attribute.Int("pawl.attempt", p.Attempt))
		if p.Undo {
			r.AddAttributes(attribute.Bool("pawl.undo", true))
		}
		if line.Stream != runstore.LogLogger { // https://opentelemetry.io/docs/specs/semconv/registry/attributes/log/
			r.AddAttributes(attribute.String("log.iostream", string(line.Stream)))
		}
		l.logger.Emit(ctx, r)
	}
}

// severityOf is that of a line of Task.Logger; what programs print is information.
func severityOf(line runstore.LogLine) log.Severity {
	if line.Stream == runstore.LogLogger {
		switch level, _, _ := strings.Cut(strings.TrimPrefix(line.Text, "level="), " "); {
		case strings.HasPrefix(level, "WARN"):
			return log.SeverityWarn
		case strings.HasPrefix(level, "ERROR"):
			return log.SeverityError
		}
	}
	return log.SeverityInfo
}
