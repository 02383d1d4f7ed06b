package schedule

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func timetable(t testing.TB, spec string) *Timetable {
	t.Helper()
	tt, err := Parse(json.RawMessage(spec))
	if err != nil {
		t.Fatal(err)
	}
	return tt
}

func at(t testing.TB, text string) time.Time {
	t.Helper()
	v, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestUpcoming(t *testing.T) {
	for _, c := range []struct{ name, spec, after, want string }{
		{"UTC by default", `{"cron": "30 2 * * *"}`, "2026-01-01T02:30:00Z", "01-02T02:30 01-03T02:30"},
		{"a zone", `{"cron": "30 2 * * *", "timeZone": "Asia/Kolkata"}`, "2026-01-01T00:00:00Z", "01-01T21:00 01-02T21:00"},
		{"a name", `{"cron": "@monthly"}`, "2026-01-01T00:00:00Z", "02-01T00:00 03-01T00:00"},
		{"a daily tick in the gap is at its end", `{"cron": "30 2 * * *", "timeZone": "Europe/Berlin"}`, "2026-03-28T00:00:00Z", "03-28T01:30 03-29T01:00 03-30T00:30"},
		{"two in the gap are one", `{"cron": "0,30 2 * * *", "timeZone": "Europe/Berlin"}`, "2026-03-28T01:30:00Z", "03-29T01:00 03-30T00:00"},
		{"a daily tick of a doubled hour is the first", `{"cron": "30 2 * * *", "timeZone": "Europe/Berlin"}`, "2026-10-24T12:00:00Z", "10-25T00:30 10-26T01:30"},
		{"from within the second pass", `{"cron": "30 2 * * *", "timeZone": "Europe/Berlin"}`, "2026-10-25T01:10:00Z", "10-26T01:30"},
		{"each hour follows the time that passes: gap", `{"cron": "30 * * * *", "timeZone": "Europe/Berlin"}`, "2026-03-29T00:00:00Z", "03-29T00:30 03-29T01:30"},
		{"each hour follows the time that passes: double", `{"cron": "30 * * * *", "timeZone": "Europe/Berlin"}`, "2026-10-25T00:00:00Z", "10-25T00:30 10-25T01:30 10-25T02:30"},
		{"a gap of midnight", `{"cron": "0 0 * * *", "timeZone": "America/Sao_Paulo"}`, "2018-11-03T12:00:00Z", "11-04T03:00 11-05T02:00"},
		{"half an hour", `{"cron": "15 2 * * *", "timeZone": "Australia/Lord_Howe"}`, "2026-10-03T00:00:00Z", "10-03T15:30 10-04T15:15"},
		{"a day that does not exist in each month", `{"cron": "0 0 31 * *"}`, "2026-01-31T00:00:00Z", "03-31T00:00 05-31T00:00"},
		{"interval", `{"interval": "15m"}`, "2026-01-01T00:07:00Z", "01-01T00:15 01-01T00:30"},
		{"interval that divides no day", `{"interval": "7h"}`, "1970-01-01T00:00:00Z", "01-01T07:00 01-01T14:00 01-01T21:00 01-02T04:00"},
		{"a day", `{"cron": "0 12 * * *", "except": ["2026-12-24"]}`, "2026-12-23T00:00:00Z", "12-23T12:00 12-25T12:00"},
		{"a day as YAML reads it", `{"cron": "0 12 * * *", "except": ["2026-12-24T00:00:00Z"]}`, "2026-12-23T13:00:00Z", "12-25T12:00"},
		{"days", `{"cron": "0 12 * * *", "except": ["2026-12-24/2027-01-02"]}`, "2026-12-23T12:00:00Z", "01-03T12:00"},
		{"each year", `{"cron": "0 12 * * *", "except": ["05-01"]}`, "2027-04-30T12:00:00Z", "05-02T12:00"},
		{"29 February", `{"cron": "0 12 * * *", "except": ["02-29"]}`, "2028-02-28T12:00:00Z", "03-01T12:00"},
		{"the day of the zone", `{"cron": "0 1 * * *", "timeZone": "Asia/Tokyo", "except": ["2026-05-01"]}`, "2026-04-30T00:00:00Z", "05-01T16:00"},
		{"each second but a day", `{"interval": "1s", "except": ["2026-05-01/2026-05-31"]}`, "2026-04-30T23:59:59Z", "06-01T00:00"},
		{"no day", `{"cron": "0 0 29 2 *", "except": ["02-29"]}`, "2026-01-01T00:00:00Z", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			tt := timetable(t, strings.Replace(c.spec, "{", `{"flow": "F", `, 1))
			want := strings.Fields(c.want)
			var got []string
			for _, tick := range tt.Upcoming(at(t, c.after), max(1, len(want))) {
				got = append(got, tick.Format("01-02T15:04"))
			}
			if g := strings.Join(got, " "); g != c.want {
				t.Errorf("%s, not %s", g, c.want)
			}
		})
	}
}

func TestProblems(t *testing.T) {
	for _, c := range []struct{ spec, want string }{
		{`{}`, "cron or interval is missing\nflow: it is missing: name the flow of the runs"},
		{`{"flow": "F", "cron": "61 * * * *"}`, `cron: "61 * * * *" is not minute, hour, day of month, month and day of week: end of range (61) above maximum (59): 61`},
		{`{"flow": "F", "cron": "@every 1h"}`, "cron: use interval in place of @every"},
		{`{"flow": "F", "cron": "CRON_TZ=UTC 0 0 * * *"}`, "cron: the time zone has a field of its own: timeZone"},
		{`{"flow": "F", "cron": "0 0 30 2 *"}`, `cron: "0 0 30 2 *" is never: there is no such day`},
		{`{"flow": "F", "cron": "@daily", "timeZone": "Mars/Olympus"}`, `timeZone: there is no time zone "Mars/Olympus": use a name as Europe/Berlin or UTC`},
		{`{"flow": "F", "cron": "@daily", "interval": "1h"}`, "interval: a schedule has cron or interval, not both"},
		{`{"flow": "F", "interval": "1ms"}`, "interval: it is at least 1s"},
		{`{"flow": "F", "interval": "soon"}`, `interval: "soon" is no duration: write 90s, 15m or 24h`},
		{`{"flow": "F", "cron": "@daily", "except": ["2026-12-24", "Christmas"]}`, `except.1: "Christmas" is no day: write 2026-12-24, 2026-12-24/2027-01-02, or 12-24 for each year`},
		{`{"flow": "F", "cron": "@daily", "except": ["2026-12-24/2026-12-23"]}`, `except.0: "2026-12-24/2026-12-23" ends before it begins`},
		{`{"flow": "F", "cron": "@daily", "overlap": "maybe", "catchUp": 101}`, "overlap: \"maybe\" is not skip, queue or replace\ncatchUp: it is a number from 0 to 100"},
		{`{"flow": "F", "cron": "@daily", "catchup": 1}`, "catchup: unknown key"},
		{`{"flow": "F", "cron": 5}`, "cron: it is a text: put it in quotation marks"},
		{`[]`, "it is no mapping"},
	} {
		if _, err := Parse(json.RawMessage(c.spec)); err == nil || err.Error() != c.want {
			t.Errorf("%s\n%v\nnot\n%s", c.spec, err, c.want)
		}
	}
}

// Where a schedule begins later than its ticks, it does so by the same share each time.
func TestOffset(t *testing.T) {
	tt := timetable(t, `{"flow": "F", "interval": "1h", "spread": "10m"}`)
	least, most := time.Hour, time.Duration(0)
	for _, uid := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"} {
		d := tt.Offset(uid)
		if d != tt.Offset(uid) || d < 0 || d >= 10*time.Minute {
			t.Errorf("%s: %v", uid, d)
		}
		least, most = min(least, d), max(most, d)
	}
	if most-least < 3*time.Minute {
		t.Errorf("ten schedules begin within %v", most-least)
	}
}
