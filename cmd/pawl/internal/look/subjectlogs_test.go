package look

import (
	"bytes"
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/backend"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// printing are runs that have printed, and print more while they are followed.
type printing struct {
	backend.Backend
	runs    []view.Run
	lines   map[string][]view.LogLine
	later   map[string][]view.LogLine
	changes chan struct{}
}

func (p *printing) List(context.Context, runstore.Query) (view.Runs, error) {
	return view.Runs{Items: p.runs}, nil
}

func (p *printing) Changes(context.Context, string) <-chan struct{} { return p.changes }

func (p *printing) Logs(_ context.Context, id string, of backend.LogsOf, emit func([]view.LogLine) error) error {
	lines := p.lines[id]
	if of.Follow {
		lines = append(lines, p.later[id]...)
	}
	var since []view.LogLine
	for _, l := range lines {
		if !l.At.Before(of.Since) {
			since = append(since, l)
		}
	}
	if of.Tail > 0 {
		since = since[max(0, len(since)-of.Tail):]
	}
	return emit(since)
}

func TestSubjectLogs(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	line := func(second int, step, text string) view.LogLine {
		return view.LogLine{At: noon.Add(time.Duration(second) * time.Second), Step: step, Attempt: 1, Text: text}
	}
	leftOut := view.LogsLeftOut(10)
	all := func() *printing {
		return &printing{
			runs: []view.Run{{ID: "bbbb1", Phase: runtype.Running}, {ID: "aaaa1", Phase: runtype.Succeeded}},
			lines: map[string][]view.LogLine{
				"aaaa1": {leftOut, line(1, "A", "first"), line(3, "Loop[x]/B", "third")},
				"bbbb1": {line(2, "A", "second"), line(4, "Loop[y]/B", "fourth"), line(4, "Looped", "fourth")},
			},
			later:   map[string][]view.LogLine{"bbbb1": {line(4, "Looped", "fourth"), line(5, "A", "fifth")}, "cccc1": {line(6, "A", "sixth")}},
			changes: make(chan struct{}, 1),
		}
	}
	for name, test := range map[string]struct {
		of   backend.LogsOf
		want string
	}{
		"all":   {backend.LogsOf{}, "[aaaa] [10 bytes of the oldest lines of the run left out]\n[aaaa A 1] first\n[bbbb A 1] second\n[aaaa Loop[x]/B 1] third\n[bbbb Loop[y]/B 1] fourth\n[bbbb Looped 1] fourth\n"},
		"step":  {backend.LogsOf{Step: "Loop"}, "[aaaa] third\n[bbbb] fourth\n"},
		"tail":  {backend.LogsOf{Tail: 2}, "[bbbb Loop[y]/B 1] fourth\n[bbbb Looped 1] fourth\n"},
		"since": {backend.LogsOf{Since: noon.Add(4 * time.Second)}, "[bbbb Loop[y]/B 1] fourth\n[bbbb Looped 1] fourth\n"},
		"follow": {backend.LogsOf{Tail: 1, Follow: true},
			"[bbbb Looped 1] fourth\n[bbbb Looped 1] fourth\n[bbbb A 1] fifth\n[cccc A 1] sixth\n"}, // the second fourth is another line
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out bytes.Buffer
				b, a := all(), verbs{&cli.App{Out: &out, Err: &bytes.Buffer{}}}
				var gone atomic.Bool
				ended := make(chan error, 1)
				go func() {
					ended <- a.subjectLogs(t.Context(), b, &subject{ref: "thing/default/t1", gone: func(context.Context) bool { return gone.Load() }}, test.of, false)
				}()
				synctest.Wait()
				if test.of.Follow {
					b.runs = append([]view.Run{{ID: "cccc1", Phase: runtype.Running}}, b.runs...)
					b.changes <- struct{}{}
					synctest.Wait()
					gone.Store(true)
					b.changes <- struct{}{}
				}
				if err := <-ended; err != nil {
					t.Fatal(err)
				}
				if got := out.String(); got != test.want {
					t.Errorf("it prints\n%s\nwant\n%s", got, strings.TrimSpace(test.want))
				}
			})
		})
	}
}
