package schedule

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	_ "time/tzdata" // a server knows its time zones on any machine

	"github.com/robfig/cron/v3"
)

// Kind is the kind of the objects.
const Kind = "Schedule"

// Overlap says what a tick does while an earlier run of its schedule has not ended.
type Overlap string

// The values of Spec.Overlap.
const (
	Skip    Overlap = "skip"    // the tick has no run
	Queue   Overlap = "queue"   // its run begins when the earlier ones have ended
	Replace Overlap = "replace" // the earlier runs are cancelled with drop, then its run begins
)

// Limits of a spec.
const (
	DefaultCatchUp = 1
	MaxCatchUp     = 100 // as many runs of one subject can be queued
	MinInterval    = time.Second
)

// Spec is the spec of a schedule.
type Spec struct {
	Cron     string          `json:"cron,omitempty"`     // minute, hour, day of month, month, day of week, or @daily and its like; this or Interval
	Interval string          `json:"interval,omitempty"` // a duration: ticks at its multiples since 1970-01-01 UTC
	TimeZone string          `json:"timeZone,omitempty"` // of Cron and Except, by its IANA name; default UTC
	Except   []string        `json:"except,omitempty"`   // days without ticks: 2026-12-24, 2026-12-24/2027-01-02, or each year 12-24
	Flow     string          `json:"flow"`
	Subject  string          `json:"subject,omitempty"` // of the runs; default: the schedule itself
	Input    json.RawMessage `json:"input,omitempty"`
	Overlap  Overlap         `json:"overlap,omitempty"` // default Skip
	CatchUp  *int            `json:"catchUp,omitempty"` // ticks that are made up for after an outage, the newest ones; default 1
	Spread   string          `json:"spread,omitempty"`  // each schedule begins its ticks later by a share of this duration; default 0
}

// Timetable is a checked spec.
type Timetable struct {
	Spec
	zone     *time.Location
	spread   time.Duration
	catchUp  int
	interval time.Duration
	cron     *cron.SpecSchedule
	except   []exception
}

// Zone returns the time zone of the calendar.
func (t *Timetable) Zone() *time.Location { return t.zone }

// Problem is a finding at a path of the spec.
type Problem struct {
	path []string
	what string
}

// Path returns the path within the spec. A loader uses it to find the line.
func (p Problem) Path() []string { return p.path }

func (p Problem) Error() string {
	if len(p.path) == 0 {
		return p.what
	}
	return strings.Join(p.path, ".") + ": " + p.what
}

// Parse checks a spec. The error joins all findings, each a Problem.
func Parse(raw json.RawMessage) (*Timetable, error) {
	r := specReader{t: &Timetable{zone: time.UTC, catchUp: DefaultCatchUp}}
	r.read(raw)
	return r.t, errors.Join(r.problems...)
}

type specReader struct {
	t        *Timetable
	problems []error
}

func (r *specReader) wrong(path, format string, args ...any) {
	p := Problem{what: fmt.Sprintf(format, args...)}
	if path != "" {
		p.path = strings.Split(path, ".")
	}
	r.problems = append(r.problems, p)
}

func (r *specReader) read(raw json.RawMessage) {
	var fields map[string]json.RawMessage
	if len(raw) == 0 {
		raw = json.RawMessage("{}")
	}
	if err := json.Unmarshal(raw, &fields); err != nil {
		r.wrong("", "it is no mapping")
		return
	}
	s := &r.t.Spec
	known := map[string]any{
		"cron": &s.Cron, "interval": &s.Interval, "timeZone": &s.TimeZone, "except": &s.Except, "flow": &s.Flow,
		"subject": &s.Subject, "input": &s.Input, "overlap": &s.Overlap, "catchUp": &s.CatchUp, "spread": &s.Spread,
	}
	for key, value := range fields {
		into, ok := known[key]
		if !ok {
			r.wrong(key, "unknown key")
		} else if err := json.Unmarshal(value, into); err != nil {
			r.wrong(key, "%s", wantedType(key))
		}
	}
	slices.SortFunc(r.problems, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	if len(r.problems) > 0 {
		return
	}
	r.calendar()
	if s.Flow == "" {
		r.wrong("flow", "it is missing: name the flow of the runs")
	}
	if strings.Count(s.Subject, "/") < 2 && s.Subject != "" {
		r.wrong("subject", "%q is not kind/namespace/name", s.Subject)
	}
	if in := bytes.TrimSpace(s.Input); len(in) > 0 && in[0] != '{' && string(in) != "null" {
		r.wrong("input", "it is no mapping")
	}
	switch s.Overlap {
	case "":
		s.Overlap = Skip
	case Skip, Queue, Replace:
	default:
		r.wrong("overlap", "%q is not skip, queue or replace", s.Overlap)
	}
	if s.CatchUp != nil {
		if r.t.catchUp = *s.CatchUp; r.t.catchUp < 0 || r.t.catchUp > MaxCatchUp {
			r.wrong("catchUp", "it is a number from 0 to %d", MaxCatchUp)
		}
	}
	r.t.spread = r.duration("spread", s.Spread)
}

func wantedType(key string) string {
	switch key {
	case "except":
		return "it is a list of days in quotation marks"
	case "catchUp":
		return fmt.Sprintf("it is a whole number from 0 to %d", MaxCatchUp)
	}
	return "it is a text: put it in quotation marks"
}

// calendar reads what says when the ticks are.
func (r *specReader) calendar() {
	s := &r.t.Spec
	zone, err := time.LoadLocation(s.TimeZone)
	if err != nil || s.TimeZone == "Local" {
		r.wrong("timeZone", "there is no time zone %q: use a name as Europe/Berlin or UTC", s.TimeZone)
		zone = time.UTC
	}
	r.t.zone = zone
	switch {
	case s.Cron != "" && s.Interval != "":
		r.wrong("interval", "a schedule has cron or interval, not both")
	case s.Cron == "" && s.Interval == "":
		r.wrong("", "cron or interval is missing")
	case s.Interval != "":
		if r.t.interval = r.duration("interval", s.Interval); len(r.problems) == 0 && r.t.interval < MinInterval {
			r.wrong("interval", "it is at least %s", MinInterval)
		}
	default:
		r.cron(s.Cron)
	}
	for i, text := range s.Except {
		e, err := parseException(text)
		if err != nil {
			r.wrong(fmt.Sprintf("except.%d", i), "%v", err)
		}
		r.t.except = append(r.t.except, e)
	}
}

var cronParser = cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)

func (r *specReader) cron(text string) {
	switch {
	case strings.Contains(text, "TZ="):
		r.wrong("cron", "the time zone has a field of its own: timeZone")
		return
	case strings.HasPrefix(text, "@every"):
		r.wrong("cron", "use interval in place of @every")
		return
	}
	parsed, err := cronParser.Parse(text)
	if err != nil {
		r.wrong("cron", "%q is not minute, hour, day of month, month and day of week: %v", text, err)
		return
	}
	r.t.cron = parsed.(*cron.SpecSchedule) // all but @every are
	r.t.cron.Location = time.Local         // the location of the time that Next is given
	// Five years without a tick are where the parser's search ends.
	if r.t.cron.Next(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		r.wrong("cron", "%q is never: there is no such day", text)
	}
}

func (r *specReader) duration(path, text string) time.Duration {
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		r.wrong(path, "%q is no duration: write 90s, 15m or 24h", text)
	}
	return d
}
