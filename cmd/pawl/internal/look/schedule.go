package look

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/backend"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/schedule"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

// scheduleView is what describe tells of a schedule.
type scheduleView struct {
	view.Schedule
	Runs []view.Run `json:"runs"`
}

func scheduleTable(objects []control.Object, now time.Time) view.Table {
	rows := make([]view.Schedule, len(objects))
	for i, o := range objects {
		rows[i] = view.OfSchedule(o, now)
		if rows[i].Timetable == nil {
			rows[i].Timetable = &schedule.Timetable{}
		}
	}
	return view.TableOf(rows, []view.Column[view.Schedule]{
		{Head: "NAMESPACE", Cell: func(v view.Schedule) string { return v.Object.Namespace }},
		{Head: "NAME", Cell: func(v view.Schedule) string { return v.Object.Name }},
		{Head: "WHEN", Cell: func(v view.Schedule) string { return v.When }},
		{Head: "FLOW", Cell: func(v view.Schedule) string { return v.Timetable.Flow }},
		{Head: "STATE", Cell: func(v view.Schedule) string { return v.State }, Health: view.Schedule.Health},
		{Head: "LAST", Cell: func(v view.Schedule) string {
			if len(v.Status.Recent) == 0 {
				return ""
			}
			return v.Status.Recent[0].Tick.UTC().Format(time.RFC3339)
		}},
		{Head: "NEXT", Cell: func(v view.Schedule) string {
			if len(v.Next) == 0 {
				return ""
			}
			return v.Next[0].Format(time.RFC3339)
		}},
		{Head: "AGE", Cell: func(v view.Schedule) string { return view.Age(now.Sub(v.Object.CreatedAt)) }},
		{Head: "OVERLAP", Wide: true, Cell: func(v view.Schedule) string { return string(v.Timetable.Overlap) }},
		{Head: "RUNS", Wide: true, Cell: func(v view.Schedule) string { return strconv.FormatInt(v.Status.Started, 10) }},
		{Head: "SKIPPED", Wide: true, Cell: func(v view.Schedule) string { return strconv.FormatInt(v.Status.Skipped, 10) }},
		{Head: "FAULT", Wide: true, Cell: func(v view.Schedule) string {
			if v.Status.Fault == nil {
				return ""
			}
			return string(v.Status.Fault.Code)
		}},
	})
}

func (a verbs) describeSchedule(ctx context.Context, b backend.Backend, o control.Object) error {
	now := nowOf(b)
	v := scheduleView{Schedule: view.OfSchedule(o, now)}
	page, err := b.List(ctx, runstore.Query{Limit: 5, Labels: []runstore.LabelTerm{{Key: schedule.LabelSchedule, Value: o.Namespace + "/" + o.Name}}})
	if err != nil {
		return err
	}
	v.Runs = page.Items
	if v.Runs == nil {
		v.Runs = []view.Run{}
	}
	return a.Emit(v, []string{o.Ref.String()}, func() string { return v.text(now, a.Style(a.Out)) })
}

func (v scheduleView) text(now time.Time, style view.Style) string {
	var b strings.Builder
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%-8s  %s\n", name, value)
		}
	}
	o, s := v.Object, v.Status
	line("Schedule", o.Ref.String())
	state := style.Health(v.Health(), v.State)
	if why := o.Annotations[schedule.PauseAnnotation]; why != "" {
		state += ": " + why
	}
	line("State", state)
	line("When", v.When)
	if t := v.Timetable; t != nil {
		line("Except", strings.Join(t.Except, ", "))
		line("Flow", t.Flow)
		line("Input", string(t.Input))
		line("Overlap", string(t.Overlap))
		if t.Spread != "" {
			line("Spread", fmt.Sprintf("begins %s after each tick, of %s", v.Offset, t.Spread))
		}
	}
	line("Ticks", fmt.Sprintf("%d with a run, %d skipped", s.Started, s.Skipped))
	if f := s.Fault; f != nil {
		line("Fault", fmt.Sprintf("%s  %s\n          remedy: %s", f.Code, f.Message, f.Remedy))
	} else if s.Through.Sub(now) > schedule.Grace {
		line("Fault", fmt.Sprintf("%s  through %s\n          remedy: %s", schedule.ClockBehind.Code, s.Through.Format(time.RFC3339), schedule.ClockBehind.Remedy))
	}
	b.WriteString("\nNext\n")
	for _, at := range v.Next {
		fmt.Fprintf(&b, "  %s\n", at.In(v.Timetable.Zone()).Format("Mon 2006-01-02T15:04:05Z07:00"))
	}
	if len(v.Next) == 0 {
		b.WriteString("  none\n")
	}
	b.WriteString("\nLast\n")
	for _, r := range s.Recent {
		fmt.Fprintf(&b, "  %s\n", v.record(r))
	}
	if len(s.Recent) == 0 {
		b.WriteString("  none\n")
	}
	return b.String()
}

// record is what became of a tick, on one line.
func (v scheduleView) record(r schedule.Record) string {
	at := r.Tick.UTC().Format(time.RFC3339)
	if r.Run == "" {
		if !r.Until.IsZero() {
			at += " to " + r.Until.UTC().Format(time.RFC3339)
		}
		if r.Count > 1 {
			at += fmt.Sprintf(" (%d ticks)", r.Count)
		}
		return at + "  skipped: " + r.Reason + ", " + r.Message + remedyOf(r)
	}
	for _, run := range v.Runs {
		if run.ID == r.Run {
			return at + "  run " + view.Short(r.Run) + "  " + string(run.Phase)
		}
	}
	return at + "  run " + view.Short(r.Run)
}

// remedyOf is the remedy of a refused tick.
func remedyOf(r schedule.Record) string {
	code, _, _ := strings.Cut(r.Message, ":")
	if k, known := fault.Lookup(code); r.Reason == schedule.ReasonRefused && known {
		return "\n    remedy: " + k.Remedy
	}
	return ""
}
