// Package limit decides who holds a limit: how many steps of a key run at once, and how many start in a
// window. It is pure: a store keeps one State for each key and changes those of one Request together, whoever works on
// the runs.
//
// A step that has to wait becomes a Waiter. Waiters have one order over all keys, their Rank, and a waiter is not passed by
// a later one of its key that would need the same limit. So the first of all goes on as soon as its limits are
// free, and no two steps can wait for each other: a step holds limits only while its attempt is open, or waits for a
// slot of its worker. Whoever has a slot waits for no limit.
//
// Nobody has to clean up after a crash. A waiter whose owner does not come back when it said it would is passed
// (see Overdue). What a worker that died holds is released by whoever waits for it, as Request.Lost.
package limit

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Limit is one key that a step has to hold.
type Limit struct {
	Key    string
	Name   string       // source text of the key, for metrics
	AtOnce int          // steps of the key that may run at once; 0: any number
	Rate   runtype.Rate // starts of the key in a window; zero: any number
}

const (
	// MaxAtOnce bounds Limit.AtOnce, and MaxWaiting the waiters of a key: a step behind them is no waiter yet and asks again later.
	MaxAtOnce, MaxWaiting = 1000, 256
	// Overdue is how long after the time of its next request a waiter is passed by others.
	Overdue = 30 * time.Second
	// forgotten is how long after that time it is dropped; its step gets another one with the same rank.
	forgotten = time.Hour
	// Skew is how far the clocks of two workers may differ. A clock that goes back by more was set: then all times
	// of a state are moved, as if no time had passed.
	Skew = time.Minute
	// checkEvery is how often those who wait look whether the holders of a key are still alive.
	checkEvery = 5 * time.Second
)

// State is what is stored of one key. Times are nanoseconds since 1970.
type State struct {
	Clock   int64         `json:"clock"`             // time of the newest change
	Checked int64         `json:"checked,omitempty"` // time at which the holders were checked
	Longest time.Duration `json:"longest,omitempty"` // longest window of all requests
	Starts  []int64       `json:"starts,omitempty"`  // within Longest, the newest MaxRate of them
	Holders []Holder      `json:"holders,omitempty"` // steps that hold a limit, in the order in which they got it
	Waiters []Waiter      `json:"waiters,omitempty"` // in the order in which they start

	Name   string       `json:"name,omitempty"` // of the newest request
	AtOnce int          `json:"atOnce,omitempty"`
	Rate   runtype.Rate `json:"rate,omitzero"`
}

// Holder is a step that holds a limit.
type Holder struct {
	Run   string `json:"run"`
	Step  string `json:"step"`
	Epoch int64  `json:"epoch"`
}

// Waiter is a step that waits for a limit.
type Waiter struct {
	Run    string       `json:"run"`
	Step   string       `json:"step"` // "": the start of the run
	Rank   int64        `json:"rank"` // the lowest starts first
	AskAt  int64        `json:"askAt"`
	Woken  bool         `json:"woken,omitempty"`
	AtOnce int          `json:"atOnce,omitempty"`
	Rate   runtype.Rate `json:"rate,omitzero"`
}

// Request is what one run asks and returns in one change.
type Request struct {
	Run      string
	Epoch    int64
	Acquires []Acquire
	Releases []Release
	Lost     []Holder // limits and waiters of steps that no living worker executes
}

// Acquire is a step that needs each of its limits, all at once.
type Acquire struct {
	Step   string
	Rank   int64 // see Rank; a waiter keeps its best one
	Limits []Limit
}

// Release is a step that has ended, or waits no more.
type Release struct {
	Step   string
	Limits []Limit
}

// Answer says who waits. A step of Request.Acquires that is not in Waits holds its limits.
type Answer struct {
	Waits map[string]Wait
	Wake  []string // runs that may go on now, or have to ask when they may
	Check []Holder // to look up: if they are not executed any more, the next request names them as Lost
}

// Wait is why a step waits.
type Wait struct {
	Limit
	Running int       // steps that hold a limit
	Started int       // starts in the window
	Before  int       // steps that wait before it
	AskAt   time.Time // time of its next request, if it is not woken before
}

// Rank is the order of those who wait: by the time since when they wait, as if it were a minute earlier for each point of priority.
func Rank(since time.Time, priority int) int64 {
	return since.Add(-time.Duration(priority) * runtype.PriorityAge).UnixNano()
}

// Keys returns the keys of a request, in order.
func (r Request) Keys() (keys []string) {
	for _, w := range r.Acquires {
		for _, l := range w.Limits {
			keys = append(keys, l.Key)
		}
	}
	for _, w := range r.Releases {
		for _, l := range w.Limits {
			keys = append(keys, l.Key)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// Decide applies a request to the states of all its keys.
func Decide(now time.Time, states map[string]*State, r Request) Answer {
	before := map[string][]turn{}
	for key, s := range states {
		s.Settle(now)
		before[key] = s.turns()
		for _, lost := range r.Lost {
			s.Holders = slices.DeleteFunc(s.Holders, func(h Holder) bool { return h == lost })
			if lost.Epoch == Ended {
				s.leave(lost.Run, "", true)
			}
		}
	}
	for _, back := range r.Releases {
		for _, l := range back.Limits {
			states[l.Key].release(r, back.Step)
			states[l.Key].leave(r.Run, back.Step, false)
		}
	}
	wants := slices.Clone(r.Acquires)
	slices.SortStableFunc(wants, func(a, b Acquire) int { return cmp.Compare(a.Rank, b.Rank) })
	for i := range wants {
		wants[i].Rank = join(states, r, wants[i])
	}
	a := Answer{Waits: map[string]Wait{}}
	for _, w := range wants {
		if wait, waits := acquire(now, states, r, w); waits {
			a.Waits[w.Step] = wait
			a.Check = append(a.Check, states[wait.Key].suspects(r.Run)...)
		}
	}
	for key, s := range states {
		a.Wake = append(a.Wake, s.wake(r.Run, before[key])...)
	}
	slices.Sort(a.Wake)
	a.Wake = slices.Compact(a.Wake)
	return a
}

// Ended is the epoch of a Lost entry whose run has ended: its waiters are removed too.
const Ended = -1

// Settle moves the state to a time and drops what is older than every window.
func (s *State) Settle(now time.Time) {
	t := now.UnixNano()
	switch back := s.Clock - t; {
	case back > int64(Skew):
		for i := range s.Starts {
			s.Starts[i] -= back
		}
		for i := range s.Waiters {
			s.Waiters[i].Rank -= back
			s.Waiters[i].AskAt -= back
		}
		s.Checked -= back
		s.Clock = t
	case back < 0:
		s.Clock = t
	}
	s.Waiters = slices.DeleteFunc(s.Waiters, func(t Waiter) bool { return t.AskAt+int64(forgotten) < s.Clock })
	old, _ := slices.BinarySearch(s.Starts, s.Clock-int64(s.Longest)+1)
	s.Starts = slices.Delete(s.Starts, 0, max(old, len(s.Starts)-runtype.MaxRate))
}

func (s *State) release(r Request, step string) {
	s.Holders = slices.DeleteFunc(s.Holders, func(h Holder) bool { return h.Run == r.Run && h.Step == step && h.Epoch <= r.Epoch })
}

func (s *State) leave(run, step string, all bool) {
	s.Waiters = slices.DeleteFunc(s.Waiters, func(t Waiter) bool { return t.Run == run && (all || t.Step == step) })
}

func (t Waiter) order(other Waiter) int {
	return cmp.Or(cmp.Compare(t.Rank, other.Rank), cmp.Compare(t.Run, other.Run), cmp.Compare(t.Step, other.Step))
}

// join makes a step a waiter of its keys and returns its rank: the best that it has had.
func join(states map[string]*State, r Request, w Acquire) int64 {
	rank := w.Rank
	for _, l := range w.Limits {
		for _, t := range states[l.Key].Waiters {
			if t.Run == r.Run && t.Step == w.Step {
				rank = min(rank, t.Rank)
			}
		}
	}
	for _, l := range w.Limits {
		s := states[l.Key]
		s.Name, s.AtOnce, s.Rate = l.Name, l.AtOnce, l.Rate
		s.Longest = max(s.Longest, l.Rate.Window)
		s.leave(r.Run, w.Step, false)
		t := Waiter{Run: r.Run, Step: w.Step, Rank: rank, AskAt: s.Clock, AtOnce: l.AtOnce, Rate: l.Rate}
		at, _ := slices.BinarySearchFunc(s.Waiters, t, Waiter.order)
		s.Waiters = slices.Insert(s.Waiters, at, t)
		s.Waiters = s.Waiters[:min(len(s.Waiters), MaxWaiting)]
	}
	return rank
}

// acquire gives a step its limits, or says why it waits.
func acquire(now time.Time, states map[string]*State, r Request, w Acquire) (wait Wait, waits bool) {
	held, needed := 0, 0
	for _, l := range w.Limits { // the answer to the same request was lost, or its worker was
		s := states[l.Key]
		if l.AtOnce > 0 {
			needed++
			if slices.Contains(s.Holders, Holder{r.Run, w.Step, r.Epoch}) {
				held++
				continue
			}
		}
		s.release(r, w.Step)
	}
	if held > 0 && held < needed { // it held limits of some of its keys only: it takes all again
		for _, l := range w.Limits {
			states[l.Key].release(r, w.Step)
		}
	} else if held > 0 {
		for _, l := range w.Limits {
			states[l.Key].leave(r.Run, w.Step, false)
		}
		return Wait{}, false
	}
	for _, l := range w.Limits {
		s := states[l.Key]
		before, after, free := s.earliest(Waiter{Run: r.Run, Step: w.Step, Rank: w.Rank})
		if free && after <= 0 {
			continue
		}
		if !free || before > 0 { // it will be woken; this is for a wake-up that is lost
			after = max(after, 10*time.Second+time.Duration(before)*time.Second)
		}
		after = min(after, 10*time.Minute)
		if at := now.Add(after); !waits || at.After(wait.AskAt) {
			wait = Wait{Limit: l, Running: len(s.Holders), Started: s.StartedIn(l.Rate.Window), Before: before, AskAt: at}
		}
		waits = true
	}
	for _, l := range w.Limits {
		s := states[l.Key]
		if waits {
			for i := range s.Waiters {
				if t := &s.Waiters[i]; t.Run == r.Run && t.Step == w.Step {
					t.AskAt = s.Clock + wait.AskAt.Sub(now).Nanoseconds()
				}
			}
			continue
		}
		s.leave(r.Run, w.Step, false)
		if l.AtOnce > 0 {
			s.Holders = append(s.Holders, Holder{r.Run, w.Step, r.Epoch})
		}
		if s.Longest > 0 {
			s.Starts = append(s.Starts, s.Clock)
		}
	}
	return wait, waits
}

// StartedIn counts the starts of a window that ends now.
func (s *State) StartedIn(window time.Duration) int {
	at, _ := slices.BinarySearch(s.Starts, s.Clock-int64(window)+1)
	return len(s.Starts) - at
}

// earliest says how long a waiter has to wait: those before it start first, each when its own numbers allow it. free is false if that depends on the end of a step.
func (s *State) earliest(own Waiter) (before int, after time.Duration, free bool) {
	starts, at := slices.Clone(s.Starts), s.Clock
	for _, t := range s.Waiters {
		mine := t.Run == own.Run && t.Step == own.Step
		if !mine && t.order(own) > 0 {
			break // it is no waiter
		}
		if !mine && t.AskAt+int64(Overdue) < s.Clock {
			continue
		}
		if t.AtOnce > 0 && len(s.Holders)+before >= t.AtOnce {
			return s.before(own), 0, false
		}
		if n := t.Rate.Starts; n > 0 && len(starts) >= n {
			at = max(at, starts[len(starts)-n]+int64(t.Rate.Window))
		}
		if mine {
			return before, time.Duration(at - s.Clock), true
		}
		starts = append(starts, at)
		before++
	}
	return len(s.Waiters), 0, false
}

// before counts the waiters that come before one.
func (s *State) before(own Waiter) (n int) {
	for _, t := range s.Waiters {
		if t.order(own) < 0 && t.AskAt+int64(Overdue) >= s.Clock {
			n++
		}
	}
	return n
}

// Before returns how many waiters come before that of a step; false if it has none.
func (s *State) Before(run, step string) (int, bool) {
	i := slices.IndexFunc(s.Waiters, func(t Waiter) bool { return t.Run == run && t.Step == step })
	return max(i, 0), i >= 0
}

// suspects returns what stands in the way of those who wait, from time to time.
func (s *State) suspects(run string) []Holder {
	if s.Clock-s.Checked < int64(checkEvery) {
		return nil
	}
	s.Checked = s.Clock
	list := slices.Clone(s.Holders)
	for _, t := range s.Waiters[:min(len(s.Waiters), 10)] {
		list = append(list, Holder{Run: t.Run, Epoch: Ended})
	}
	return slices.DeleteFunc(list, func(h Holder) bool { return h.Run == run })
}

// turn is a waiter that is the first, or that may start now as far as its key goes. Only the first knows exactly when it may start.
type turn struct {
	run, step   string
	first, free bool
}

func (s *State) turns() (list []turn) {
	for _, t := range s.Waiters {
		if t.AskAt+int64(Overdue) < s.Clock {
			continue
		}
		_, after, free := s.earliest(t)
		free = free && after <= 0
		if !free && len(list) > 0 {
			break
		}
		list = append(list, turn{t.Run, t.Step, len(list) == 0, free})
	}
	return list
}

// wake returns the runs of the waiters whose turn has come by this request. Those whose turn had come before were told then.
func (s *State) wake(but string, before []turn) (runs []string) {
	for _, now := range s.turns() {
		known := slices.ContainsFunc(before, func(old turn) bool {
			return old.run == now.run && old.step == now.step && (old.first || !now.first) && (old.free || !now.free)
		})
		if known || now.run == but {
			continue
		}
		t := &s.Waiters[slices.IndexFunc(s.Waiters, func(t Waiter) bool { return t.Run == now.run && t.Step == now.step })]
		if !t.Woken {
			t.Woken, t.AskAt = true, min(t.AskAt, s.Clock)
			runs = append(runs, t.Run)
		}
	}
	return runs
}

// Decode reads a stored state; nil is a key that nobody has used.
func Decode(data []byte) (*State, error) {
	s := &State{}
	if len(data) == 0 {
		return s, nil
	}
	return s, json.Unmarshal(data, s)
}

// Encode returns what to store; nil if there is nothing to remember.
func (s *State) Encode() []byte {
	if len(s.Holders) == 0 && len(s.Waiters) == 0 && len(s.Starts) == 0 {
		return nil
	}
	data, _ := json.Marshal(s) // cannot fail: it has only numbers and texts
	return data
}

// IsOver reports whether there is nothing to remember of a stored state at a time. A state that cannot be read is kept.
func IsOver(now time.Time, data []byte) bool {
	s, err := Decode(data)
	if err != nil {
		return false
	}
	s.Settle(now)
	return s.Encode() == nil
}
