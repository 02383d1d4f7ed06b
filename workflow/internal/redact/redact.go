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

// Add adds a value to redact, in all its forms.
func (h *Redactor) Add(value string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, form := range Forms(value) {
		if !slices.Contains(h.values, form) {
			h.values = append(h.values, form)
		}
	}
	slices.SortStableFunc(h.values, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
}

// Forms returns what a value looks like where it is printed: as it is, without space around it, and
// as JSON writes it, with and without escapes of <, > and &. An empty value has none.
func Forms(value string) (forms []string) {
	add := func(form string) {
		if form != "" && !slices.Contains(forms, form) {
			forms = append(forms, form)
		}
	}
	add(value)
	add(strings.TrimSpace(value))
	for _, escape := range []bool{true, false} {
		var quoted strings.Builder
		e := json.NewEncoder(&quoted)
		e.SetEscapeHTML(escape)
		if e.Encode(value) == nil {
			add(strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(quoted.String()), `"`), `"`))
		}
	}
	return forms
}

// Stream is Text for a text that comes in parts. It returns the redacted beginning of the text and a
// rest that may be the beginning of a value: the caller puts the next part behind it.
func (h *Redactor) Stream(text string) (clean, rest string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.values) == 0 {
		return text, ""
	}
	var b strings.Builder
	for {
		held := h.held(text)
		at, length := len(text), 0
		for _, value := range h.values { // longest first
			if i := strings.Index(text[:min(len(text), at+len(value))], value); i >= 0 && i < at {
				at, length = i, len(value)
			}
		}
		if length == 0 || at >= held {
			b.WriteString(text[:held])
			return b.String(), text[held:]
		}
		b.WriteString(text[:at])
		b.WriteString("***")
		text = text[at+length:]
	}
}

// held returns where the longest end of a text begins that is the beginning of a value, and not all of it.
func (h *Redactor) held(text string) int {
	from := len(text)
	for _, value := range h.values {
		for i := max(0, len(text)-len(value)+1); i < from; i++ {
			if strings.HasPrefix(value, text[i:]) {
				from = i
			}
		}
	}
	return from
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
