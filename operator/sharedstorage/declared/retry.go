package declared

import (
	"slices"
	"time"

	"github.com/pawl-dev/pawl/fault"
)

// maxRetry is the longest time without a look at an object that has a problem, in Options.RetryInterval.
const maxRetry = 20

// problem is why an object is not as it is declared.
type problem struct {
	condition string // that tells it
	subject   string // the object, such as "user app"
	err       error  // a fault
}

// retry is when an object that has problems is looked at again.
type retry struct {
	problems []problem
	delay    time.Duration
	until    time.Time
}

// again returns the retry of an object that has these problems now, after the former one. The time doubles while the
// problems are of the same kinds.
func (f retry) again(problems []problem, now time.Time, first time.Duration) retry {
	delay := first
	if f.delay > 0 && slices.EqualFunc(f.problems, problems, func(a, b problem) bool { return fault.Of(a.err) == fault.Of(b.err) }) {
		delay = min(2*f.delay, maxRetry*first)
	}
	return retry{problems, delay, now.Add(delay)}
}
