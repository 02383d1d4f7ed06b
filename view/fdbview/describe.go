package fdbview

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/view"
)

// Describe tells all of a cluster: how it is, its groups as a tree by class and zone with the reason beside each, and
// its plan.
func (c Cluster) Describe(now time.Time, style view.Style) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s/%s\n", c.Kind, c.Namespace, c.Name)
	say := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "  %-15s%s\n", name, fmt.Sprintf(format, args...))
	}
	state := style.Health(c.Health(), c.State)
	if why := Because(c.Reason, c.Message); why != "" {
		state += "  " + why
	}
	say("state", "%s", state)
	say("version", "%s", c.Versions())
	say("database", "%s", strings.Join([]string{truth(c.Configured, "configured"), truth(c.Available, "available"), truth(c.FullReplication, "fully replicated")}, ", "))
	if c.Configuration != "" {
		say("configuration", "%s", c.Configuration)
	}
	if c.DesiredConfiguration != "" {
		say("wanted", "%s", c.DesiredConfiguration)
	}
	if c.MaintenanceZone != "" {
		say("maintenance", "zone %s", c.MaintenanceZone)
	}
	width := 0
	for _, one := range c.Coordinators {
		width = max(width, len(one.Address))
	}
	for i, one := range c.Coordinators {
		name := ""
		if i == 0 {
			name = "coordinators"
		}
		say(name, "%-*s  %s", width, one.Address, cmp.Or(one.Group, "of no group of this object"))
	}
	say("groups", "%d of %d are as they should be", c.ReconciledGroups, c.DesiredGroups)
	b.WriteString(c.Tree(now))
	if c.Plan.Hash != "" {
		fmt.Fprintf(&b, "plan  hash %s\n", c.Plan.Hash)
	} else {
		b.WriteString("plan\n")
	}
	b.WriteString(c.Plan.lines(now, style))
	return b.String()
}

func truth(holds bool, what string) string {
	if holds {
		return what
	}
	return "not " + what
}

// Tree are the groups by class and zone, with the reason beside each.
func (c Cluster) Tree(now time.Time) string {
	var rows [][]string
	for _, class := range c.Classes {
		count, marked := 0, 0
		for _, zone := range class.Zones {
			for _, g := range zone.Groups {
				count++
				if !g.Since.IsZero() {
					marked++
				}
			}
		}
		text := fmt.Sprintf("  %s  %d of %d", class.Name, count-marked, class.Desired)
		if marked > 0 {
			text += fmt.Sprintf(", and %d on their way out", marked)
		}
		rows = append(rows, []string{text})
		for _, zone := range class.Zones {
			rows = append(rows, []string{"    zone " + cmp.Or(zone.Name, "not known yet")})
			for _, g := range zone.Groups {
				rows = append(rows, []string{"      " + g.mark() + " " + g.ID, cmp.Or(strings.Join(g.Addresses, " "), None), g.Why(now)})
			}
		}
	}
	return aligned(rows)
}

// Health judges the state of the cluster.
func (c Cluster) Health() view.Health {
	switch c.State {
	case "Paused", "Deleting", "Creating", "New":
		return view.Progressing
	}
	return view.HealthOf(c.State)
}

func (g Group) mark() string {
	switch g.State {
	case Serves:
		return "✔"
	case Wrong:
		return "✖"
	}
	return "↷"
}

// Why says in a line why the group is where it is.
func (g Group) Why(now time.Time) string {
	var parts []string
	since := view.Age(now.Sub(g.Since))
	switch g.State {
	case Serves:
		parts = append(parts, "serves")
	case Draining:
		parts = append(parts, "marked for removal since "+since+", its data moves away")
	case Drained:
		parts = append(parts, "marked for removal since "+since+", safe to delete")
	case Skipped:
		parts = append(parts, "marked for removal since "+since+", without moving its data")
	}
	for _, condition := range g.Conditions {
		parts = append(parts, condition.Type+" since "+view.Age(now.Sub(condition.Since)))
	}
	return strings.Join(append(parts, g.Plan...), "; ")
}

// aligned pads the cells of rows that have several; a row of one cell is a heading.
func aligned(rows [][]string) string {
	var widths [2]int
	for _, row := range rows {
		for i := range min(len(row)-1, len(widths)) {
			widths[i] = max(widths[i], len([]rune(row[i])))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		line := ""
		for i, cell := range row {
			line += cell
			if i < len(row)-1 && i < len(widths) {
				line += strings.Repeat(" ", widths[i]-len([]rune(cell))+2)
			}
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return b.String()
}
