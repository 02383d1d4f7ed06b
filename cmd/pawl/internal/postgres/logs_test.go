package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// logOf is a source of lines: each waits for its delay first; with follow it then goes on in silence.
func logOf(id string, fails error, lines ...string) source {
	return source{name: "orders-" + id, id: id, read: func(ctx context.Context, o logOptions, emit func([]byte)) error {
		for _, line := range lines {
			if wait, err := time.ParseDuration(line); err == nil {
				time.Sleep(wait)
				continue
			}
			emit([]byte(line))
		}
		if o.follow {
			<-ctx.Done()
		}
		return fails
	}}
}

func at(second string) string {
	return `{"time":"2026-11-26T12:00:` + second + `Z","msg":"` + second + `"}`
}

// printed returns the messages in the order in which they were emitted.
func printed(ctx context.Context, t *testing.T, o logOptions, sources ...source) (messages string, failed int, err error) {
	t.Helper()
	var all []string
	err = readLogs(ctx, sources, o, func(e entry) error {
		var m struct{ Msg, ID, Instance string }
		if err := json.Unmarshal(e.line, &m); err != nil || m.Instance != "orders-"+m.ID {
			t.Errorf("%s: %v", e.line, err)
		}
		all = append(all, m.ID+":"+m.Msg)
		return nil
	}, func(source, error) { failed++ })
	return strings.Join(all, " "), failed, err
}

func TestLogsAreMergedByTime(t *testing.T) {
	for _, test := range []struct {
		name    string
		sources []source
		want    string
		failed  int
		fails   bool
	}{
		{"in turn", []source{logOf("1", nil, at("01"), at("04")), logOf("2", nil, at("02"), at("03"))}, "1:01 2:02 2:03 1:04", 0, false},
		{"a slow one", []source{logOf("1", nil, "5s", at("01")), logOf("2", nil, at("02"))}, "1:01 2:02", 0, false},
		{"not in order itself", []source{logOf("1", nil, at("05"), at("01")), logOf("2", nil, at("02"))}, "1:01 2:02 1:05", 0, false},
		{"a crash", []source{logOf("1", nil, at("01"), "panic: no", "goroutine 1"), logOf("2", nil, at("02"))}, "1:01 1:panic: no 1:goroutine 1 2:02", 0, false},
		{"an empty one", []source{logOf("1", nil), logOf("2", nil, at("02"))}, "2:02", 0, false},
		{"one that fails", []source{logOf("1", errors.New("no")), logOf("2", nil, at("02"))}, "2:02", 1, false},
		{"all fail", []source{logOf("1", errors.New("no"))}, "", 1, true},
		{"none", nil, "", 0, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got, failed, err := printed(t.Context(), t, logOptions{}, test.sources...)
				if got != test.want || failed != test.failed || (err != nil) != test.fails {
					t.Errorf("%s, %d failed, %v; want %s", got, failed, err, test.want)
				}
			})
		})
	}
}

// A log that is followed does not wait for ever for one that is silent, and ends with the context.
func TestFollowedLogs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		got, failed, err := printed(ctx, t, logOptions{follow: true}, logOf("1", nil, at("02"), "1s", at("05")), logOf("2", nil, at("01"), "10s", at("11")), logOf("3", nil))
		if got != "2:01 1:02 1:05 2:11" || failed != 0 || err != nil {
			t.Errorf("%s, %d, %v", got, failed, err)
		}
	})
}

func TestTextBecomesJSON(t *testing.T) {
	for in, want := range map[string]string{
		`time=2026-11-26T12:00:00.000Z level=INFO msg="a \"b\"" epoch=1 err="x=y"`: `{"time":"2026-11-26T12:00:00.000Z","level":"INFO","msg":"a \"b\"","epoch":"1","err":"x=y"}`,
		`time=2026-11-26T12:00:00.000Z msg=`:                                       `{"time":"2026-11-26T12:00:00.000Z","msg":""}`,
		`panic: x = y`:                                                             `{"msg":"panic: x = y"}`,
		`PGDATA=/data is not there`:                                                `{"msg":"PGDATA=/data is not there"}`,
		`time=1 "quoted" without key`:                                              `{"msg":"time=1 \"quoted\" without key"}`,
	} {
		if got := string(jsonOfText(in)); got != want {
			t.Errorf("%s\n got %s\nwant %s", in, got, want)
		}
	}
}

func TestLineHasItsInstance(t *testing.T) {
	s := source{name: "orders-1-aaaaa", id: "1"}
	for in, want := range map[string]string{
		`{"msg":"a"}`: `{"id":"1","instance":"orders-1-aaaaa","msg":"a"}`,
		`{}`:          `{"id":"1","instance":"orders-1-aaaaa"}`,
		`{"instance":"other","logger":"postgres"}`: `{"id":"1","instance":"other","logger":"postgres"}`,
		`{broken`: `{"id":"1","instance":"orders-1-aaaaa","msg":"{broken"}`,
	} {
		if got := string(parseLine([]byte(in), s, time.Time{}).line); got != want {
			t.Errorf("%s: got %s, not %s", in, got, want)
		}
	}
}
