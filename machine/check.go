package machine

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Problem is one mistake of a table.
type Problem struct {
	Path    []string // any, 0, to; states, Running, on, 2, event; states, Creating, then
	Message string
}

func (p Problem) String() string {
	if len(p.Path) == 0 {
		return p.Message
	}
	return strings.Join(p.Path, ".") + ": " + p.Message
}

// Problems are all mistakes of a table.
type Problems []Problem

func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, problem := range p {
		lines[i] = problem.String()
	}
	return strings.Join(lines, "\n")
}

var (
	nameForm  = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]{0,62}$`)
	stateForm = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]{0,62}$`)
)

const (
	nameHelp  = "use a letter, then at most 62 letters, digits, dots, dashes and underscores"
	stateHelp = "use a letter, then at most 62 letters, digits and underscores"
)

// ways are the fields by which a transient state is left, besides Any.
var ways = []string{"then", "else", "abort"}

// Check returns every mistake of the table, in a fixed order; nil if it is valid. known
// reports whether a flow exists; nil: flows are not checked.
func (t Table[T]) Check(known func(flow string) bool) Problems {
	c := checker[T]{table: t, states: slices.Sorted(maps.Keys(t.States)), known: known}
	c.names()
	c.transitions([]string{"any"}, "", t.Any)
	for i, transition := range t.Any {
		if transition.When == nil {
			c.report(c.path("any", i, "when"), "it has no condition: it would leave every state at once; write one")
		}
	}
	for _, s := range c.states {
		c.place(s, t.States[s])
	}
	c.ignore()
	if len(c.found) == 0 { // the graph is complete
		c.reach()
		c.cycles()
		c.aborts()
	}
	return c.found
}

type checker[T any] struct {
	table  Table[T]
	states []State
	known  func(string) bool
	found  Problems
}

func (c *checker[T]) report(path []string, format string, args ...any) {
	c.found = append(c.found, Problem{Path: path, Message: fmt.Sprintf(format, args...)})
}

func (c *checker[T]) path(parts ...any) []string {
	out := make([]string, len(parts))
	for i, p := range parts {
		out[i] = fmt.Sprint(p)
	}
	return out
}

func (c *checker[T]) names() {
	t := c.table
	if !nameForm.MatchString(t.Name) {
		c.report(c.path("machine"), "the name %q: %s", t.Name, nameHelp)
	}
	if len(t.States) == 0 {
		c.report(c.path("states"), "the machine has no states")
		return
	}
	if t.Initial == "" {
		c.report(c.path("initial"), "name the state in which objects begin")
	} else {
		c.target(c.path("initial"), t.Initial)
	}
	folded := map[string]State{}
	for _, s := range c.states {
		if !stateForm.MatchString(string(s)) {
			c.report(c.path("states", s), "the state %q: %s", s, stateHelp)
		}
		lower := strings.ToLower(string(s))
		if first, twice := folded[lower]; twice {
			c.report(c.path("states", s), "duplicate state: it differs from %s only in the case of letters", first)
		}
		folded[lower] = s
	}
}

func (c *checker[T]) target(path []string, to State) {
	if _, ok := c.table.States[to]; !ok {
		c.report(path, "unknown state %q%s", to, DidYouMean(string(to), names(c.states)))
	}
}

// transitions checks a list of them; the events of Any count in every state.
func (c *checker[T]) transitions(at []string, from State, on []Transition[T]) {
	seen := map[string]bool{}
	if from != "" {
		for _, t := range c.table.Any {
			if t.To != from {
				seen[t.Event] = true
			}
		}
	}
	for i, t := range on {
		path := func(field string) []string { return append(slices.Clone(at), strconv.Itoa(i), field) }
		if t.To == "" {
			c.report(path("to"), "name the state it leads to")
		} else {
			c.target(path("to"), t.To)
			if t.To == from {
				c.report(path("to"), "it leads to the state it leaves")
			}
		}
		switch {
		case t.Event == "":
			c.report(path("event"), "name the event")
		case !nameForm.MatchString(t.Event):
			c.report(path("event"), "the event %q: %s", t.Event, nameHelp)
		case seen[t.Event]:
			c.report(path("event"), "duplicate event %q: give each transition that is tried in a state its own", t.Event)
		}
		seen[t.Event] = true
		if t.When == nil && i < len(on)-1 && from != "" {
			c.report(path("when"), "it has no condition, so the transitions behind it can never win; put it last")
		}
		switch {
		case t.Flow == "":
		case c.table.States[t.To].Flow == "":
			c.report(path("flow"), "%s has no flow that another could stand for", t.To)
		case c.known != nil && !c.known(t.Flow):
			c.report(path("flow"), "unknown flow %q: load the file that defines it", t.Flow)
		}
		if t.Cancel != "" && t.Cancel != Drop && t.Cancel != Undo {
			c.report(path("ends"), "%q is neither drop nor undo", t.Cancel)
		}
	}
}

func (c *checker[T]) place(s State, p StateSpec[T]) {
	at := func(field string) []string { return c.path("states", s, field) }
	if !p.Transient() {
		if p.Withdrawn != "" {
			c.report(at("withdrawn"), "a state without flow or action does not work, so it has no withdrawn")
		}
		if p.Rests && len(p.On) > 0 {
			c.report(at("rests"), "a state with transitions rests anyway: remove it")
		}
		c.transitions(at("on"), s, p.On)
		for i, target := range []State{p.Then, p.Else, p.Abort} {
			if target != "" {
				c.report(at(ways[i]), "a state without flow or action does not work, so it has no %s", ways[i])
			}
		}
		return
	}
	if p.Do != nil && p.Flow != "" {
		c.report(at("flow"), "a state has an action or a flow, not both")
	}
	if p.Rests {
		c.report(at("rests"), "a state that works does not rest")
	}
	if len(p.On) > 0 {
		c.report(at("on"), "transitions of a state that works are never looked at: put them into any, or into a stable state")
	}
	if p.Flow != "" && c.known != nil && !c.known(p.Flow) {
		c.report(at("flow"), "unknown flow %q: load the file that defines it", p.Flow)
	}
	switch {
	case p.Then == "":
		c.report(at("then"), "the state has no way out: name the state that follows when its work is done")
	case p.Then == s:
		c.report(at("then"), "the state has no way out: it follows itself")
	default:
		c.target(at("then"), p.Then)
	}
	switch other := p.elseState(c.table); {
	case other == "":
		c.report(at("else"), "name the state that follows when its work fails: the table has no state %s", Interrupted)
	case other == s:
	default:
		c.target(at("else"), other)
		if p.Flow != "" && c.table.States[other].Transient() {
			c.report(at("else"), "%s works, but the paused run has to be waited for: name a stable state, or %s itself to stay", other, s)
		}
	}
	if p.Withdrawn != "" && p.Withdrawn != Undo && p.Withdrawn != Drop && p.Withdrawn != Keep {
		c.report(at("withdrawn"), "%q is none of undo, drop and keep", p.Withdrawn)
	}
	if p.Abort == s {
		c.report(at("abort"), "the state has no way out: it follows itself")
	} else if p.Abort != "" {
		c.target(at("abort"), p.Abort)
	}
}

func (c *checker[T]) ignore() {
	var events []string
	for _, t := range c.table.Any {
		events = append(events, t.Event)
	}
	for _, s := range c.states {
		for _, t := range c.table.States[s].On {
			events = append(events, t.Event)
		}
	}
	for i, name := range c.table.Ignore {
		if !slices.Contains(events, name) {
			c.report(c.path("ignore", i), "no transition has the event %q%s", name, DidYouMean(name, events))
		}
	}
}

// reach finds unreachable states.
func (c *checker[T]) reach() {
	seen := map[State]bool{}
	todo := []State{c.table.Initial}
	for len(todo) > 0 {
		s := todo[0]
		todo = todo[1:]
		if s == "" || seen[s] {
			continue
		}
		seen[s] = true
		p := c.table.States[s]
		if p.Final() {
			continue
		}
		for _, t := range slices.Concat(c.table.Any, p.On) {
			todo = append(todo, t.To)
		}
		if p.Transient() {
			todo = append(todo, p.Then, p.elseState(c.table), p.Abort)
		}
	}
	for _, s := range c.states {
		if !seen[s] {
			c.report(c.path("states", s), "unreachable: no way leads from %s to it", c.table.Initial)
		}
	}
}

// cycles finds transient states that lead only to each other: an object there would
// never rest.
func (c *checker[T]) cycles() {
	reported := map[State]bool{}
	for _, s := range c.states {
		if reported[s] || !c.table.States[s].Transient() {
			continue
		}
		for _, way := range ways {
			if cycle := c.cycle(s, way); cycle != nil && !reported[s] {
				for _, member := range cycle {
					reported[member] = true
				}
				c.report(c.path("states", s, way), "a cycle without a stable state: %s", strings.Join(names(append(cycle, s)), " → "))
			}
		}
	}
}

// cycle follows the ways between transient states from s back to s.
func (c *checker[T]) cycle(s State, way string) []State {
	type step struct {
		state State
		path  []State
	}
	seen := map[State]bool{}
	todo := []step{{c.targets(s)[way], []State{s}}}
	for len(todo) > 0 {
		at := todo[0]
		todo = todo[1:]
		if at.state == s {
			if len(at.path) > 1 { // staying in the state itself is a wait
				return at.path
			}
			continue
		}
		if seen[at.state] || !c.table.States[at.state].Transient() {
			continue
		}
		seen[at.state] = true
		for _, next := range ways {
			todo = append(todo, step{c.targets(at.state)[next], append(slices.Clone(at.path), at.state)})
		}
	}
	return nil
}

func (c *checker[T]) targets(s State) map[string]State {
	p := c.table.States[s]
	return map[string]State{"then": p.Then, "else": p.elseState(c.table), "abort": p.Abort}
}

// aborts finds states without a stable state to return to after a cancel.
func (c *checker[T]) aborts() {
	seen := map[State]bool{}
	for s := c.table.Initial; c.table.States[s].Transient() && !seen[s]; s = c.table.States[s].Then {
		seen[s] = true
		if p := c.table.States[s]; p.Flow != "" && p.Abort == "" {
			c.report(c.path("states", s, "abort"), "objects begin here, so there is no stable state to go back to when the run is cancelled: name one")
		}
	}
}

// elseState returns Else with its default.
func (p StateSpec[T]) elseState(table Table[T]) State {
	if p.Else == "" {
		if _, ok := table.States[Interrupted]; ok {
			return Interrupted
		}
	}
	return p.Else
}

func names(states []State) []string {
	out := make([]string, len(states))
	for i, s := range states {
		out[i] = string(s)
	}
	return out
}

// Loops finds transitions that certainly run in a loop: they have no predicate, or one
// that reads nothing that work changes (Fixed), and their work leads back to the state
// they left, by itself or with such transitions of other states. Two predicates over the
// spec may exclude each other, as those of stop and start do: a loop over several states
// may hold one.
func (t Table[T]) Loops() Problems {
	c := checker[T]{table: t, states: slices.Sorted(maps.Keys(t.States))}
	for _, s := range c.states {
		c.findLoops(s, s, nil, nil, 0)
	}
	return c.found
}

// findLoops follows such transitions from a stable state until they lead back to the
// first. A loop is reported once, at its first state by name.
func (c *checker[T]) findLoops(first, from State, at []string, cycle []string, fixed int) {
	t := c.table
	place := t.States[from]
	if place.Transient() || place.Final() {
		return
	}
	follow := func(path []string, on []Transition[T]) {
		for i, tr := range on {
			next := t.after(tr.To)
			step := fmt.Sprintf("%s in %s", tr.Event, from)
			reads := fixed
			if tr.When != nil {
				reads++
			}
			if tr.To == from || next == "" || next < first || tr.When != nil && !tr.Fixed || reads > 1 ||
				slices.Contains(t.Ignore, tr.Event) || slices.Contains(cycle, step) {
				continue
			}
			where := at
			if len(cycle) == 0 {
				where = append(slices.Clone(path), strconv.Itoa(i))
			}
			switch {
			case next == first && len(cycle) == 0:
				why := "it has no condition"
				if tr.When != nil {
					why = "its condition reads the spec alone"
				}
				c.report(where, "event %s runs in a loop: %s, so it still holds in %s when the work of %s is done; compare the spec with a fact that the work writes into the status", tr.Event, why, from, tr.To)
			case next == first:
				c.report(where, "events run in a loop: %s, and then the first again, and no condition of theirs reads what the work writes; compare the spec with a fact that the work writes into the status", strings.Join(append(slices.Clone(cycle), step), ", "))
			case len(cycle) < len(c.states) && next != from:
				c.findLoops(first, next, where, append(slices.Clone(cycle), step), reads)
			}
		}
	}
	follow(c.path("any"), t.Any)
	follow(c.path("states", from, "on"), place.On)
}

// after returns the stable state behind the work of s; "": none.
func (t Table[T]) after(s State) State {
	seen := map[State]bool{}
	for t.States[s].Transient() {
		if seen[s] {
			return ""
		}
		seen[s] = true
		s = t.States[s].Then
	}
	return s
}
