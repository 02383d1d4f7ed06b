// Package fault declares faults: what went wrong, and how a person fixes it.
//
// Declare a fault once, beside the code that returns it:
//
//	var DiskFull = fault.Declare(fault.Kind{
//		Code: "DISK_FULL", Class: fault.Blocked,
//		Title:  "the data disk has no free space",
//		Remedy: "Free space on the data disk, then resume the run.",
//	})
//
//	return outcome.Fail(DiskFull.Errorf("%s has %d bytes left", path, free).With("node", node))
//
// The log, the history, the condition, the CLI and the console show the same texts; `pawl explain
// DISK_FULL` prints them.
package fault

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Code is the UPPER_SNAKE name of a fault. It is never renamed.
type Code string

// Class decides what the engine does after a failure.
type Class int

const (
	// Transient faults disappear by themselves; the step is retried.
	Transient Class = iota
	// Blocked faults need their remedy; the run pauses at once.
	Blocked
	// Invalid faults need a different request; the run pauses at once.
	Invalid
)

// String returns transient, blocked or invalid.
func (c Class) String() string {
	switch c {
	case Blocked:
		return "blocked"
	case Invalid:
		return "invalid"
	default:
		return "transient"
	}
}

// MarshalText encodes the class as its name.
func (c Class) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText decodes the name of a class.
func (c *Class) UnmarshalText(text []byte) error {
	for _, class := range []Class{Transient, Blocked, Invalid} {
		if string(text) == class.String() {
			*c = class
			return nil
		}
	}
	return fmt.Errorf("class %q is none of transient, blocked, invalid", text)
}

// Kind is one declared fault.
type Kind struct {
	Code      Code   `json:"code"`
	Class     Class  `json:"class"`
	Title     string `json:"title"`            // one line, no full stop
	Remedy    string `json:"remedy"`           // one or two sentences in the imperative
	Guide     string `json:"guide,omitempty"`  // Markdown; a text/template with the details of the fault as data
	Uncharged bool   `json:"free,omitempty"`   // failures of this kind do not count as attempts of the step
	Source    string `json:"source,omitempty"` // file that declares it, if any
}

// Reason returns the code in the form of Kubernetes reasons: POD_LOST is PodLost.
func (k *Kind) Reason() string { return Camel(k.Code) }

// Errorf returns a failure of this kind. %w wraps as in fmt.Errorf.
func (k *Kind) Errorf(format string, args ...any) *Error {
	wrapped := fmt.Errorf(format, args...)
	return &Error{Kind: k, Message: wrapped.Error(), cause: errors.Unwrap(wrapped)}
}

// Error makes a kind a value for errors.Is(err, kind).
func (k *Kind) Error() string { return string(k.Code) + ": " + k.Title }

// Error is one failure of a kind.
type Error struct {
	Kind    *Kind
	Message string
	Details map[string]any // JSON values; they fill the guide's template
	cause   error
}

// With adds a detail and returns the same error.
func (e *Error) With(key string, value any) *Error {
	if e.Details == nil {
		e.Details = map[string]any{}
	}
	e.Details[key] = value
	return e
}

func (e *Error) Error() string { return string(e.Kind.Code) + ": " + e.Message }

// Unwrap returns the error that was wrapped with %w.
func (e *Error) Unwrap() error { return e.cause }

// Is reports whether target is the kind of the error.
func (e *Error) Is(target error) bool {
	kind, ok := target.(*Kind)
	return ok && kind.Code == e.Kind.Code
}

// Of returns the kind of an error: that of the outermost *Error in its chain, the kind itself if it
// was returned as the error, Unknown for undeclared errors, nil for nil.
func Of(err error) *Kind {
	if err == nil {
		return nil
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	var k *Kind
	if errors.As(err, &k) {
		return k
	}
	return Unknown
}

// Message returns the text of an error without its code.
func Message(err error) string {
	var e *Error
	if errors.As(err, &e) && error(e) == err { //nolint:errorlint // the error itself is meant, not what it wraps
		return e.Message
	}
	if err == nil {
		return ""
	}
	text := err.Error()
	if e != nil { // joined with other errors, or wrapped without a message
		text = strings.TrimPrefix(text, string(e.Kind.Code)+": ")
	}
	return text
}

// Details returns the details of an error; nil if it has none.
func Details(err error) map[string]any {
	var e *Error
	if errors.As(err, &e) {
		return maps.Clone(e.Details)
	}
	return nil
}

var registry = struct {
	sync.RWMutex
	kinds   map[Code]*Kind
	byCamel map[string]*Kind // kinds by their names in CamelCase
}{kinds: map[Code]*Kind{}, byCamel: map[string]*Kind{}}

// Declare registers a kind. It panics if the code is malformed or known: a code has one meaning in
// a binary.
func Declare(k Kind) *Kind {
	kind, err := Register(k)
	if err != nil {
		panic(err)
	}
	return kind
}

// Register is Declare for kinds that are read from files: it returns an error. An equal kind of the
// same Source may be registered again, so that a file can be reloaded.
func Register(k Kind) (*Kind, error) {
	if !valid(k.Code) {
		return nil, fmt.Errorf("fault: code %q is not UPPER_SNAKE", k.Code)
	}
	if k.Title == "" || k.Remedy == "" {
		return nil, fmt.Errorf("fault: %s has no title or no remedy", k.Code)
	}
	registry.Lock()
	defer registry.Unlock()
	if old, ok := registry.kinds[k.Code]; ok {
		if k.Source != "" && old.Source == k.Source {
			fresh := k
			registry.kinds[k.Code], registry.byCamel[Camel(k.Code)] = &fresh, &fresh
			return &fresh, nil
		}
		return nil, fmt.Errorf("fault: %s is declared twice", k.Code)
	}
	registry.kinds[k.Code], registry.byCamel[Camel(k.Code)] = &k, &k
	return &k, nil
}

// Lookup returns a kind by its code, in UPPER_SNAKE or in CamelCase.
func Lookup(name string) (*Kind, bool) {
	registry.RLock()
	defer registry.RUnlock()
	if k, ok := registry.kinds[Code(name)]; ok {
		return k, true
	}
	k, ok := registry.byCamel[name]
	return k, ok
}

// All returns every declared kind, ordered by code.
func All() []*Kind {
	registry.RLock()
	defer registry.RUnlock()
	kinds := slices.Collect(maps.Values(registry.kinds))
	slices.SortFunc(kinds, func(a, b *Kind) int { return strings.Compare(string(a.Code), string(b.Code)) })
	return kinds
}

// Camel returns a code in the form of Kubernetes reasons.
func Camel(code Code) string {
	var b strings.Builder
	for word := range strings.SplitSeq(string(code), "_") {
		b.WriteString(word[:1])
		b.WriteString(strings.ToLower(word[1:]))
	}
	return b.String()
}

func valid(code Code) bool {
	for word := range strings.SplitSeq(string(code), "_") {
		if word == "" || strings.Trim(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") != "" {
			return false
		}
	}
	return code[0] >= 'A' && code[0] <= 'Z'
}
