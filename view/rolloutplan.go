package view

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/rollout"
)

// RolloutPlan is what a rollout will do, batch for batch.
type RolloutPlan struct {
	Rollout  string                 `json:"rollout"`  // namespace/name
	Workload string                 `json:"workload"` // Kind name
	Replicas int                    `json:"replicas"`
	Batches  []rollout.BatchPreview `json:"batches"`
	Assumed  bool                   `json:"assumed,omitempty" doc:"nothing is to be rolled now: it is the plan of another template"`
}

// Text is a table of the batches, and below it what they wait for.
func (p RolloutPlan) Text(style Style) string {
	var b strings.Builder
	fmt.Fprintf(&b, "rollout %s  %s, %d pods\n", p.Rollout, p.Workload, p.Replicas)
	if p.Assumed {
		b.WriteString("  nothing is to be rolled now: the plan of another template\n")
	}
	b.WriteString(Indent(previewText(p.Batches, style), "  "))
	return b.String()
}

// previewText is a table of batches, and below it what they wait for.
func previewText(batches []rollout.BatchPreview, style Style) string {
	var b strings.Builder
	columns := []Column[rollout.BatchPreview]{
		{Head: "BATCH", Cell: func(b rollout.BatchPreview) string { return strconv.Itoa(b.Index) }},
		{Head: "SIZE", Cell: func(b rollout.BatchPreview) string { return strconv.Itoa(b.Size) }},
		{Head: "TARGET", Cell: func(b rollout.BatchPreview) string { return strconv.Itoa(b.Target) }},
		{Head: "PODS", Cell: func(b rollout.BatchPreview) string { return podsText(b.Pods) }},
		{Head: "PARTITION", Cell: func(b rollout.BatchPreview) string { return partition(b.Partition) }},
		{Head: "AWAY", Cell: func(b rollout.BatchPreview) string { return strconv.Itoa(b.Unavailable) }},
		{Head: "WORST", Cell: func(b rollout.BatchPreview) string { return strconv.Itoa(b.WorstCase) }},
		{Head: "QUORUM", Cell: func(b rollout.BatchPreview) string { return optional(b.QuorumLeft) }},
	}
	if slices.ContainsFunc(batches, func(b rollout.BatchPreview) bool {
		return len(b.Replicas) > 1 || b.Partition == nil && len(b.Replicas) > 0
	}) {
		columns = append(columns, Column[rollout.BatchPreview]{Head: "REPLICAS", Cell: func(b rollout.BatchPreview) string { return sizes(b.Replicas) }})
	}
	b.WriteString(TableOf(batches, columns).Text(style))
	line := func(when, what string, all []string) {
		if len(all) > 0 {
			fmt.Fprintf(&b, "%s  %s: %s\n", when, what, strings.Join(all, ", "))
		}
	}
	for _, batch := range batches {
		hooks, first := split(batch.Webhooks, rollout.InitializeHook)
		hooks, last := split(hooks, rollout.FinalizeHook)
		line("before the first batch", "webhooks", first)
		for _, more := range []struct {
			what string
			all  []string
		}{
			{"stops", batch.Stops},
			{"handover", batch.Handovers},
			{"gates", batch.Gates},
			{"webhooks", hooks},
			{"metrics", batch.Metrics},
		} {
			line("batch "+strconv.Itoa(batch.Index), more.what, more.all)
		}
		line("after the last batch", "webhooks", last)
		for _, w := range batch.Warnings {
			fmt.Fprintf(&b, "warning: %s\n", w)
		}
	}
	return b.String()
}

// split takes the hooks of a type out of a list of types and names.
func split(hooks []string, of rollout.HookType) (others, those []string) {
	for _, h := range hooks {
		if strings.HasPrefix(h, string(of)+" ") {
			those = append(those, h)
		} else {
			others = append(others, h)
		}
	}
	return others, those
}

// sizes are the replicas of each workload: web-v1 2, web-v2 3.
func sizes(replicas map[string]int) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(replicas)) {
		all = append(all, name+" "+strconv.Itoa(replicas[name]))
	}
	return strings.Join(all, ", ")
}

// partition is that of the workload; the full hold, under which single pods are deleted, has a word.
func partition(n *int) string {
	if n != nil && *n == rollout.HoldAll {
		return "all held"
	}
	return optional(n)
}

func optional(n *int) string {
	if n == nil {
		return "-"
	}
	return strconv.Itoa(*n)
}

// podsText names the pods: all of them up to four, otherwise the first and the last.
func podsText(pods []rollout.PodPreview) string {
	var names []string
	for _, p := range pods {
		name := p.Name
		if p.Ordinal < 0 { // the workload chooses them
			continue
		}
		if detail := strings.Trim(p.Role+" "+p.Zone, " "); detail != "" {
			name += " (" + detail + ")"
		}
		names = append(names, name)
	}
	switch {
	case len(pods) == 0:
		return "-"
	case len(names) == 0:
		return strconv.Itoa(len(pods)) + " of its choice"
	case len(names) > 4:
		names = slices.Concat(names[:2], []string{"…"}, names[len(names)-1:])
	}
	return strings.Join(names, " ")
}
