package telemetry

import (
	"context"
	"log/slog"

	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Log writes a line for each event that changes the visible state: at most two per step; the line
// for the start of a step has level debug. If logger is nil, it uses slog.Default().
func Log(logger *slog.Logger) workflow.Hook {
	if logger == nil {
		logger = slog.Default()
	}
	return workflow.Hook{Name: "log", OnEvent: func(info workflow.RunInfo, e runtype.Event) {
		level, reported := levelOf(e.Kind)
		if !reported || !logger.Enabled(context.Background(), level) {
			return
		}
		fields := []slog.Attr{slog.String("run", e.Run), slog.String("flow", info.Flow), slog.String("subject", info.Subject)}
		add := func(name, value string) {
			if value != "" {
				fields = append(fields, slog.String(name, value))
			}
		}
		add("step", e.Step)
		if e.Attempt > 0 {
			fields = append(fields, slog.Int("attempt", e.Attempt))
		}
		add("code", string(e.Code))
		add("reason", e.Reason)
		add("message", e.Message)
		add("actor", e.Actor)
		logger.LogAttrs(context.Background(), level, string(e.Kind), fields...)
	}}
}

func levelOf(kind runtype.EventKind) (level slog.Level, reported bool) {
	switch kind {
	case runtype.StepStarted, runtype.RunStarted, runtype.RunWaiting, runtype.SignalReceived:
		return slog.LevelDebug, true
	case runtype.StepRetryingEvent, runtype.StepFailedEvent, runtype.StepLost, runtype.RunPaused, runtype.RequestRefused:
		return slog.LevelWarn, true
	case runtype.StepWaitingEvent:
		return 0, false // RunWaiting reports it, or there is nothing to report yet
	default:
		return slog.LevelInfo, true
	}
}
