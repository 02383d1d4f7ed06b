package workflow

import (
	"context"
	"log/slog"
)

// veil is a log handler that hides the values of secrets a run has read.
type veil struct {
	slog.Handler
	hidden *hidden
}

// Handle hides values in the message and in attributes of text.
func (v veil) Handle(ctx context.Context, r slog.Record) error {
	if !v.hidden.any() {
		return v.Handler.Handle(ctx, r)
	}
	clean := slog.NewRecord(r.Time, r.Level, v.hidden.redact(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		clean.AddAttrs(v.attr(a))
		return true
	})
	return v.Handler.Handle(ctx, clean)
}

// WithAttrs keeps the veil.
func (v veil) WithAttrs(attrs []slog.Attr) slog.Handler {
	clean := make([]slog.Attr, 0, len(attrs))
	for _, a := range attrs {
		clean = append(clean, v.attr(a))
	}
	return veil{v.Handler.WithAttrs(clean), v.hidden}
}

// WithGroup keeps the veil.
func (v veil) WithGroup(name string) slog.Handler { return veil{v.Handler.WithGroup(name), v.hidden} }

func (v veil) attr(a slog.Attr) slog.Attr {
	value := a.Value.Resolve()
	switch value.Kind() {
	case slog.KindString:
		return slog.String(a.Key, v.hidden.redact(value.String()))
	case slog.KindGroup:
		members := value.Group()
		clean := make([]any, 0, len(members))
		for _, m := range members {
			clean = append(clean, v.attr(m))
		}
		return slog.Group(a.Key, clean...)
	case slog.KindAny:
		return slog.String(a.Key, v.hidden.redact(value.String()))
	}
	return a
}
