// Package outcome defines the result of every piece of work: Done, Wait, Later or Fail.
//
//	func caughtUp(ctx context.Context, t *workflow.Task) outcome.Outcome {
//		lag, err := replica.Lag(ctx)
//		switch {
//		case err != nil:
//			return outcome.Fail(err)
//		case lag > 0:
//			return outcome.Wait(5*time.Second, "CatchingUp", "%d bytes behind", lag)
//		}
//		return outcome.Done()
//	}
//
// A step of a flow, a link of a chain, a transient state and a controller all return it, so they
// nest without adapters.
package outcome

import (
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/fault"
)

type kind uint8

const (
	done kind = iota
	wait
	later
	fail
)

// Outcome is the result of a piece of work. The zero Outcome is Done.
type Outcome struct {
	kind    kind
	after   time.Duration
	reason  string
	message string
	err     error
}

// Done means that the work is finished. The next work may start.
func Done() Outcome { return Outcome{} }

// Wait means that the work is not finished. It is called again after d, or when something happens
// if d is 0. The next work must not start. The reason is CamelCase.
func Wait(d time.Duration, reason, format string, args ...any) Outcome {
	return Outcome{kind: wait, after: max(d, 0), reason: reason, message: text(format, args)}
}

// Later is Wait for work that does not delay the next work.
func Later(d time.Duration, reason, format string, args ...any) Outcome {
	return Outcome{kind: later, after: max(d, 0), reason: reason, message: text(format, args)}
}

// Fail means that the work has failed. Fail(nil) is Done.
func Fail(err error) Outcome {
	if err == nil {
		return Outcome{}
	}
	return Outcome{kind: fail, err: err}
}

func text(format string, args []any) string {
	if len(args) == 0 {
		return format
	}
	return fmt.Sprintf(format, args...)
}

// IsDone reports whether the outcome is Done.
func (o Outcome) IsDone() bool { return o.kind == done }

// IsWait reports whether the outcome is Wait.
func (o Outcome) IsWait() bool { return o.kind == wait }

// IsLater reports whether the outcome is Later.
func (o Outcome) IsLater() bool { return o.kind == later }

// IsFail reports whether the outcome is Fail.
func (o Outcome) IsFail() bool { return o.kind == fail }

// After is the delay until the next call; 0 means until something happens.
func (o Outcome) After() time.Duration { return o.after }

// Err is the error of Fail; nil for other outcomes.
func (o Outcome) Err() error { return o.err }

// Reason is the CamelCase reason of Wait and Later, the reason of the fault of Fail, or "Done".
func (o Outcome) Reason() string {
	switch o.kind {
	case done:
		return "Done"
	case fail:
		return fault.Of(o.err).Reason()
	default:
		return o.reason
	}
}

// Message is the text of Wait, Later or Fail.
func (o Outcome) Message() string {
	if o.kind == fail {
		return fault.Message(o.err)
	}
	return o.message
}

// String is one line for logs.
func (o Outcome) String() string {
	switch o.kind {
	case wait:
		return fmt.Sprintf("wait %s %s: %s", o.after, o.reason, o.message)
	case later:
		return fmt.Sprintf("later %s %s: %s", o.after, o.reason, o.message)
	case fail:
		return fmt.Sprintf("fail %v", o.err)
	default:
		return "done"
	}
}
