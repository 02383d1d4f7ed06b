package look

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/bulk"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// bulkOf reads a bulk. A spec or status that cannot be read leaves out what it would tell.
func bulkOf(o control.Object) (spec bulk.Spec, status bulk.Status) {
	_ = json.Unmarshal(o.Spec, &spec)
	status, _ = bulk.StatusOf(o)
	return spec, status
}

// selected is the selection of a bulk on one line, as the flags that give it.
func selected(s bulk.Spec) string {
	var parts []string
	if s.Flow != "" {
		parts = append(parts, "--flow "+s.Flow)
	}
	if s.Fault != "" {
		parts = append(parts, "--fault "+string(s.Fault))
	}
	if len(s.Phases) > 0 {
		names := make([]string, len(s.Phases))
		for i, p := range s.Phases {
			names[i] = string(p)
		}
		parts = append(parts, "--phase "+strings.Join(names, ","))
	}
	if s.Selector != "" {
		parts = append(parts, "-l "+s.Selector)
	}
	if s.Text != "" {
		parts = append(parts, "--text "+strconv.Quote(s.Text))
	}
	if !s.CreatedAfter.IsZero() {
		parts = append(parts, "--since "+s.CreatedAfter.UTC().Format(time.RFC3339))
	}
	if len(s.IDs) > 0 {
		parts = append(parts, fmt.Sprintf("%d ids", len(s.IDs)))
	}
	return strings.Join(parts, " ")
}

// request is what a bulk asks of each run.
func request(s bulk.Spec) string {
	var parts []string
	for _, p := range []string{string(s.Verb), s.Signal, s.Step, string(s.Mode)} {
		if p != "" {
			parts = append(parts, p)
		}
	}
	if s.From != "" {
		parts = append(parts, "from "+string(s.From))
	}
	if s.Definition != "" {
		parts = append(parts, "on the "+s.Definition+" definition")
	}
	if s.GiveUp {
		parts = append(parts, "and give up what cannot be undone")
	}
	if s.Force {
		parts = append(parts, "by force")
	}
	return strings.Join(parts, " ")
}

func bulkTable(objects []control.Object, now time.Time) view.Table {
	type row struct {
		control.Object
		spec   bulk.Spec
		status bulk.Status
	}
	var rows []row
	newest := slices.SortedStableFunc(slices.Values(objects), func(a, b control.Object) int { return b.CreatedAt.Compare(a.CreatedAt) })
	for _, o := range newest {
		spec, status := bulkOf(o)
		rows = append(rows, row{o, spec, status})
	}
	return view.TableOf(rows, []view.Column[row]{
		{Head: "NAME", Cell: func(r row) string { return r.Name }},
		{Head: "REQUEST", Cell: func(r row) string { return request(r.spec) }},
		{Head: "SELECTION", Cell: func(r row) string { return selected(r.spec) }},
		{Head: "STATE", Cell: func(r row) string { return r.status.State }, Health: func(r row) view.Health { return health(r.status) }},
		{Head: "PLANNED", Cell: func(r row) string { return strconv.Itoa(r.spec.Planned) }},
		{Head: "ACCEPTED", Cell: func(r row) string { return strconv.FormatInt(r.status.Done, 10) }},
		{Head: "REFUSED", Cell: func(r row) string { return strconv.FormatInt(r.status.Refused, 10) }},
		{Head: "BY", Cell: func(r row) string { return r.spec.Actor }},
		{Head: "AGE", Cell: func(r row) string { return view.Age(now.Sub(r.CreatedAt)) }},
		{Head: "STARTED", Wide: true, Cell: func(r row) string { return view.Moment(r.status.StartedAt) }},
		{Head: "ENDED", Wide: true, Cell: func(r row) string { return view.Moment(r.status.EndedAt) }},
		{Head: "REASON", Wide: true, Cell: func(r row) string { return r.spec.Reason }},
	})
}

// health judges the state of a bulk.
func health(s bulk.Status) view.Health {
	switch {
	case s.Fault != nil:
		return view.Degraded
	case s.State == bulk.StateRunning:
		return view.Progressing
	}
	return view.HealthOf(s.State)
}

func (a verbs) describeBulk(o control.Object, now time.Time) error {
	return a.Emit(o, []string{o.Ref.String()}, func() string { return bulkText(o, now, a.Style(a.Out)) })
}

func bulkText(o control.Object, now time.Time, style view.Style) string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		if value := fmt.Sprintf(format, args...); value != "" {
			fmt.Fprintf(&b, "%-9s  %s\n", name, value)
		}
	}
	spec, s := bulkOf(o)
	line("Bulk", "%s", o.Name)
	line("Request", "%s", request(spec))
	line("Selection", "%s", selected(spec))
	if spec.Verb == bulk.VerbSignal {
		line("Data", "%s", spec.Data)
	} else if spec.Verb == runtype.VerbSkip {
		line("Output", "%s", spec.Output)
	}
	line("By", "%s at %s", spec.Actor, o.CreatedAt.UTC().Format(time.RFC3339))
	line("Reason", "%s", spec.Reason)
	state := s.State
	if why := o.Annotations[bulk.PauseAnnotation]; why != "" {
		state = bulk.StatePaused + ": " + why
	}
	line("State", "%s", style.Health(health(s), state))
	if !s.StartedAt.IsZero() {
		until := now
		if !s.EndedAt.IsZero() {
			until = s.EndedAt
		}
		line("Took", "%s", until.Sub(s.StartedAt).Round(100*time.Millisecond))
	}
	line("Runs", "%d planned, %d accepted, %d refused, %d being asked", spec.Planned, s.Done, s.Refused, len(s.Pending))
	if f := s.Fault; f != nil {
		line("Fault", "%s  %s\n           remedy: %s", f.Code, f.Message, strings.ReplaceAll(f.Remedy, "NAME", o.Name))
	}
	for _, r := range s.Refusals {
		fmt.Fprintf(&b, "\nRefused %d  %s\n", r.Count, r.Code)
		if r.Remedy != "" {
			fmt.Fprintf(&b, "  remedy: %s\n", r.Remedy)
		}
		for _, e := range r.Runs {
			fmt.Fprintf(&b, "  %s  %s\n", view.Short(e.Run), e.Message)
		}
		if more := r.Count - int64(len(r.Runs)); more > 0 {
			fmt.Fprintf(&b, "  and %d more\n", more)
		}
	}
	return b.String()
}
