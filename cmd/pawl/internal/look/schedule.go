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

// upcoming is the number of next ticks that describe shows.
const upcoming = 5

// scheduleView is what describe tells of a schedule.
type scheduleView struct {
	Object control.Object `json:"object"`
	Next   []time.Time    `json:"next"`             // ticks; each begins Offset later
	Offset string         `json:"offset,omitempty"` // a duration; empty: none
	Runs   []view.Run     `json:"runs"`

	timetable *schedule.Timetable
	status    schedule.Status
	offset    time.Duration
}

// scheduleOf reads a schedule. A spec or status that cannot be read leaves out what it would tell.
func scheduleOf(o control.Object, now time.Time) scheduleView {
	v := scheduleView{Object: o, Next: []time.Time{}}
	v.status, _ = schedule.StatusOf(o)
	timetable, err := schedule.Parse(o.Spec)
	if err != nil {
		return v
	}
	v.timetable, v.offset = timetable, timetable.Offset(o.UID)
	if v.offset > 0 {
		v.Offset = v.offset.String()
	}
	if paused(o) {
		return v
	}
	from := now.Add(-v.offset)
	if v.status.Through.After(from) {
		from = v.status.Through
	}
	v.Next = append(v.Next, timetable.Upcoming(from, upcoming)...)
	return v
}

func paused(o control.Object) bool {
	_, is := o.Annotations[schedule.PauseAnnotation]
	return is
}

// when is the calendar in one word or six.
func (v scheduleView) when() string {
	t := v.timetable
	switch {
	case t == nil || t.Cron == "" && t.Interval == "":
		return ""
	case t.Interval != "":
		return "every " + t.Interval
	case t.TimeZone == "":
		return t.Cron + " UTC"
	}
	return t.Cron + " " + t.TimeZone
}

func (v scheduleView) state() string {
	if paused(v.Object) {
		return schedule.StatePaused
	}
	return v.status.State
}

func scheduleTable(objects []control.Object, now time.Time) view.Table {
	rows := make([]scheduleView, len(objects))
	for i, o := range objects {
		rows[i] = scheduleOf(o, now)
		if rows[i].timetable == nil {
			rows[i].timetable = &schedule.Timetable{}
		}
	}
	return view.TableOf(rows, []view.Column[scheduleView]{
		{Head: "NAMESPACE", Cell: func(v scheduleView) string { return v.Object.Namespace }},
		{Head: "NAME", Cell: func(v scheduleView) string { return v.Object.Name }},
		{Head: "WHEN", Cell: scheduleView.when},
		{Head: "FLOW", Cell: func(v scheduleView) string { return v.timetable.Flow }},
		{Head: "STATE", Cell: scheduleView.state, Health: scheduleView.health},
		{Head: "LAST", Cell: func(v scheduleView) string {
			if len(v.status.Recent) == 0 {
				return ""
			}
			return v.status.Recent[0].Tick.UTC().Format(time.RFC3339)
		}},
		{Head: "NEXT", Cell: func(v scheduleView) string {
			if len(v.Next) == 0 {
				return ""
			}
			return v.Next[0].Format(time.RFC3339)
		}},
		{Head: "AGE", Cell: func(v scheduleView) string { return view.Age(now.Sub(v.Object.CreatedAt)) }},
		{Head: "OVERLAP", Wide: true, Cell: func(v scheduleView) string { return string(v.timetable.Overlap) }},
		{Head: "RUNS", Wide: true, Cell: func(v scheduleView) string { return strconv.FormatInt(v.status.Started, 10) }},
		{Head: "SKIPPED", Wide: true, Cell: func(v scheduleView) string { return strconv.FormatInt(v.status.Skipped, 10) }},
		{Head: "FAULT", Wide: true, Cell: func(v scheduleView) string {
			if v.status.Fault == nil {
				return ""
			}
			return string(v.status.Fault.Code)
		}},
	})
}

func (v scheduleView) health() view.Health {
	if v.status.Fault != nil {
		return view.Degraded
	}
	return view.HealthOf(v.state())
}

func (a verbs) describeSchedule(ctx context.Context, b backend.Backend, o control.Object) error {
	now := nowOf(b)
	v := scheduleOf(o, now)
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
	o, s := v.Object, v.status
	line("Schedule", o.Ref.String())
	state := style.Health(v.health(), v.state())
	if why := o.Annotations[schedule.PauseAnnotation]; why != "" {
		state += ": " + why
	}
	line("State", state)
	line("When", v.when())
	if t := v.timetable; t != nil {
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
		fmt.Fprintf(&b, "  %s\n", at.In(v.timetable.Zone()).Format("Mon 2006-01-02T15:04:05Z07:00"))
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
