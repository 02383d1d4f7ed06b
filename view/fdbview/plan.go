package fdbview

import (
	"fmt"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/chain"
	"github.com/pawl-dev/pawl/view"
)

// Plan is what happens next, and what blocks it.
type Plan struct {
	Cluster string `json:"cluster"` // namespace/name
	// Hash names the plan while links of it are held: pawl fdb approve takes it.
	Hash string `json:"hash,omitempty"`
	// Hold are the links that a person holds.
	Hold string `json:"hold,omitempty"`
	// Assumed says of which facts the plan was made, when it is not the operator's own.
	Assumed string `json:"assumed,omitempty"`
	// Warnings are what is allowed in the spec and may not do what is expected.
	Warnings []string `json:"warnings,omitempty"`
	Entries  []Entry  `json:"entries"`
}

// Entry is an action of a link: it is done now, or something blocks it.
type Entry struct {
	Link      string    `json:"link"`
	Action    string    `json:"action"`
	Targets   []string  `json:"targets,omitempty"`
	Now       bool      `json:"now"`
	Reason    string    `json:"reason,omitempty"`
	Message   string    `json:"message,omitempty"`
	Remedy    string    `json:"remedy,omitempty"`
	Since     time.Time `json:"since,omitzero"`
	NotBefore time.Time `json:"notBefore,omitzero"`
}

// Held reports whether a person must let something of the plan pass.
func (p Plan) Held() bool {
	for _, e := range p.Entries {
		if e.Reason == chain.ReasonHeld {
			return true
		}
	}
	return false
}

// Brief is an entry beside one of its targets.
func (e Entry) Brief() string {
	if e.Now {
		return e.Link + " now"
	}
	return e.Link + " waits: " + e.Reason
}

// Text is the plan for people: what is done now, then what waits, and why.
func (p Plan) Text(now time.Time, style view.Style) string {
	var b strings.Builder
	head := "plan of " + p.Cluster
	if p.Hash != "" {
		head += "  hash " + p.Hash
	}
	if p.Hold != "" {
		head += "  held: " + p.Hold
	}
	b.WriteString(head + "\n")
	if p.Assumed != "" {
		b.WriteString("  " + p.Assumed + "\n")
	}
	for _, warning := range p.Warnings {
		b.WriteString("  ! " + warning + "\n")
	}
	b.WriteString(p.lines(now, style))
	if p.Hash != "" {
		_, name, _ := strings.Cut(p.Cluster, "/")
		fmt.Fprintf(&b, "  to let it pass once: pawl fdb approve %s %s\n", name, p.Hash)
	}
	return b.String()
}

func (p Plan) lines(now time.Time, style view.Style) string {
	if len(p.Entries) == 0 {
		return "  nothing is to be done\n"
	}
	remedies := []string{}
	for _, e := range p.Entries {
		if e.Remedy != "" && e.Reason != chain.ReasonHeld {
			remedies = append(remedies, fmt.Sprintf("  %s: %s\n", e.Link, oneLine(e.Remedy)))
		}
	}
	table := view.TableOf(p.Entries, []view.Column[Entry]{
		{Head: "LINK", Cell: func(e Entry) string { return e.Link }},
		{Head: "ACTION", Cell: func(e Entry) string { return strings.TrimSpace(e.Action + " " + few(e.Targets)) }},
		{Head: "WHEN", Cell: func(e Entry) string { return e.when(now) }, Health: func(e Entry) view.Health {
			return map[bool]view.Health{true: view.Healthy, false: view.Progressing}[e.Now]
		}},
		{Head: "WHY NOT NOW", Cell: func(e Entry) string {
			if e.Now {
				return ""
			}
			return Because(e.Reason, e.Message)
		}},
	})
	return view.Indent(table.Text(style), "  ") + strings.Join(remedies, "")
}

func (e Entry) when(now time.Time) string {
	switch {
	case e.Now:
		return "now"
	case !e.NotBefore.IsZero():
		return "in " + view.Age(e.NotBefore.Sub(now)) + " at the earliest"
	case !e.Since.IsZero():
		return "waits since " + view.Age(now.Sub(e.Since))
	}
	return None
}

// few are the first targets: the JSON form has all that the status has.
func few(targets []string) string {
	const most = 4
	if len(targets) <= most {
		return strings.Join(targets, ", ")
	}
	rest := len(targets) - most + 1
	var clipped int // the status has no more than some, and says so
	if _, err := fmt.Sscanf(targets[len(targets)-1], "and %d more", &clipped); err == nil {
		rest += clipped - 1
	}
	return fmt.Sprintf("%s and %d more", strings.Join(targets[:most-1], ", "), rest)
}
