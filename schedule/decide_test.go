package schedule

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// text tells a decision on one line: what is pending, what was recorded, and when to look again.
func text(d Decision) string {
	var parts []string
	if p := d.Status.Pending; p != nil {
		for _, tick := range p.Ticks {
			parts = append(parts, "start "+tick.Format("15:04"))
		}
	}
	for _, r := range d.Status.Recent {
		text := r.Reason + " " + r.Tick.Format("15:04")
		if !r.Until.IsZero() {
			text += fmt.Sprintf("-%s(%d)", r.Until.Format("15:04"), r.Count)
		}
		parts = append(parts, text)
	}
	if !d.Next.IsZero() {
		parts = append(parts, "next "+d.Next.Format("15:04:05"))
	}
	if !d.Write {
		parts = append(parts, "no write")
	}
	return strings.Join(parts, ", ")
}

func TestDecide(t *testing.T) {
	const hourly, minutely = `"interval": "1h"`, `"interval": "1m"`
	through := func(clock string) Status {
		return Status{State: StateActive, ObservedGeneration: 1, Through: at(t, "2026-01-01T"+clock+":00Z")}
	}
	for _, c := range []struct {
		name, spec, now string
		f               Facts
		want            string
	}{
		{"not yet", hourly, "10:59:59", Facts{Status: through("10:00")}, "next 11:00:00, no write"},
		{"on time", hourly, "11:00:00", Facts{Status: through("10:00")}, "start 11:00"},
		{"a new schedule begins with its creation", hourly, "10:30:00", Facts{CreatedAt: at(t, "2026-01-01T10:20:00Z")}, "next 11:00:00"},
		{"a tick between creation and the first look", hourly, "11:00:01", Facts{CreatedAt: at(t, "2026-01-01T10:20:00Z")}, "start 11:00"},
		{"the clock went back", hourly, "08:00:00", Facts{Status: through("10:00")}, "next 11:00:00, no write"},
		{"the clock jumped ahead", hourly, "15:30:00", Facts{Status: through("10:00")}, "start 15:00, Missed 11:00-14:00(4)"},
		{"none is made up for", hourly + `, "catchUp": 0`, "12:00:00", Facts{Status: through("10:00")}, "start 12:00, Missed 11:00"},
		{"none is made up for, and none is on time", hourly + `, "catchUp": 0`, "11:02:00", Facts{Status: through("10:00")}, "Missed 11:00, next 12:00:00"},
		{"several are made up for", hourly + `, "catchUp": 3, "overlap": "queue"`, "15:30:00", Facts{Status: through("10:00")}, "start 13:00, start 14:00, start 15:00, Missed 11:00-12:00(2)"},
		{"what is made up for does not overlap", hourly + `, "catchUp": 3`, "15:30:00", Facts{Status: through("10:00")}, "start 15:00, Overlap 13:00-14:00(2), Missed 11:00-12:00(2)"},
		{"what is on time is no catch-up", minutely + `, "catchUp": 0, "overlap": "queue"`, "10:02:00", Facts{Status: through("10:00")}, "start 10:01, start 10:02"},
		{"more than are counted", minutely, "23:59:30", Facts{Status: Status{State: StateActive, ObservedGeneration: 1, Through: at(t, "2025-01-01T00:00:00Z")}}, "start 23:59, Overlap 23:58, Missed 00:01-23:57(0)"},
		{"overlap skip", hourly, "11:00:00", Facts{Status: through("10:00"), Active: "run x is Paused"}, "Overlap 11:00, next 12:00:00"},
		{"overlap queue", hourly + `, "overlap": "queue"`, "11:00:00", Facts{Status: through("10:00"), Active: "run x is Paused"}, "start 11:00"},
		{"overlap replace", hourly + `, "overlap": "replace", "catchUp": 2`, "12:30:00", Facts{Status: through("10:00"), Active: "run x is Paused"}, "start 12:00, Replaced 11:00"},
		{"a pause begins", hourly, "11:00:00", Facts{Status: through("10:00"), Paused: true}, ""},
		{"a pause goes on", hourly, "11:00:00", Facts{Status: Status{State: StatePaused, ObservedGeneration: 1, Through: at(t, "2026-01-01T10:00:00Z"), PausedSince: at(t, "2026-01-01T10:30:00Z")}, Paused: true}, "no write"},
		{"a pause ends, and nothing is made up for", hourly, "13:30:00", Facts{Status: Status{State: StatePaused, ObservedGeneration: 1, Through: at(t, "2026-01-01T10:00:00Z"), PausedSince: at(t, "2026-01-01T10:30:00Z")}}, "next 14:00:00"},
		{"a changed spec counts from now", hourly, "13:30:00", Facts{Status: through("10:00"), Generation: 2}, "next 14:00:00"},
		{"spread", hourly, "11:00:00", Facts{Status: through("10:00"), Offset: 90 * time.Second}, "next 11:01:30, no write"},
		{"spread is not late", hourly + `, "catchUp": 0`, "11:01:30", Facts{Status: through("10:00"), Offset: 90 * time.Second}, "start 11:00"},
		{"pending ticks come first", hourly, "13:00:00", Facts{Status: Status{State: StateActive, ObservedGeneration: 1, Through: at(t, "2026-01-01T11:00:00Z"), Pending: &Pending{Ticks: []time.Time{at(t, "2026-01-01T11:00:00Z")}}}}, "start 11:00, no write"},
		{"a calendar that has ended", `"cron": "0 0 29 2 *", "except": ["02-29"]`, "11:00:00", Facts{Status: through("10:00")}, "no write"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.f.Timetable, c.f.Now = timetable(t, `{"flow": "F", `+c.spec+`}`), at(t, "2026-01-01T"+c.now+"Z")
			if c.f.Generation == 0 {
				c.f.Generation = 1
			}
			d := Decide(c.f)
			if got := text(d); got != c.want {
				t.Errorf("%s\nnot\n%s", got, c.want)
			}
			// What was decided is not decided again.
			if again := (Facts{Timetable: c.f.Timetable, Status: d.Status, Generation: c.f.Generation, Paused: c.f.Paused, Offset: c.f.Offset, Now: c.f.Now}); Decide(again).Write {
				t.Errorf("decided twice: %s, then %s", text(d), text(Decide(again)))
			}
		})
	}
}
