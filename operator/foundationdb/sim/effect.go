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
func (w *World) DieAt(n int, after bool) {
	w.hooks.deaths = append(w.hooks.deaths, death{w.hooks.effects + n, after})
}

// Dead reports whether an instance has died.
func (w *World) Dead(owner string) bool { return w.hooks.dead[owner] }

// Revive starts an instance again that has died.
func (w *World) Revive(owner string) { delete(w.hooks.dead, owner) }

// dies reports whether an instance dies right before or after an effect.
func (w *World) dies(e Effect, after bool) bool {
	at := slices.Index(w.hooks.deaths, death{e.Number, after})
	if at < 0 {
		return false
	}
	w.hooks.deaths = slices.Delete(w.hooks.deaths, at, at+1)
	w.hooks.dead[e.Owner] = true
	w.database.Note("%s dies, %s it was done: %s", e.Owner, map[bool]string{false: "before", true: "after"}[after], e)
	return true
}

// alive fails with fault.APIUnavailable for an instance that is dead.
func (w *World) alive(owner string) error {
	if w.hooks.dead[owner] {
		return fault.APIUnavailable.Errorf("%s is dead", owner)
	}
	return nil
}

// Before has a function called before each effect of an instance. Its error ends the call without the effect; it
// may panic, as a program that dies does.
func (w *World) Before(hook func(Effect) error) { w.hooks.before = append(w.hooks.before, hook) }

// After has a function called after each effect of an instance. Its error is that of the call, though the effect
// has happened; it may panic, as a program that dies does.
func (w *World) After(hook func(Effect) error) { w.hooks.after = append(w.hooks.after, hook) }

// Unhook removes all hooks.
func (w *World) Unhook() { w.hooks.before, w.hooks.after = nil, nil }

// Effects returns how many effects the instances have had.
func (w *World) Effects() int { return w.hooks.effects }

// Calls returns how often a port was called, by kinds of calls. Those of persons do not count.
func (w *World) Calls() map[Call]int { return w.hooks.calls }

// Writes returns how many writes of objects the instances have made, those that changed nothing among them.
func (w *World) Writes() int { return w.hooks.writes }

// ResetCalls sets the counters of calls and writes to zero.
func (w *World) ResetCalls() { w.hooks.calls, w.hooks.writes = map[Call]int{}, 0 }

func (w *World) count(owner, verb, kind string) {
	if owner != "" {
		w.hooks.calls[Call{verb, kind}]++
	}
}

// effect does something on behalf of an owner between the hooks.
func (w *World) effect(e Effect, do func() error) error {
	if e.Owner == "" {
		return do()
	}
	if err := w.alive(e.Owner); err != nil {
		return err
	}
	w.hooks.effects++
	e.Number = w.hooks.effects
	if w.dies(e, false) {
		return w.alive(e.Owner)
	}
	for _, hook := range w.hooks.before {
		if err := hook(e); err != nil {
			return err
		}
	}
	var err error
	w.database.By(e.Owner, func() {
		w.database.Note("%s", e)
		err = do()
	})
	if w.dies(e, true) {
		return w.alive(e.Owner)
	}
	for _, hook := range w.hooks.after {
		if hooked := hook(e); hooked != nil {
			return hooked
		}
	}
	return err
}
