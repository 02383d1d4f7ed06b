package sim

import (
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/fdb"
)

// Effect is something that an instance of the operator is about to do, or has done: a write of Objects, a call of
// Database other than a status, or a copy of Sidecars.
type Effect struct {
	Number    int // counts the effects of the world, the first being 1
	Owner     string
	Verb      string // Create, Patch, Delete, SaveStatus; Run, Transact; Copy
	Kind      string // of an object
	Namespace string
	Name      string
	Call      fdb.Call // of Run
}

// String returns the effect on one line.
func (e Effect) String() string {
	switch e.Verb {
	case "Run":
		return strings.TrimSpace("Run " + string(e.Call.Command) + " " + strings.Join(e.Call.Targets, " "))
	case "Transact":
		return e.Verb
	}
	return e.Verb + " " + e.Kind + " " + name{e.Namespace, e.Name}.String()
}

// Call is a kind of call, by which calls are counted.
type Call struct {
	Verb string // Get, List, Status, Substitutions, Hash, Present, and the verbs of effects
	Kind string // of an object; of Run: the command
}

// hooks are what is called around effects, and the counters.
type hooks struct {
	w             *World
	before, after []func(Effect) error
	effects       int
	calls         map[Call]int
	writes        int
	deaths        []death
	dead          map[string]bool // by owner
}

// death is the moment at which an instance dies.
type death struct {
	number int // of the effect
	after  bool
}

// DieAt has the instance die that has the nth effect from now on, the first being 1, right before or after it: all of
// its calls from there on fail without an effect, until Revive. That holds too for a program that survives its own
// panics.
func (h *hooks) DieAt(n int, after bool) {
	h.deaths = append(h.deaths, death{h.effects + n, after})
}

// Dead reports whether an instance has died.
func (h *hooks) Dead(owner string) bool { return h.dead[owner] }

// Revive starts an instance again that has died.
func (h *hooks) Revive(owner string) { delete(h.dead, owner) }

// dies reports whether an instance dies right before or after an effect.
func (h *hooks) dies(e Effect, after bool) bool {
	at := slices.Index(h.deaths, death{e.Number, after})
	if at < 0 {
		return false
	}
	h.deaths = slices.Delete(h.deaths, at, at+1)
	h.dead[e.Owner] = true
	h.w.database.Note("%s dies, %s it was done: %s", e.Owner, map[bool]string{false: "before", true: "after"}[after], e)
	return true
}

// alive fails with fault.APIUnavailable for an instance that is dead.
func (h *hooks) alive(owner string) error {
	if h.dead[owner] {
		return fault.APIUnavailable.Errorf("%s is dead", owner)
	}
	return nil
}

// Before has a function called before each effect of an instance. Its error ends the call without the effect; it
// may panic, as a program that dies does.
func (h *hooks) Before(hook func(Effect) error) { h.before = append(h.before, hook) }

// After has a function called after each effect of an instance. Its error is that of the call, though the effect
// has happened; it may panic, as a program that dies does.
func (h *hooks) After(hook func(Effect) error) { h.after = append(h.after, hook) }

// Unhook removes all hooks.
func (h *hooks) Unhook() { h.before, h.after = nil, nil }

// Effects returns how many effects the instances have had.
func (h *hooks) Effects() int { return h.effects }

// Calls returns how often a port was called, by kinds of calls. Those of persons do not count.
func (h *hooks) Calls() map[Call]int { return h.calls }

// Writes returns how many writes of objects the instances have made, those that changed nothing among them.
func (h *hooks) Writes() int { return h.writes }

// ResetCalls sets the counters of calls and writes to zero.
func (h *hooks) ResetCalls() { h.calls, h.writes = map[Call]int{}, 0 }

func (h *hooks) count(owner, verb, kind string) {
	if owner != "" {
		h.calls[Call{verb, kind}]++
	}
}

// effect does something on behalf of an owner between the hooks.
func (h *hooks) effect(e Effect, do func() error) error {
	if e.Owner == "" {
		return do()
	}
	if err := h.alive(e.Owner); err != nil {
		return err
	}
	h.effects++
	e.Number = h.effects
	if h.dies(e, false) {
		return h.alive(e.Owner)
	}
	for _, hook := range h.before {
		if err := hook(e); err != nil {
			return err
		}
	}
	var err error
	h.w.database.By(e.Owner, func() {
		h.w.database.Note("%s", e)
		err = do()
	})
	if h.dies(e, true) {
		return h.alive(e.Owner)
	}
	for _, hook := range h.after {
		if hooked := hook(e); hooked != nil {
			return hooked
		}
	}
	return err
}
