package view

import (
	"time"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/schedule"
)

// upcoming is the number of next ticks in a Schedule.
const upcoming = 5

// Schedule is a schedule with what its calendar says.
type Schedule struct {
	Object control.Object `json:"object"`
	State  string         `json:"state,omitempty" doc:"Active, Paused or Invalid; absent: no server has read it yet"`
	When   string         `json:"when,omitempty" doc:"its calendar in a few words" example:"30 1 * * * Europe/Berlin"`
	Next   []time.Time    `json:"next" doc:"the next ticks, at most 5; each begins offset later. None while it is paused"`
	Offset string         `json:"offset,omitempty" doc:"a duration; absent: none"`

	Timetable *schedule.Timetable `json:"-"` // nil: the spec cannot be read
	Status    schedule.Status     `json:"-"`
}

// OfSchedule returns a schedule as it is at a time. A spec or status that cannot be read leaves out what it would tell.
func OfSchedule(o control.Object, now time.Time) Schedule {
	v := Schedule{Object: o, Next: []time.Time{}}
	v.Status, _ = schedule.StatusOf(o)
	v.State = v.Status.State
	paused := schedule.Paused(o)
	switch {
	case paused:
		v.State = schedule.StatePaused
	case v.State == schedule.StatePaused: // no server has seen yet that the pause has ended
		v.State = schedule.StateActive
	}
	t, err := schedule.Parse(o.Spec)
	if err != nil {
		return v
	}
	v.Timetable, v.When = t, whenOf(t)
	offset := t.Offset(o.UID)
	if offset > 0 {
		v.Offset = offset.String()
	}
	if paused {
		return v
	}
	from := now.Add(-offset)
	if v.Status.Through.After(from) {
		from = v.Status.Through
	}
	v.Next = append(v.Next, t.Upcoming(from, upcoming)...)
	return v
}

func whenOf(t *schedule.Timetable) string {
	switch {
	case t.Interval != "":
		return "every " + t.Interval
	case t.TimeZone == "":
		return t.Cron + " UTC"
	}
	return t.Cron + " " + t.TimeZone
}

// Health returns whether somebody should look at the schedule.
func (v Schedule) Health() Health {
	if v.Status.Fault != nil {
		return Degraded
	}
	return HealthOf(v.State)
}
