package machine

import (
	"fmt"

	"github.com/pawl-dev/pawl/chain"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
)

// The verdicts of the links of a plan.
const (
	LinkDone    = "done"
	LinkLater   = "later" // it has more to do, and later links run
	LinkWait    = "wait"  // the pass ends here
	LinkFail    = "fail"  // the pass ends here
	LinkUnknown = "unknown"
)

// PlannedLink is what one link of a chain would do in the next pass.
type PlannedLink struct {
	Link    string     `json:"link"`
	Verdict string     `json:"verdict"` // what the link would report
	Acts    []string   `json:"acts,omitempty"`
	Reason  string     `json:"reason,omitempty"`
	Message string     `json:"message,omitempty"`
	Held    bool       `json:"held,omitempty"`   // it must not act
	Behind  string     `json:"behind,omitempty"` // the link that would end the pass before this one
	Code    fault.Code `json:"code,omitempty"`   // of fail
}

// PlanOfLinks returns the plan of an object that a chain serves: its links, and as Act and Why
// what the first of them that acts or stops would do.
func PlanOfLinks(object string, links []chain.Planned) Plan {
	plan := Plan{Object: object, Act: Rest, Links: make([]PlannedLink, len(links))}
	for i, p := range links {
		link := plannedLink(p)
		plan.Links[i] = link
		acts := len(link.Acts) > 0 && !link.Held || link.Verdict == LinkUnknown
		if acts && link.Behind == "" {
			plan.Act = Work
		}
		stops := link.Verdict == LinkWait || link.Verdict == LinkFail || link.Verdict == LinkLater
		if plan.Why != "" || link.Behind != "" || !acts && !stops {
			continue
		}
		plan.Why = fmt.Sprintf("%s: %s", link.Link, link.about())
		if link.Verdict == LinkFail {
			of := fault.Of(p.Outcome.Err())
			plan.Code, plan.Remedy = of.Code, of.Remedy
		}
	}
	if plan.Why == "" {
		plan.Why = "no link has anything to do"
	}
	return plan
}

func plannedLink(p chain.Planned) PlannedLink {
	link := PlannedLink{Link: p.Link, Held: p.Held, Behind: p.Behind, Verdict: verdict(p.Outcome)}
	for _, act := range p.Acts {
		link.Acts = append(link.Acts, act.String())
	}
	switch {
	case p.Unknown:
		link.Verdict, link.Message = LinkUnknown, "it says what it does only by doing it"
	case p.Outcome.IsFail():
		of := fault.Of(p.Outcome.Err())
		link.Code, link.Message = of.Code, fault.Message(p.Outcome.Err())
	case !p.Outcome.IsDone():
		link.Reason, link.Message = p.Outcome.Reason(), p.Outcome.Message()
	}
	return link
}

func verdict(out outcome.Outcome) string {
	switch {
	case out.IsWait():
		return LinkWait
	case out.IsFail():
		return LinkFail
	case out.IsLater():
		return LinkLater
	}
	return LinkDone
}

// about says in a line what the link would do.
func (l PlannedLink) about() string {
	switch {
	case len(l.Acts) > 0 && !l.Held:
		text := l.Acts[0]
		if more := len(l.Acts) - 1; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		return text
	case l.Message != "":
		return l.Message
	}
	return l.Reason
}
