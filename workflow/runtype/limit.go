package runtype

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Limit is a key of a run and the number of runs of that key that may run at once. All limits of a run
// hold: it starts when none of its limits is reached, and holds the limit until it ends.
type Limit struct {
	Key    string `json:"key"`    // such as provider/aws; at most 256 bytes
	AtOnce int    `json:"atOnce"` // at least 1
}

// Rate is how many starts are allowed in each window of a length: 10/1m is at most 10 in any minute. The zero Rate
// allows any number.
type Rate struct {
	Starts int           // at least 1, at most MaxRate
	Window time.Duration // at least a millisecond, at most MaxWindow
}

// ParseRate reads a text such as 10/1m.
func ParseRate(text string) (Rate, error) {
	number, window, found := strings.Cut(text, "/")
	n, err := strconv.Atoi(number)
	if !found || err != nil {
		return Rate{}, fmt.Errorf("%q is not a rate: write a number and a window, such as 10/1m", text)
	}
	w, err := time.ParseDuration(window)
	if err != nil {
		return Rate{}, fmt.Errorf("the window of the rate %q is not a time such as 10s, 1m or 1h", text)
	}
	rate := Rate{n, w}
	return rate, rate.Check()
}

// Check returns what is wrong with a rate.
func (r Rate) Check() error {
	switch {
	case r.IsZero():
		return nil
	case r.Starts < 1 || r.Starts > MaxRate:
		return fmt.Errorf("a rate allows between 1 and %d starts, not %d: choose another window", MaxRate, r.Starts)
	case r.Window < time.Millisecond || r.Window > MaxWindow:
		return fmt.Errorf("the window of a rate is between 1ms and %s, not %s", MaxWindow, r.Window)
	}
	return nil
}

// And returns the rate that keeps both. It fails if neither of them does: such as 2/1s and 10/1m.
func (r Rate) And(o Rate) (Rate, error) {
	switch {
	case r.keeps(o):
		return r, nil
	case o.keeps(r):
		return o, nil
	}
	return Rate{}, fmt.Errorf("a key has one rate, and neither of %s and %s keeps the other: use two keys", r, o)
}

// keeps reports whether starts that keep the rate keep another one.
func (r Rate) keeps(o Rate) bool {
	if r.IsZero() || o.IsZero() {
		return o.IsZero()
	}
	windows := (o.Window + r.Window - 1) / r.Window
	return int64(windows)*int64(r.Starts) <= int64(o.Starts)
}

// IsZero reports whether the rate allows any number of starts.
func (r Rate) IsZero() bool { return r == Rate{} }

// String returns the text that ParseRate reads; "" for the zero Rate.
func (r Rate) String() string {
	if r.IsZero() {
		return ""
	}
	window := r.Window.String() // 1m0s, 1h0m0s
	if trimmed, ok := strings.CutSuffix(window, "m0s"); ok {
		window = trimmed + "m"
	}
	if trimmed, ok := strings.CutSuffix(window, "h0m"); ok {
		window = trimmed + "h"
	}
	return strconv.Itoa(r.Starts) + "/" + window
}

// MarshalText implements encoding.TextMarshaler.
func (r Rate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *Rate) UnmarshalText(text []byte) (err error) {
	if len(text) == 0 {
		*r = Rate{}
		return nil
	}
	*r, err = ParseRate(string(text))
	return err
}

// Limits of limits.
const (
	MaxRate     = 1000           // starts of a rate
	MaxWindow   = 24 * time.Hour // of a rate
	MaxLimits   = 8              // keys of one run
	MaxLimitKey = 256            // bytes
	MaxPriority = 1000           // of a run; the lowest is -MaxPriority
)

// PriorityAge is what one point of priority is worth: a run starts before the runs whose priority is one
// lower, unless they have waited longer by more than this time. So a run that waits rises by one point in each
// such time, and none starves.
const PriorityAge = time.Minute

// PassesLimited reports whether the run goes before the runs of its subject that only wait for their limits and have not
// begun: those may wait for a limit of the run whose child it is. It acquires no limit, so it waits for none.
func (r *Run) PassesLimited() bool {
	return r.Parent != "" && !r.Inline && len(r.Limits) == 0
}

// Rank is the position of the run among those that wait for the same limit: the lowest starts first. It does
// not change while the run waits. Unit: nanoseconds since 1970.
func (r *Run) Rank() int64 {
	return r.CreatedAt.Add(-time.Duration(r.Priority) * PriorityAge).UnixNano()
}
