package schedule

import (
	"fmt"
	"hash/fnv"
	"strings"
	"time"
)

// exception is a range of days without ticks, ends included: as yyyymmdd, or with yearly as mmdd.
type exception struct {
	from, to int
	yearly   bool
}

func parseException(text string) (exception, error) {
	// YAML reads a bare 2026-12-24 as a time of day.
	text = strings.ReplaceAll(text, "T00:00:00Z", "")
	if day, err := time.Parse("01-02", text); err == nil {
		return exception{from: dateOf(day) % 10000, to: dateOf(day) % 10000, yearly: true}, nil
	}
	if text == "02-29" { // the year 0 of the parser has one, others need not
		return exception{from: 229, to: 229, yearly: true}, nil
	}
	first, last, ranged := strings.Cut(text, "/")
	if !ranged {
		last = first
	}
	from, err1 := time.Parse(time.DateOnly, first)
	to, err2 := time.Parse(time.DateOnly, last)
	switch {
	case err1 != nil || err2 != nil:
		return exception{}, fmt.Errorf("%q is no day: write 2026-12-24, 2026-12-24/2027-01-02, or 12-24 for each year", text)
	case to.Before(from):
		return exception{}, fmt.Errorf("%q ends before it begins", text)
	}
	return exception{from: dateOf(from), to: dateOf(to)}, nil
}

func dateOf(t time.Time) int {
	y, m, d := t.Date()
	return y*10000 + int(m)*100 + d
}

func (e exception) holds(t time.Time) bool {
	day := dateOf(t)
	if e.yearly {
		day %= 10000
	}
	return e.from <= day && day <= e.to
}

// mostExcepted is the number of excepted days in a row after which a calendar counts as ended.
const mostExcepted = 4000

// Next returns the first tick after a time. Zero: there is none.
func (t *Timetable) Next(after time.Time) time.Time {
	for range mostExcepted {
		at := t.next(after)
		if at.IsZero() || !t.excepted(at) {
			return at.UTC()
		}
		local := at.In(t.zone)
		after = time.Date(local.Year(), local.Month(), local.Day()+1, 0, 0, 0, -1, t.zone)
		if after.Before(at) { // the day ends in a gap
			after = at
		}
	}
	return time.Time{}
}

func (t *Timetable) excepted(at time.Time) bool {
	for _, e := range t.except {
		if e.holds(at.In(t.zone)) {
			return true
		}
	}
	return false
}

// next is Next without exceptions.
//
// A cron with the hour * follows the time that passes: an hour that happens twice has its ticks
// twice, one that is left out has none. All others follow the clock on the wall: what happens
// twice is a tick the first time, what is left out is a tick at the end of the gap. So a daily
// tick happens once on each day.
func (t *Timetable) next(after time.Time) time.Time {
	if t.interval > 0 {
		return intervalNext(after, t.interval)
	}
	const star = 1 << 63
	if t.cron.Hour&star != 0 {
		return t.cron.Next(after.In(t.zone))
	}
	local := after.In(t.zone)
	_, offset := local.Zone()
	wall := after.UTC().Add(time.Duration(offset) * time.Second)
	for {
		if wall = t.cron.Next(wall); wall.IsZero() {
			return wall
		}
		if at := instantOf(wall, t.zone); at.After(after) {
			return at
		}
	}
}

// intervalNext returns the first multiple of an interval after a time.
func intervalNext(after time.Time, every time.Duration) time.Time {
	n := after.UnixNano() / int64(every)
	at := time.Unix(0, n*int64(every))
	for !at.After(after) {
		at = at.Add(every)
	}
	return at
}

// instantOf returns the first instant at which clocks of a zone show a time, or the end of the
// gap that leaves it out. The time is given as if it were UTC.
func instantOf(wall time.Time, zone *time.Location) time.Time {
	at := time.Date(wall.Year(), wall.Month(), wall.Day(), wall.Hour(), wall.Minute(), wall.Second(), 0, zone)
	start, end := at.ZoneBounds()
	shown := func(t time.Time) time.Time {
		_, offset := t.Zone()
		return t.UTC().Add(time.Duration(offset) * time.Second)
	}
	switch is := shown(at); {
	case is.After(wall):
		return start
	case is.Before(wall):
		return end
	case start.IsZero():
		return at
	}
	_, before := start.Add(-time.Nanosecond).Zone()
	_, offset := at.Zone()
	earlier := at.Add(time.Duration(offset-before) * time.Second)
	if earlier.Before(start) && shown(earlier.In(zone)).Equal(wall) {
		return earlier
	}
	return at
}

// Offset is how long after its ticks a schedule begins: a share of the spread that depends on its uid.
func (t *Timetable) Offset(uid string) time.Duration {
	if t.spread <= 0 {
		return 0
	}
	h := fnv.New64a()
	h.Write([]byte(uid))
	// The low bits of FNV are well mixed; whole milliseconds read better.
	return time.Duration(h.Sum64()%uint64(max(1, t.spread.Milliseconds()))) * time.Millisecond
}

// Upcoming returns the next ticks after a time, at most n.
func (t *Timetable) Upcoming(after time.Time, n int) []time.Time {
	var all []time.Time
	for range n {
		if after = t.Next(after); after.IsZero() {
			break
		}
		all = append(all, after)
	}
	return all
}

// Between returns the ticks from a time through another, at most n, and whether there are more.
func (t *Timetable) Between(from, to time.Time, n int) (ticks []time.Time, more bool) {
	for at := t.Next(from.Add(-time.Nanosecond)); !at.IsZero() && !at.After(to); at = t.Next(at) {
		if len(ticks) == n {
			return ticks, true
		}
		ticks = append(ticks, at)
	}
	return ticks, false
}

// mostCounted is the number of due ticks up to which they are counted one by one.
const mostCounted = 1000

// due returns the ticks after through until a time. If there are more than mostCounted, it returns
// the newest ones, at least keep, and the first; the ones between were not counted.
func (t *Timetable) due(through, until time.Time, keep int) (ticks []time.Time, first time.Time) {
	ticks, more := t.Between(through.Add(time.Nanosecond), until, mostCounted)
	if !more {
		return ticks, time.Time{}
	}
	first = ticks[0]
	for window := time.Minute; ; window *= 2 {
		from := until.Add(-window)
		if newest, more := t.Between(from, until, mostCounted); more || len(newest) > keep {
			return newest, first
		}
	}
}
