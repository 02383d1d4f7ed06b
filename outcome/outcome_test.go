package outcome_test

import (
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
)

func Example() {
	caughtUp := func(lag int, err error) outcome.Outcome {
		switch {
		case err != nil:
			return outcome.Fail(err)
		case lag > 0:
			return outcome.Wait(5*time.Second, "CatchingUp", "%d bytes behind", lag)
		}
		return outcome.Done()
	}
	fmt.Println(caughtUp(0, nil))
	fmt.Println(caughtUp(512, nil))
	fmt.Println(caughtUp(0, fault.APIUnavailable.Errorf("no answer")))
	// Output:
	// done
	// wait 5s CatchingUp: 512 bytes behind
	// fail API_UNAVAILABLE: no answer
}

func TestOutcome(t *testing.T) {
	for name, c := range map[string]struct {
		outcome                 outcome.Outcome
		done, wait, later, fail bool
		reason, message         string
		after                   time.Duration
	}{
		"zero":                     {outcome: outcome.Outcome{}, done: true, reason: "Done"},
		"done":                     {outcome: outcome.Done(), done: true, reason: "Done"},
		"fail of nothing is done":  {outcome: outcome.Fail(nil), done: true, reason: "Done"},
		"wait":                     {outcome: outcome.Wait(time.Second, "PodsNotReady", "%d of 3", 1), wait: true, reason: "PodsNotReady", message: "1 of 3", after: time.Second},
		"wait for something":       {outcome: outcome.Wait(-time.Second, "Signal", "100%"), wait: true, reason: "Signal", message: "100%"},
		"later":                    {outcome: outcome.Later(time.Second, "Lagging", "behind"), later: true, reason: "Lagging", message: "behind", after: time.Second},
		"fail":                     {outcome: outcome.Fail(fault.WriteConflict.Errorf("changed")), fail: true, reason: "WriteConflict", message: "changed"},
		"fail without declaration": {outcome: outcome.Fail(io.EOF), fail: true, reason: "Unknown", message: "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			o := c.outcome
			if o.IsDone() != c.done || o.IsWait() != c.wait || o.IsLater() != c.later || o.IsFail() != c.fail {
				t.Errorf("kind of %v", o)
			}
			if o.Reason() != c.reason || o.Message() != c.message || o.After() != c.after {
				t.Errorf("got %q %q %s", o.Reason(), o.Message(), o.After())
			}
			if c.fail != (o.Err() != nil) {
				t.Errorf("error %v", o.Err())
			}
		})
	}
}
