package machine

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/outcome"
)

// Turn counts how often an event has won while what it looks at stayed as it is.
// It is forgotten once the event is seen not to hold.
type Turn struct {
	Event string    `json:"event"`
	Seen  string    `json:"seen"` // hash of what the event looks at
	Count int       `json:"count"`
	At    time.Time `json:"at"` // of the last one
}

// The guard against loops: an event that still holds after its work is done.
const (
	FreeTurns  = 3                // without a delay
	FirstDelay = 5 * time.Second  // before the turn behind them; doubled for each further one
	MostDelay  = 10 * time.Minute // between two turns
	staleTurns = time.Hour        // behind which a turn counts as the first
)

// LoopReason is the reason of an outcome and of a condition that name an event in a loop.
const LoopReason = "EventLoopBackOff"

// seen is the hash of what an event looks at; "": that is not known.
func (j *judge[T]) seen(t Transition[T], input []byte) (string, error) {
	if t.Reads != nil {
		return guarded(t.Reads, j.obj)
	}
	if j.table.Generation == nil || t.Params == nil {
		return "", nil
	}
	return digest(map[string]any{"generation": j.generation(), "params": string(input)})
}

// turn counts one more win of an event, and says how long it has to wait first.
func (j *judge[T]) turn(t Transition[T], input []byte) (turns []Turn, next Turn, wait time.Duration, err error) {
	seen, err := j.seen(t, input)
	if err != nil || seen == "" {
		return j.p.Turns, Turn{}, 0, err
	}
	next = Turn{Event: t.Event, Seen: seen, Count: 1, At: j.f.Now}
	for _, was := range j.p.Turns {
		switch fresh := j.f.Now.Sub(was.At) < staleTurns+MostDelay; {
		case was.Event != t.Event && fresh:
			turns = append(turns, was)
		case was.Event == t.Event && was.Seen == seen && fresh:
			next.Count = was.Count + 1
			wait = was.At.Add(delayOf(next.Count)).Sub(j.f.Now)
		}
	}
	return append(turns, next), next, wait, nil
}

// delayOf is the time between a turn and the one before it.
func delayOf(count int) time.Duration {
	if count <= FreeTurns {
		return 0
	}
	return min(MostDelay, FirstDelay<<min(count-FreeTurns-1, 16))
}

// settle forgets the turns of events that were seen not to hold; nil: there is nothing to forget.
// A single turn is left where it is, so that an object at rest is not written for it.
func (j *judge[T]) settle() *Position {
	over := func(t Turn) bool {
		return t.Count > 1 && slices.ContainsFunc(j.d.Considered, func(c Considered) bool { return c.Event == t.Event && c.Verdict == Refused })
	}
	if !slices.ContainsFunc(j.p.Turns, over) {
		return nil
	}
	to := j.p
	to.Turns = slices.DeleteFunc(slices.Clone(j.p.Turns), over)
	return &to
}

// Loop is an event that holds again although its work is done, and that nothing it looks at has changed.
type Loop struct {
	Event string
	State State // in which it holds
	Turns int   // that were made
	Wait  time.Duration
}

// Why says it for people.
func (l Loop) Why() string {
	return fmt.Sprintf("event %s still holds in state %s after %d turns in which nothing that it looks at has changed; turns are delayed", l.Event, l.State, l.Turns)
}

// delayed reports a stable place whose events wait.
func (j *judge[T]) delayed() Decision {
	var lines []string
	wait := MostDelay
	for _, l := range j.d.Loops {
		lines, wait = append(lines, l.Why()), min(wait, l.Wait)
	}
	j.d.Outcome = outcome.Later(max(wait, soon), LoopReason, "%s", strings.Join(lines, "; "))
	return j.d
}
