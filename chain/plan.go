package chain

import (
	"strings"
	"time"

	"github.com/pawl-dev/pawl/outcome"
)

// Planned is what one link would do in the next pass.
type Planned struct {
	Link    string
	Acts    []PlannedAct
	Outcome outcome.Outcome // what the link would report, with its acts carried out
	Opens   time.Duration   // how long it has to wait at least; 0: that is not known
	Held    bool            // Hold keeps it from acting
	Behind  string          // the link that would end the pass before this one; "": none
	Unknown bool            // the link has no Decide: what it would do cannot be said without doing it
}

// PlannedAct is an act in words.
type PlannedAct struct {
	Name    string
	Targets []string
}

// String returns the act as text: "create pod a-1, a-2".
func (a PlannedAct) String() string {
	if len(a.Targets) == 0 {
		return a.Name
	}
	return a.Name + " " + strings.Join(a.Targets, ", ")
}

// Plan asks each link what it would do, and does nothing. The links behind one that waits or
// fails decide too, and have Behind set. Each link decides as if the acts of the links before
// it had been carried out, as far as their Assume says it; the acts of held links are not
// assumed. scope is changed by Assume: give it a copy. A panic of Decide is Fail with PANIC
// of its link.
func (c Chain[S]) Plan(scope S) []Planned {
	var all []Planned
	c.plan(scope, "", new(string), &all)
	return all
}

func (c Chain[S]) plan(scope S, prefix string, behind *string, all *[]Planned) {
	for _, sub := range c {
		name := prefix + sub.Name
		if sub.Subs != nil {
			sub.Subs.plan(scope, name+"/", behind, all)
			continue
		}
		p := Planned{Link: name, Held: sub.held, Behind: *behind, Unknown: sub.Decide == nil}
		if sub.Decide != nil {
			p.Outcome = guarded(name, func() outcome.Outcome {
				decision := sub.Decide(scope)
				p.Opens = decision.Opens
				for _, act := range decision.Acts {
					p.Acts = append(p.Acts, PlannedAct{act.Name, act.Targets})
					if act.Assume != nil && !sub.held {
						act.Assume(scope)
					}
				}
				if sub.held && len(decision.Acts) > 0 {
					return outcome.Later(0, ReasonHeld, "its acts are held")
				}
				return decision.Outcome
			})
		}
		if *behind == "" && (p.Outcome.IsWait() || p.Outcome.IsFail()) {
			*behind = name
		}
		*all = append(*all, p)
	}
}

// Names returns the names of all links in order, as reports and plans have them.
func (c Chain[S]) Names() []string {
	var all []string
	for _, sub := range c {
		if sub.Subs == nil {
			all = append(all, sub.Name)
			continue
		}
		for _, name := range sub.Subs.Names() {
			all = append(all, sub.Name+"/"+name)
		}
	}
	return all
}
