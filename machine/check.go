package machine

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Problem is one thing that is wrong with a table.
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

// Problems is all that is wrong with a table.
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

// ways are how a working state is left besides by Any.
var ways = []string{"then", "else", "abort"}

// Check gives everything that is wrong with the table, in a fixed order; nil
// if it is valid. known tells whether a flow exists; nil: flows are not checked.
func (t Table[T]) Check(known func(flow string) bool) Problems {
	c := checker[T]{table: t, states: slices.Sorted(maps.Keys(t.States)), known: known}
	c.names()
	c.transitions([]string{"any"}, "", t.Any)
	for i, transition := range t.Any {
		if transition.When == nil {
			c.say(c.path("any", i, "when"), "it has no condition: it would leave every state at once; write one")
		}
	}
	for _, s := range c.states {
		c.place(s, t.States[s])
	}
	c.ignore()
	if len(c.found) == 0 { // the graph can be trusted
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

func (c *checker[T]) say(path []string, format string, args ...any) {
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
		c.say(c.path("machine"), "the name %q: %s", t.Name, nameHelp)
	}
	if len(t.States) == 0 {
		c.say(c.path("states"), "the machine has no states")
		return
	}
	if t.Initial == "" {
		c.say(c.path("initial"), "name the state in which objects begin")
	} else {
		c.target(c.path("initial"), t.Initial)
	}
	folded := map[string]State{}
	for _, s := range c.states {
		if !stateForm.MatchString(string(s)) {
			c.say(c.path("states", s), "the state %q: %s", s, stateHelp)
		}
		lower := strings.ToLower(string(s))
		if first, twice := folded[lower]; twice {
			c.say(c.path("states", s), "duplicate state: it differs from %s only in the case of letters", first)
		}
		folded[lower] = s
	}
}

func (c *checker[T]) target(path []string, to State) {
	if _, ok := c.table.States[to]; !ok {
		c.say(path, "unknown state %q%s", to, DidYouMean(string(to), names(c.states)))
	}
}

// transitions checks a row of them; the events of Any count in every place.
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
			c.say(path("to"), "name the state it leads to")
		} else {
			c.target(path("to"), t.To)
			if t.To == from {
				c.say(path("to"), "it leads to the state it leaves")
			}
		}
		switch {
		case t.Event == "":
			c.say(path("event"), "name the event")
		case !nameForm.MatchString(t.Event):
			c.say(path("event"), "the event %q: %s", t.Event, nameHelp)
		case seen[t.Event]:
			c.say(path("event"), "duplicate event %q: give each transition that is tried in a state its own", t.Event)
		}
		seen[t.Event] = true
		if t.When == nil && i < len(on)-1 && from != "" {
			c.say(path("when"), "it has no condition, so the transitions behind it can never win; put it last")
		}
		switch {
		case t.Flow == "":
		case c.table.States[t.To].Flow == "":
			c.say(path("flow"), "%s has no flow that another could stand for", t.To)
		case c.known != nil && !c.known(t.Flow):
			c.say(path("flow"), "unknown flow %q: load the file that defines it", t.Flow)
		}
		if t.Cancel != "" && t.Cancel != Drop && t.Cancel != Undo {
			c.say(path("ends"), "%q is neither drop nor undo", t.Cancel)
		}
	}
}

func (c *checker[T]) place(s State, p StateSpec[T]) {
	at := func(field string) []string { return c.path("states", s, field) }
	if !p.Transient() {
		if p.Withdrawn != "" {
			c.say(at("withdrawn"), "a state without flow or action does not work, so it has no withdrawn")
		}
		if p.Rests && len(p.On) > 0 {
			c.say(at("rests"), "a state with transitions rests anyway: remove it")
		}
		c.transitions(at("on"), s, p.On)
		for i, target := range []State{p.Then, p.Else, p.Abort} {
			if target != "" {
				c.say(at(ways[i]), "a state without flow or action does not work, so it has no %s", ways[i])
			}
		}
		return
	}
	if p.Do != nil && p.Flow != "" {
		c.say(at("flow"), "a state has an action or a flow, not both")
	}
	if p.Rests {
		c.say(at("rests"), "a state that works does not rest")
	}
	if len(p.On) > 0 {
		c.say(at("on"), "transitions of a state that works are never looked at: put them into any, or into a stable state")
	}
	if p.Flow != "" && c.known != nil && !c.known(p.Flow) {
		c.say(at("flow"), "unknown flow %q: load the file that defines it", p.Flow)
	}
	switch {
	case p.Then == "":
		c.say(at("then"), "the state has no way out: name the state that follows when its work is done")
	case p.Then == s:
		c.say(at("then"), "the state has no way out: it follows itself")
	default:
		c.target(at("then"), p.Then)
	}
	switch other := p.otherwise(c.table); {
	case other == "":
		c.say(at("else"), "name the state that follows when its work fails: the table has no state %s", Interrupted)
	case other == s:
	default:
		c.target(at("else"), other)
		if p.Flow != "" && c.table.States[other].Transient() {
			c.say(at("else"), "%s works, but the paused run has to be waited for: name a stable state, or %s itself to stay", other, s)
		}
	}
	if p.Withdrawn != "" && p.Withdrawn != Undo && p.Withdrawn != Drop && p.Withdrawn != Keep {
		c.say(at("withdrawn"), "%q is none of undo, drop and keep", p.Withdrawn)
	}
	if p.Abort == s {
		c.say(at("abort"), "the state has no way out: it follows itself")
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
			c.say(c.path("ignore", i), "no transition has the event %q%s", name, DidYouMean(name, events))
		}
	}
}

// reach finds states that nothing leads to.
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
			todo = append(todo, p.Then, p.otherwise(c.table), p.Abort)
		}
	}
	for _, s := range c.states {
		if !seen[s] {
			c.say(c.path("states", s), "unreachable: no way leads from %s to it", c.table.Initial)
		}
	}
}

// cycles finds states that work and only lead to each other: an object in
// there would never rest.
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
				c.say(c.path("states", s, way), "a cycle without a stable state: %s", strings.Join(names(append(cycle, s)), " → "))
			}
		}
	}
}

// cycle follows the ways between working states from s back to s.
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
	return map[string]State{"then": p.Then, "else": p.otherwise(c.table), "abort": p.Abort}
}

// aborts finds states that have no stable state to go back to after a cancel.
func (c *checker[T]) aborts() {
	seen := map[State]bool{}
	for s := c.table.Initial; c.table.States[s].Transient() && !seen[s]; s = c.table.States[s].Then {
		seen[s] = true
		if p := c.table.States[s]; p.Flow != "" && p.Abort == "" {
			c.say(c.path("states", s, "abort"), "objects begin here, so there is no stable state to go back to when the run is cancelled: name one")
		}
	}
}

// otherwise is Else with its default.
func (p StateSpec[T]) otherwise(table Table[T]) State {
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

// Loops finds transitions that are sure to run in a loop: their predicate is
// missing, or reads nothing that work changes (Fixed), and the work that they
// begin leads back to the state that they left, by itself or with such transitions
// of other states. Two predicates that read the spec may exclude each other, as
// those of stop and start do: one is allowed in a ring of several states.
func (t Table[T]) Loops() Problems {
	c := checker[T]{table: t, states: slices.Sorted(maps.Keys(t.States))}
	for _, s := range c.states {
		c.rings(s, s, nil, nil, 0)
	}
	return c.found
}

// rings follows sure transitions from a stable state until they lead back to the
// first. A ring is told once, at its first state by name.
func (c *checker[T]) rings(first, from State, at []string, cycle []string, fixed int) {
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
				c.say(where, "event %s runs in a loop: %s, so it still holds in %s when the work of %s is done; compare the spec with a fact that the work writes into the status", tr.Event, why, from, tr.To)
			case next == first:
				c.say(where, "events run in a loop: %s, and then the first again, and no condition of theirs reads what the work writes; compare the spec with a fact that the work writes into the status", strings.Join(append(slices.Clone(cycle), step), ", "))
			case len(cycle) < len(c.states) && next != from:
				c.rings(first, next, where, append(slices.Clone(cycle), step), reads)
			}
		}
	}
	follow(c.path("any"), t.Any)
	follow(c.path("states", from, "on"), place.On)
}

// after is the stable state to which work that succeeds leads; "": none.
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
