package workflow

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"sync"
)

// redactor holds the values of the secrets that the attempts of a run have read, and redacts them.
type redactor struct {
	mu     sync.Mutex
	values []string // longest first, so that no part of a longer value remains
}

func (h *redactor) add(value string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(value) > 0 && !slices.Contains(h.values, value) {
		h.values = append(h.values, value)
		slices.SortStableFunc(h.values, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	}
}

func (h *redactor) any() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.values) > 0
}

func (h *redactor) redact(text string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, value := range h.values {
		text = strings.ReplaceAll(text, value, "***")
	}
	return text
}

// redactJSON redacts values in the strings and keys of a JSON value. It compares decoded strings. A
// number that equals a secret becomes "***".
func (h *redactor) redactJSON(data json.RawMessage) json.RawMessage {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return json.RawMessage(`"***"`)
	}
	clean, err := json.Marshal(h.redactValue(v))
	if err != nil {
		return json.RawMessage(`"***"`)
	}
	return clean
}

func (h *redactor) redactValue(v any) any {
	switch v := v.(type) {
	case string:
		return h.redact(v)
	case json.Number:
		if h.redact(v.String()) == "***" {
			return "***"
		}
	case map[string]any:
		clean := make(map[string]any, len(v))
		for key, e := range v {
			clean[h.redact(key)] = h.redactValue(e)
		}
		return clean
	case []any:
		clean := make([]any, len(v))
		for i, e := range v {
			clean[i] = h.redactValue(e)
		}
		return clean
	}
	return v
}

// redactHandler is a log handler that redacts the secrets that a run has read.
type redactHandler struct {
	slog.Handler
	redactor *redactor
}

// Handle redacts the message and the text attributes.
func (v redactHandler) Handle(ctx context.Context, r slog.Record) error {
	if !v.redactor.any() {
		return v.Handler.Handle(ctx, r)
	}
	clean := slog.NewRecord(r.Time, r.Level, v.redactor.redact(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		clean.AddAttrs(v.redactAttr(a))
		return true
	})
	return v.Handler.Handle(ctx, clean)
}

// WithAttrs implements slog.Handler.
func (v redactHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	clean := make([]slog.Attr, 0, len(attrs))
	for _, a := range attrs {
		clean = append(clean, v.redactAttr(a))
	}
	return redactHandler{v.Handler.WithAttrs(clean), v.redactor}
}

// WithGroup implements slog.Handler.
func (v redactHandler) WithGroup(name string) slog.Handler {
	return redactHandler{v.Handler.WithGroup(name), v.redactor}
}

func (v redactHandler) redactAttr(a slog.Attr) slog.Attr {
	value := a.Value.Resolve()
	switch value.Kind() {
	case slog.KindString:
		return slog.String(a.Key, v.redactor.redact(value.String()))
	case slog.KindGroup:
		members := value.Group()
		clean := make([]any, 0, len(members))
		for _, m := range members {
			clean = append(clean, v.redactAttr(m))
		}
		return slog.Group(a.Key, clean...)
	case slog.KindAny:
		return slog.String(a.Key, v.redactor.redact(value.String()))
	}
	return a
}
