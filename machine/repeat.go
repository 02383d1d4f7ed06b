package machine

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/outcome"
)

// Repeat counts how often an event has won while what it reads stayed the same. It is
// dropped when the event no longer holds.
type Repeat struct {
	Event string    `json:"event"`
	Seen  string    `json:"seen"` // hash of what the event reads
	Count int       `json:"count"`
	At    time.Time `json:"at"` // of the last one
}

// Limits of events that still hold after their work is done.
const (
	FreeRepeats = 3                // wins without a delay
	FirstDelay  = 5 * time.Second  // before the next win; doubled for each further one
	MaxDelay    = 10 * time.Minute // between two wins
	staleAfter  = time.Hour        // after which a win counts as the first
)

// LoopReason is the reason of an outcome and of a condition that name an event in a loop.
const LoopReason = "EventLoopBackOff"

// seen returns the hash of what an event reads; "": not known.
func (j *decider[T]) seen(t Transition[T], input []byte) (string, error) {
	if t.Reads != nil {
		return guarded(t.Reads, j.obj)
	}
	if j.table.Generation == nil || t.Params == nil {
		return "", nil
	}
	return digest(map[string]any{"generation": j.generation(), "params": string(input)})
}

// repeat counts one more win of an event and returns its delay.
func (j *decider[T]) repeat(t Transition[T], input []byte) (repeats []Repeat, next Repeat, wait time.Duration, err error) {
	seen, err := j.seen(t, input)
	if err != nil || seen == "" {
		return j.p.Repeats, Repeat{}, 0, err
	}
	next = Repeat{Event: t.Event, Seen: seen, Count: 1, At: j.f.Now}
	for _, was := range j.p.Repeats {
		switch fresh := j.f.Now.Sub(was.At) < staleAfter+MaxDelay; {
		case was.Event != t.Event && fresh:
			repeats = append(repeats, was)
		case was.Event == t.Event && was.Seen == seen && fresh:
			next.Count = was.Count + 1
			wait = was.At.Add(delayOf(next.Count)).Sub(j.f.Now)
		}
	}
	return append(repeats, next), next, wait, nil
}

// delayOf returns the time between a win and the one before.
func delayOf(count int) time.Duration {
	if count <= FreeRepeats {
		return 0
	}
	return min(MaxDelay, FirstDelay<<min(count-FreeRepeats-1, 16))
}

// settle drops the repeats of events that no longer hold; nil: none. A single win is
// kept, so that an object at rest is not written for it.
func (j *decider[T]) settle() *Position {
	over := func(t Repeat) bool {
		return t.Count > 1 && slices.ContainsFunc(j.d.Considered, func(c Considered) bool { return c.Event == t.Event && c.Verdict == Refused })
	}
	if !slices.ContainsFunc(j.p.Repeats, over) {
		return nil
	}
	to := j.p
	to.Repeats = slices.DeleteFunc(slices.Clone(j.p.Repeats), over)
	return &to
}

// Loop is an event that still holds after its work is done while nothing that it reads
// has changed.
type Loop struct {
	Event   string
	State   State // in which it holds
	Repeats int   // wins so far
	Wait    time.Duration
}

// Why describes the loop for people.
func (l Loop) Why() string {
	return fmt.Sprintf("event %s still holds in state %s after %d repeats in which nothing that it reads has changed; repeats are delayed", l.Event, l.State, l.Repeats)
}

// delayed reports a stable state whose events wait.
func (j *decider[T]) delayed() Decision {
	var lines []string
	wait := MaxDelay
	for _, l := range j.d.Loops {
		lines, wait = append(lines, l.Why()), min(wait, l.Wait)
	}
	j.d.Outcome = outcome.Later(max(wait, soon), LoopReason, "%s", strings.Join(lines, "; "))
	return j.d
}
