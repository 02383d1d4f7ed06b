package fdbview

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/view"
)

// Exclusion is what is left on a group that is excluded, or marked for removal.
type Exclusion struct {
	Group    string    `json:"group"`
	Class    string    `json:"class"`
	Marked   time.Time `json:"marked,omitzero"`
	State    string    `json:"state"` // Waiting, Draining, Empty, Drained, Skipped, Silent or Excluded
	Roles    []string  `json:"roles,omitempty"`
	Bytes    int64     `json:"bytes"`          // stored on it
	Note     string    `json:"note,omitempty"` // why it waits
	Excluded bool      `json:"excluded"`       // in the database
}

// ExclusionStatus are the exclusions of a cluster.
type ExclusionStatus struct {
	Cluster    string      `json:"cluster"`
	Exclusions []Exclusion `json:"exclusions"`
	InFlight   int64       `json:"bytesInFlight"` // that data distribution moves now
	InQueue    int64       `json:"bytesInQueue"`  // that it has yet to move
	Silence    string      `json:"silence,omitempty"`
}

func (e Exclusion) health() view.Health {
	switch e.State {
	case "Drained", "Empty":
		return view.Healthy
	case "Skipped", "Excluded":
		return view.Inactive
	case "Silent":
		return view.Degraded
	}
	return view.Progressing
}

// Left reports whether something is yet to move.
func (v ExclusionStatus) Left() bool {
	return slices.ContainsFunc(v.Exclusions, func(e Exclusion) bool { return e.State != "Drained" && e.State != "Skipped" && e.State != "Excluded" })
}

// Exit is 3 while data moves.
func (v ExclusionStatus) Exit() int {
	if v.Left() {
		return view.ExitActive
	}
	return view.ExitDone
}

// Text is the status for people.
func (v ExclusionStatus) Text(now time.Time, style view.Style) string {
	var b strings.Builder
	fmt.Fprintf(&b, "cluster %s\n", v.Cluster)
	if v.Silence != "" {
		fmt.Fprintf(&b, "  database: %s\n", v.Silence)
	}
	if len(v.Exclusions) == 0 {
		b.WriteString("  no group is excluded or marked for removal\n")
		return b.String()
	}
	var sum int64
	for _, e := range v.Exclusions {
		sum += e.Bytes
	}
	b.WriteString(view.Indent(view.TableOf(v.Exclusions, []view.Column[Exclusion]{
		{Head: "GROUP", Cell: func(e Exclusion) string { return e.Group }},
		{Head: "STATE", Cell: func(e Exclusion) string { return e.State }, Health: Exclusion.health},
		{Head: "LEFT", Cell: func(e Exclusion) string { return Bytes(e.Bytes) }},
		{Head: "ROLES", Cell: func(e Exclusion) string { return cmp.Or(strings.Join(e.Roles, " "), None) }},
		{Head: "SO FAR", Cell: func(e Exclusion) string {
			if e.Marked.IsZero() {
				return None
			}
			return view.Age(now.Sub(e.Marked))
		}},
		{Head: "CLASS", Wide: true, Cell: func(e Exclusion) string { return e.Class }},
		{Head: "NOTE", Cell: func(e Exclusion) string { return e.Note }},
	}).Text(style), "  "))
	fmt.Fprintf(&b, "  %s left on them; the database moves %s now, %s are in its queue\n", Bytes(sum), Bytes(v.InFlight), Bytes(v.InQueue))
	return b.String()
}
