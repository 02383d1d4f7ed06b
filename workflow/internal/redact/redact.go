// Package redact removes the values of secrets from what a run stores and logs.
package redact

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

// Redactor holds the values of the secrets that the attempts of a run have read, and redacts them.
type Redactor struct {
	mu     sync.Mutex
	values []string // longest first, so that no part of a longer value remains
}

// Add adds a value to redact.
func (h *Redactor) Add(value string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(value) > 0 && !slices.Contains(h.values, value) {
		h.values = append(h.values, value)
		slices.SortStableFunc(h.values, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	}
}

// Any reports whether there is a value to redact.
func (h *Redactor) Any() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.values) > 0
}

// Text redacts a text.
func (h *Redactor) Text(text string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, value := range h.values {
		text = strings.ReplaceAll(text, value, "***")
	}
	return text
}

// JSON redacts values in the strings and keys of a JSON value. It compares decoded strings. A
// number that equals a secret becomes "***".
func (h *Redactor) JSON(data json.RawMessage) json.RawMessage {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return json.RawMessage(`"***"`)
	}
	clean, err := json.Marshal(h.Value(v))
	if err != nil {
		return json.RawMessage(`"***"`)
	}
	return clean
}

// Value redacts a decoded JSON value.
func (h *Redactor) Value(v any) any {
	switch v := v.(type) {
	case string:
		return h.Text(v)
	case json.Number:
		if h.Text(v.String()) == "***" {
			return "***"
		}
	case map[string]any:
		clean := make(map[string]any, len(v))
		for key, e := range v {
			clean[h.Text(key)] = h.Value(e)
		}
		return clean
	case []any:
		clean := make([]any, len(v))
		for i, e := range v {
			clean[i] = h.Value(e)
		}
		return clean
	}
	return v
}

// Handler is a log handler that redacts the secrets that a run has read.
type Handler struct {
	slog.Handler
	Redactor *Redactor
}

// Handle redacts the message and the text attributes.
func (v Handler) Handle(ctx context.Context, r slog.Record) error {
	if !v.Redactor.Any() {
		return v.Handler.Handle(ctx, r)
	}
	clean := slog.NewRecord(r.Time, r.Level, v.Redactor.Text(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		clean.AddAttrs(v.redactAttr(a))
		return true
	})
	return v.Handler.Handle(ctx, clean)
}

// WithAttrs implements slog.Handler.
func (v Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	clean := make([]slog.Attr, 0, len(attrs))
	for _, a := range attrs {
		clean = append(clean, v.redactAttr(a))
	}
	return Handler{v.Handler.WithAttrs(clean), v.Redactor}
}

// WithGroup implements slog.Handler.
func (v Handler) WithGroup(name string) slog.Handler {
	return Handler{v.Handler.WithGroup(name), v.Redactor}
}

func (v Handler) redactAttr(a slog.Attr) slog.Attr {
	value := a.Value.Resolve()
	switch value.Kind() {
	case slog.KindString:
		return slog.String(a.Key, v.Redactor.Text(value.String()))
	case slog.KindGroup:
		members := value.Group()
		clean := make([]any, 0, len(members))
		for _, m := range members {
			clean = append(clean, v.redactAttr(m))
		}
		return slog.Group(a.Key, clean...)
	case slog.KindAny:
		return slog.String(a.Key, v.Redactor.Text(value.String()))
	}
	return a
}
