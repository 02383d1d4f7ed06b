package fdb

import "fmt"

// ResultOutcome says what is known of a call's effect.
type ResultOutcome int

// The outcomes of a call. The zero value is Unknown.
const (
	Unknown ResultOutcome = iota // it may have happened: read the database again
	Ok                           // it has happened
	Refused                      // it has not happened; Reason says why
)

// String returns unknown, ok or refused.
func (o ResultOutcome) String() string {
	switch o {
	case Ok:
		return "ok"
	case Refused:
		return "refused"
	default:
		return "unknown"
	}
}

// MarshalText encodes the outcome as its name.
func (o ResultOutcome) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText decodes the name of an outcome; anything else is unknown.
func (o *ResultOutcome) UnmarshalText(text []byte) error {
	*o = Unknown
	for _, outcome := range []ResultOutcome{Ok, Refused} {
		if string(text) == outcome.String() {
			*o = outcome
		}
	}
	return nil
}

// Reason is why a call was refused or why its effect is unknown, in CamelCase as a condition shows it.
type Reason string

// Result is what is known of the effect of a call.
type Result struct {
	Outcome ResultOutcome `json:"outcome"`
	Reason  Reason        `json:"reason,omitempty"`
	Text    string        `json:"text,omitempty"` // what the tool printed that decided; never a secret
}

// String returns the result on one line.
func (r Result) String() string {
	switch {
	case r.Reason == "":
		return r.Outcome.String()
	case r.Text == "":
		return fmt.Sprintf("%s: %s", r.Outcome, r.Reason)
	default:
		return fmt.Sprintf("%s: %s: %s", r.Outcome, r.Reason, r.Text)
	}
}
