package cluster

import "log/slog"

// Secret is a text that is never shown: it prints as stars, also in logs and JSON.
// Reveal returns the text.
type Secret string

const stars = "*****"

// Reveal returns the text.
func (s Secret) Reveal() string { return string(s) }

// String returns stars, or nothing for an empty secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return stars
}

// GoString is String.
func (s Secret) GoString() string { return s.String() }

// LogValue is String.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText is String: encoding a secret never shows it.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
