package failsafe_test

import (
	"slices"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/failsafe"
)

const s = time.Second

// attempted returns whom a writer asks after a renewal that failed.
func attempted(members []string, attempt *failsafe.Recorded) []string {
	var h failsafe.Holder
	first := &failsafe.Recorded{Members: members, For: 300 * s}
	h.Begin(false, first)
	h.End(100*s, first, true)
	h.Begin(true, attempt)
	h.End(102*s, attempt, false)
	return h.Members()
}

func TestDecide(t *testing.T) {
	yes, no := failsafe.Answer{Confirmed: true}, failsafe.Answer{Why: "it knows of epoch 4"}
	all := map[string]failsafe.Answer{"b@2": yes, "c@3": yes}
	round := func(change func(*failsafe.Round)) failsafe.Round {
		r := failsafe.Round{
			Self: "a@1", Members: []string{"a@1", "b@2", "c@3"}, Answers: all,
			Renewed: 100 * s, For: 300 * s, Promise: 10 * s, Deadline: 110 * s, Asked: 104 * s, Now: 105 * s,
		}
		if change != nil {
			change(&r)
		}
		return r
	}
	for name, c := range map[string]struct {
		round failsafe.Round
		until time.Duration
		why   string
	}{
		"all confirm": {round(nil), 114 * s, ""},
		"it is alone": {round(func(r *failsafe.Round) { r.Members, r.Answers = []string{"a@1"}, nil }), 114 * s, ""},
		"one does not answer": {
			round(func(r *failsafe.Round) { r.Answers = map[string]failsafe.Answer{"b@2": yes} }), 110 * s, "c@3 does not answer",
		},
		"one refuses": {
			round(func(r *failsafe.Round) { r.Answers = map[string]failsafe.Answer{"b@2": yes, "c@3": no} }), 110 * s, "c@3: it knows of epoch 4",
		},
		"one was moved": {
			round(func(r *failsafe.Round) { r.Answers = map[string]failsafe.Answer{"b@2": yes, "c@4": yes} }), 110 * s, "c@3 does not answer",
		},
		"nothing was recorded": {round(func(r *failsafe.Round) { r.Members = nil }), 110 * s, "it has not recorded whom it would ask"},
		"recorded by another one of its name": {
			round(func(r *failsafe.Round) { r.Self = "a@9" }), 110 * s, "it has not recorded whom it would ask",
		},
		"its node is not known": {round(func(r *failsafe.Round) { r.Self = "" }), 110 * s, "it has not recorded whom it would ask"},
		"a renewal without a record may have been written": {
			round(func(r *failsafe.Round) { r.Members = attempted(r.Members, nil) }), 110 * s, "it does not know all whom it would have to ask",
		},
		"a renewal with a new member may have been written": {
			round(func(r *failsafe.Round) {
				r.Members = attempted(r.Members, &failsafe.Recorded{Members: []string{"a@1", "d@4"}, For: 300 * s})
			}), 110 * s, "d@4 does not answer",
		},
		"the answers came too late": {round(func(r *failsafe.Round) { r.Now = 110 * s }), 110 * s, "the answers came too late"},
		"the last question that it may ask": {
			round(func(r *failsafe.Round) { r.Asked, r.Now, r.Deadline = 400*s, 401*s, 405*s }), 410 * s, "",
		},
		"it went on for too long": {
			round(func(r *failsafe.Round) { r.Asked, r.Now, r.Deadline = 401*s, 402*s, 405*s }), 405 * s, "its last renewal is more than 5m0s ago",
		},
		"a lease that is longer than a promise stays": {round(func(r *failsafe.Round) { r.Deadline = 130 * s }), 130 * s, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if until, why := c.round.Decide(); until != c.until || why != c.why {
				t.Errorf("until %s, %q; want until %s, %q", until, why, c.until, c.why)
			}
		})
	}
}

func TestGive(t *testing.T) {
	q := failsafe.Question{Member: "b@2", Writer: "a", Epoch: 3, For: 10 * s}
	at := failsafe.State{Identity: "b@2", Epoch: 3}
	state := func(change func(*failsafe.State)) failsafe.State { c := at; change(&c); return c }
	for name, c := range map[string]struct {
		state failsafe.State
		why   string
	}{
		"a reader":                     {at, ""},
		"a reader that knows nothing":  {state(func(s *failsafe.State) { s.Epoch = 0 }), ""},
		"another instance":             {state(func(s *failsafe.State) { s.Identity = "c@2" }), "it is c@2"},
		"another node":                 {state(func(s *failsafe.State) { s.Identity = "b@3" }), "it is b@3"},
		"a writer":                     {state(func(s *failsafe.State) { s.Writes = true }), "it holds a lease itself"},
		"a reader that knows a newer":  {state(func(s *failsafe.State) { s.Epoch = 4 }), "it knows of epoch 4"},
		"a reader held by a failover":  {state(func(s *failsafe.State) { s.Held = true }), "a failover is under way"},
		"an instance without identity": {state(func(s *failsafe.State) { s.Identity = "" }), "it is "},
	} {
		t.Run(name, func(t *testing.T) {
			var p failsafe.Promise
			got := p.Give(q, c.state, 100*s)
			if got.Confirmed != (c.why == "") || got.Why != c.why {
				t.Errorf("got %+v, want %q", got, c.why)
			}
			want := time.Duration(0)
			if got.Confirmed {
				want = 10 * s
			}
			if wait := p.Take(100 * s); wait != want {
				t.Errorf("it takes a lease after %s, want %s", wait, want)
			}
		})
	}
}

// Promises and attempts exclude each other.
func TestNoPromiseWhileALeaseIsTaken(t *testing.T) {
	var p failsafe.Promise
	q, at := failsafe.Question{Member: "b@2", Writer: "a", Epoch: 3, For: 10 * s}, failsafe.State{Identity: "b@2"}
	if wait := p.Take(0); wait != 0 {
		t.Fatalf("it waits %s without a promise", wait)
	}
	if a := p.Give(q, at, 1*s); a.Confirmed {
		t.Error("it promised while it took a lease")
	}
	p.Taken()
	if a := p.Give(q, at, 2*s); !a.Confirmed {
		t.Errorf("it refuses after the attempt has ended: %s", a.Why)
	}
	if p.Give(failsafe.Question{Member: "b@2", Writer: "a", Epoch: 3, For: s}, at, 3*s); p.Take(11*s) != s {
		t.Error("a shorter promise ended the longer one")
	}
	if p.Take(12*s) != 0 {
		t.Error("the promise does not end")
	}
}

func TestWait(t *testing.T) {
	r := &failsafe.Recorded{Members: []string{"a@1", "b@2"}, For: 300 * s}
	for identity, want := range map[string]time.Duration{"b@2": 0, "a@1": 0, "b@3": 300 * s, "c@3": 300 * s, "": 300 * s} {
		if got := r.Wait(identity); got != want {
			t.Errorf("%q waits %s, want %s", identity, got, want)
		}
	}
	if got := (*failsafe.Recorded)(nil).Wait("c@3"); got != 0 {
		t.Errorf("without a record it waits %s", got)
	}
}

// An attempt that succeeded tells what is in the record, unless another one is under way.
func TestHolder(t *testing.T) {
	var h failsafe.Holder
	first, second := &failsafe.Recorded{Members: []string{"a@1", "b@2"}, For: s}, &failsafe.Recorded{Members: []string{"a@1", "c@3"}, For: s}
	step := func(want ...string) {
		t.Helper()
		if got := h.Members(); !slices.Equal(got, want) {
			t.Errorf("it asks %v, want %v", got, want)
		}
	}
	h.Begin(false, first)
	h.End(1*s, first, true)
	step("a@1", "b@2")
	h.Begin(true, second)
	step("a@1", "b@2", "c@3")
	h.Begin(true, first)
	h.End(3*s, first, true)
	step("a@1", "b@2", "c@3")
	h.End(2*s, second, true)
	step("a@1", "b@2", "c@3") // one of them was written last
	h.Begin(true, second)
	h.End(4*s, second, false)
	step("a@1", "b@2", "c@3")
	h.Begin(true, second)
	h.End(5*s, second, true)
	step("a@1", "c@3")
	if h.Renewed() != 5*s {
		t.Errorf("renewed at %s", h.Renewed())
	}
	h.Begin(true, nil)
	h.End(6*s, nil, true)
	step(failsafe.Unknown)
	h.Begin(false, first) // it had stopped, and begins again
	h.End(7*s, first, true)
	step("a@1", "b@2")

	h = failsafe.Holder{} // the agent was started anew, and the engine runs on
	h.Begin(true, first)
	h.End(8*s, first, false)
	step(failsafe.Unknown, "a@1", "b@2")
	h.Begin(true, first)
	h.End(9*s, first, true)
	step("a@1", "b@2")
}
