package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
)

// logOf is a source of lines: each waits for its delay first; with follow it then goes on in silence.
func logOf(id string, fails error, lines ...string) source {
	return source{key: id, name: "orders-" + id, id: id, read: func(ctx context.Context, o logOptions, emit func([]byte)) error {
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
func printed(ctx context.Context, t *testing.T, sources ...source) (messages string, failed int, err error) {
	t.Helper()
	var all []string
	err = readLogs(ctx, sources, logOptions{}, collect(t, &all), func(source, error) { failed++ })
	return strings.Join(all, " "), failed, err
}

func collect(t *testing.T, all *[]string) func(entry) error {
	return func(e entry) error {
		var m struct{ Msg, ID, Instance string }
		if err := json.Unmarshal(e.line, &m); err != nil || m.Instance != "orders-"+m.ID {
			t.Errorf("%s: %v", e.line, err)
		}
		*all = append(*all, m.ID+":"+m.Msg)
		return nil
	}
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
				got, failed, err := printed(t.Context(), t, test.sources...)
				if got != test.want || failed != test.failed || (err != nil) != test.fails {
					t.Errorf("%s, %d failed, %v; want %s", got, failed, err, test.want)
				}
			})
		})
	}
}

// followed returns what is emitted within a minute, and which failures were told. From the nth look on, the
// sources are those of looks[n], at last the last ones.
func followed(t *testing.T, looks ...[]source) (messages string, told []string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	looked := 0
	look := func(context.Context) ([]source, error) {
		looked++
		return looks[min(looked, len(looks)-1)], nil
	}
	var all []string
	err = followLogs(ctx, looks[0], look, logOptions{follow: true}, collect(t, &all), func(s source, err error) { told = append(told, s.id+":"+fault.Message(err)) })
	if errors.Is(err, context.DeadlineExceeded) {
		err = nil
	}
	return strings.Join(all, " "), told, err
}

// ending is a log that ends, as that of a pod that goes, or fails, at the nth reading.
func ending(id string, readings ...func(emit func([]byte)) error) source {
	n := 0
	return source{key: id, name: "orders-" + id, id: id, read: func(ctx context.Context, _ logOptions, emit func([]byte)) error {
		n++
		if n > len(readings) {
			<-ctx.Done()
			return nil
		}
		return readings[n-1](emit)
	}}
}

func lines(all ...string) func(func([]byte)) error {
	return func(emit func([]byte)) error {
		for _, line := range all {
			emit([]byte(line))
		}
		return nil
	}
}

func failing(err error) func(func([]byte)) error { return func(func([]byte)) error { return err } }

// A log that is followed does not wait for ever for one that is silent, an instance that comes later and a pod
// that is made anew are followed too, and each line is emitted once.
func TestFollowedLogs(t *testing.T) {
	gone := control.NotFound.Errorf("pods orders-1 not found")
	denied := Unreachable.Errorf("pods/log is forbidden")
	for _, test := range []struct {
		name  string
		looks [][]source
		want  string
		told  []string
		err   error
	}{
		{"silent ones", [][]source{{logOf("1", nil, at("02"), "1s", at("05")), logOf("2", nil, at("01"), "10s", at("11")), logOf("3", nil)}}, "2:01 1:02 1:05 2:11", nil, nil},
		{"one that comes later", [][]source{{logOf("1", nil, at("01"))}, {logOf("1", nil, at("01")), logOf("2", nil, at("04"))}}, "1:01 2:04", nil, nil},
		{"one that goes", [][]source{{logOf("1", nil, at("01")), logOf("2", nil, at("02"), "30s", at("30"))}, {logOf("1", nil, at("01"))}}, "1:01 2:02 2:30", nil, nil},
		{"a pod that is made anew", [][]source{{ending("1", lines(at("01"), at("02")), failing(gone), failing(gone), lines(at("07")))}}, "1:01 1:02 1:07", []string{"1:pods orders-1 not found"}, nil},
		{"a connection that is lost", [][]source{{ending("1", lines(at("01"), at("02")), lines(at("01"), at("02"), at("03")))}}, "1:01 1:02 1:03", nil, nil},
		{"a log that is not in order itself", [][]source{{ending("1", lines(at("01"), at("05"), at("02")), lines(at("01"), at("05"), at("02"), at("06")))}}, "1:01 1:05 1:02 1:06", nil, nil},
		{"a container that crashes at once", [][]source{{ending("1", lines(at("01")), lines("panic: no"))}}, "1:01 1:panic: no", nil, nil},
		{"a pod that does not run yet", [][]source{{ending("1", failing(gone), lines(at("03")))}}, "1:03", []string{"1:pods orders-1 not found"}, nil},
		{"no right to read any", [][]source{{ending("1", failing(denied)), ending("2", failing(denied))}}, "", []string{"1:pods/log is forbidden", "2:pods/log is forbidden"}, denied},
		{"no right to read one", [][]source{{ending("1", failing(denied)), logOf("2", nil, at("01"))}}, "2:01", []string{"1:pods/log is forbidden"}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got, told, err := followed(t, test.looks...)
				slices.Sort(told)
				if got != test.want || !slices.Equal(told, test.told) || !errors.Is(err, test.err) {
					t.Errorf("%s, told %q, %v; want %s, %q, %v", got, told, err, test.want, test.told, test.err)
				}
			})
		})
	}
}

// A log that never pauses is printed line by line beside one that is silent.
func TestABusyLogBesideASilentOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		var busy []string
		for n := range 50 {
			busy = append(busy, "100ms", at(fmt.Sprintf("%02d", n)))
		}
		sources, began, seen := []source{logOf("1", nil, busy...), logOf("2", nil)}, time.Now(), 0
		_ = followLogs(ctx, sources, func(context.Context) ([]source, error) { return sources, nil }, logOptions{follow: true}, func(entry) error {
			came := time.Duration(seen+1) * 100 * time.Millisecond
			if late := time.Since(began) - came; late > 2*mergeHold {
				t.Errorf("line %d is printed after %s", seen, late)
			}
			seen++
			return nil
		}, func(source, error) {})
		if seen != 50 {
			t.Errorf("%d lines of 50", seen)
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
