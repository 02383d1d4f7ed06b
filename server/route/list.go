package route

import (
	"bytes"
	"encoding/base64"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/pawl-dev/pawl/fault"
)

// One is an answer with a body and no headers.
type One[T any] struct{ Body T }

// OneOf returns the answer of a function that returns its body.
func OneOf[T any](one T, err error) (*One[T], error) { return &One[T]{one}, err }

// ListOf is a page of a list.
type ListOf[T any] struct {
	Body struct {
		Items []T    `json:"items"`
		Total int    `json:"total,omitempty"`
		Next  string `json:"next,omitempty"`
	}
}

// NewList returns a page with these items.
func NewList[T any](items []T) *ListOf[T] {
	l := &ListOf[T]{}
	if l.Body.Items = items; items == nil {
		l.Body.Items = []T{}
	}
	return l
}

// TextCursor and ParseTextCursor encode a position that is text.
func TextCursor(place string) string { return base64.RawURLEncoding.EncodeToString([]byte(place)) }

// ParseTextCursor decodes a TextCursor; "" is the beginning of the list. CURSOR_INVALID.
func ParseTextCursor(cursor string) (string, error) {
	place, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || !utf8.Valid(place) || bytes.ContainsRune(place, 0) {
		return "", CursorInvalid.Errorf("cursor %q", cursor)
	}
	return string(place), nil
}

// NumberCursor and ParseNumberCursor encode a position that is a number: an offset in a
// list that grows only at its end, or the key of the last item. Lists of one server
// that count in different ways have different prefixes.
func NumberCursor(prefix string, n int64) string {
	return TextCursor(prefix + strconv.FormatInt(n, 10))
}

// ParseNumberCursor decodes a NumberCursor; 0 is the beginning of the list. CURSOR_INVALID.
func ParseNumberCursor(prefix, cursor string) (int64, error) {
	if cursor == "" {
		return 0, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	number, ours := strings.CutPrefix(string(text), prefix)
	n, bad := strconv.ParseInt(number, 10, 64)
	if err != nil || bad != nil || !ours || n < 0 || n == 0 && prefix != "" {
		return 0, CursorInvalid.Errorf("cursor %q", cursor)
	}
	return n, nil
}

// CursorError returns the error of a list. If the request has a cursor, an invalid request means an invalid cursor.
func CursorError(cursor string, err error) error {
	if cursor != "" && fault.Of(err).Class == fault.Invalid {
		return CursorInvalid.Errorf("cursor %q: %s", cursor, fault.Message(err))
	}
	return err
}
