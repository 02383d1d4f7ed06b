package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

func testList(t *testing.T, h Harness) {
	x := open(t, h)
	l := x.lister()
	subject := "kind/list/one"
	paused := newRun(subject)
	paused.Flow, paused.Hash, paused.Owner, paused.Epoch = "Other", "h2", "w", 1
	paused.Labels, paused.CreatedAt = map[string]string{"a": "b"}, paused.CreatedAt.Add(-time.Hour)
	paused = x.create(paused)
	paused.Put(&runtype.StepRecord{Name: "Done", Phase: runtype.StepDone, Ord: 1})
	paused.Put(&runtype.StepRecord{Name: "Bad", Phase: runtype.StepFailed, Ord: 2, Attempt: 1, Fault: &runtype.Fault{Code: "X"}})
	paused.Phase, paused.Owner, paused.Fault = runtype.Paused, "", &runtype.Fault{Code: "X", Step: "Bad"}
	x.save(paused, runtype.RunPaused)
	second := newRun(subject)
	second.Labels = map[string]string{"team": "x y"}
	queued := x.create(second)
	object := "kind/list/object"
	child := newRun(object)
	child.Parent = paused.ID
	child = x.create(child)
	last := newRun(object + "/u1")
	last.Labels, last.Owner, last.Epoch = map[string]string{"team": "x y", "tier": "gold"}, "w", 1
	ended := x.create(last)
	x.endRun(ended)
	all := []string{paused.ID, queued.ID, child.ID, ended.ID}
	old, young := paused.CreatedAt, queued.CreatedAt

	for _, c := range []struct {
		name  string
		query runstore.Query
		want  []string
	}{
		{"all, newest first", runstore.Query{}, []string{ended.ID, child.ID, queued.ID, paused.ID}},
		{"oldest first", runstore.Query{OldestFirst: true}, all},
		{"active", runstore.Query{Active: true, OldestFirst: true}, all[:3]},
		{"phases", runstore.Query{Phases: []runtype.Phase{runtype.Succeeded, runtype.Queued}, OldestFirst: true}, []string{queued.ID, ended.ID}},
		{"flow", runstore.Query{Flow: "Other"}, all[:1]},
		{"subject", runstore.Query{Subject: subject, OldestFirst: true}, all[:2]},
		{"subject of an object: with its uid and without", runstore.Query{Subject: object, UID: "u1", OldestFirst: true}, all[2:]},
		{"subject of an object without its uid", runstore.Query{Subject: object}, all[2:3]},
		{"subject of an object, another uid", runstore.Query{Subject: object, UID: "u2"}, all[2:3]},
		{"hash", runstore.Query{Hash: "h2"}, all[:1]},
		{"parent", runstore.Query{Parent: paused.ID}, []string{child.ID}},
		{"prefix of one", runstore.Query{Prefix: queued.ID}, []string{queued.ID}},
		{"prefix of all", runstore.Query{Prefix: "r0", OldestFirst: true}, all},
		{"ids", runstore.Query{IDs: []string{ended.ID, "none", paused.ID, child.ID}, OldestFirst: true}, []string{paused.ID, child.ID, ended.ID}},
		{"an id that no run has", runstore.Query{IDs: []string{"none"}}, nil},
		{"ids that are active", runstore.Query{IDs: []string{ended.ID, queued.ID}, Active: true}, []string{queued.ID}},
		{"no wildcards", runstore.Query{Prefix: "%"}, nil},
		{"two filters", runstore.Query{Subject: subject, Phases: []runtype.Phase{runtype.Paused}}, all[:1]},
		{"nothing", runstore.Query{Flow: "None"}, nil},
		{"label", labelled(runstore.LabelTerm{Key: "a", Value: "b"}), all[:1]},
		{"label with another value", labelled(runstore.LabelTerm{Key: "a", Value: "B"}), nil},
		{"label of two runs", labelled(runstore.LabelTerm{Key: "team", Value: "x y"}), []string{queued.ID, ended.ID}},
		{"labels, all of them", labelled(runstore.LabelTerm{Key: "team", Value: "x y"}, runstore.LabelTerm{Key: "tier", Value: "gold"}), []string{ended.ID}},
		{"label and flow", runstore.Query{Flow: "None", Labels: []runstore.LabelTerm{{Key: "a", Value: "b"}}}, nil},
		{"a label that is there", labelled(runstore.LabelTerm{Key: "tier", Any: true}), []string{ended.ID}},
		{"a label that is not there", labelled(runstore.LabelTerm{Key: "team", Any: true, Not: true}), []string{paused.ID, child.ID}},
		{"not this value", labelled(runstore.LabelTerm{Key: "tier", Value: "gold", Not: true}), all[:3]},
		{"fault", runstore.Query{Fault: "X"}, all[:1]},
		{"a fault that no run has", runstore.Query{Fault: "Y"}, nil},
		{"fault and phase", runstore.Query{Fault: "X", Phases: []runtype.Phase{runtype.Queued}}, nil},
		{"fault and label", runstore.Query{Fault: "X", Labels: []runstore.LabelTerm{{Key: "a", Value: "b"}}}, all[:1]},
		{"text of an id", runstore.Query{Text: queued.ID}, []string{queued.ID}},
		{"text of a flow, in other letters", runstore.Query{Text: "oTHEr"}, all[:1]},
		{"text of subjects", runstore.Query{Text: "LIST/One", OldestFirst: true}, all[:2]},
		{"text of a label", runstore.Query{Text: "am=X", OldestFirst: true}, []string{queued.ID, ended.ID}},
		{"text in two runs of a label", runstore.Query{Text: "gold", Labels: []runstore.LabelTerm{{Key: "team", Value: "x y"}}}, []string{ended.ID}},
		{"text without wildcards", runstore.Query{Text: "%"}, nil},
		{"text without a wildcard of one letter", runstore.Query{Text: "list_one"}, nil},
		{"text with a backslash", runstore.Query{Text: `\`}, nil},
		{"since", runstore.Query{Since: young, OldestFirst: true}, all[1:]},
		{"since a moment later", runstore.Query{Since: old.Add(1), OldestFirst: true}, all[1:]},
		{"until", runstore.Query{Until: old}, all[:1]},
		{"until a moment before", runstore.Query{Until: young.Add(-1)}, all[:1]},
		{"between", runstore.Query{Since: old.Add(1), Until: young.Add(-1)}, nil},
		{"one value, but not another label", labelled(runstore.LabelTerm{Key: "team", Value: "x y"}, runstore.LabelTerm{Key: "tier", Any: true, Not: true}), []string{queued.ID}},
	} {
		t.Run(c.name, func(t *testing.T) {
			y := suite{t, x.Store}
			runs, cursor, err := l.List(t.Context(), c.query)
			if err != nil || cursor != "" {
				t.Fatal(cursor, err)
			}
			y.wantEqual("runs", runIDs(runs), c.want)
			var paged []string
			q := c.query
			for q.Limit = 1; ; {
				page, next, err := l.List(t.Context(), q)
				if err != nil || len(page) > 1 {
					t.Fatal(len(page), err)
				}
				paged = append(paged, runIDs(page)...)
				if q.Cursor = next; next == "" {
					break
				}
			}
			y.wantEqual("page by page", paged, c.want)
			counts, err := l.Count(t.Context(), c.query)
			if err != nil {
				t.Fatal(err)
			}
			var counter runstore.Counter
			for _, r := range runs {
				counter.Add(r)
			}
			y.wantEqual("counts", counts, counter.Counts())
		})
	}
	t.Run("counts by flow, phase and fault", func(t *testing.T) {
		y := suite{t, x.Store}
		counts, err := l.Count(t.Context(), runstore.Query{Limit: 1, Cursor: "", OldestFirst: true})
		if err != nil {
			t.Fatal(err)
		}
		y.wantEqual("counts", counts, []runstore.RunCount{{Flow: queued.Flow, Phase: runtype.Queued, Runs: 1}, {Flow: queued.Flow, Phase: runtype.Running, Runs: 1},
			{Flow: queued.Flow, Phase: runtype.Succeeded, Runs: 1}, {Flow: "Other", Phase: runtype.Paused, Fault: "X", Runs: 1}})
	})
	t.Run("shows the current step only", func(t *testing.T) {
		y := suite{t, x.Store}
		runs, _, err := l.List(t.Context(), runstore.Query{Prefix: paused.ID})
		if err != nil || len(runs) != 1 {
			t.Fatal(len(runs), err)
		}
		whole, _ := y.load(paused.ID)
		y.wantEqual("run", runs[0], whole)
		if s := runs[0].Current(); s == nil || s.Name != "Bad" {
			t.Errorf("current step %v", s)
		}
		if runs[0].Len() > 1 {
			t.Errorf("%d records", runs[0].Len())
		}
	})
}

// A run is found by the fault that it is paused by now.
func testFaultOfRun(t *testing.T, h Harness) {
	x := open(t, h)
	l := x.lister()
	r := x.createClaimed("w")
	want := func(code fault.Code, found int) {
		t.Helper()
		runs, _, err := l.List(t.Context(), runstore.Query{Fault: code})
		if err != nil || len(runs) != found {
			t.Fatalf("%s: %d runs, %v; want %d", code, len(runs), err, found)
		}
		counts, err := l.Count(t.Context(), runstore.Query{Fault: code})
		if err != nil || len(counts) != found || found > 0 && counts[0].Fault != code {
			t.Fatalf("%s: %v, %v", code, counts, err)
		}
	}
	set := func(phase runtype.Phase, owner string, f *runtype.Fault) {
		t.Helper()
		r.Phase, r.Owner, r.Fault = phase, owner, f
		x.save(r, runtype.RunPaused)
	}
	want("A", 0)
	set(runtype.Paused, "", &runtype.Fault{Code: "A"})
	want("A", 1)
	r, _ = x.load(r.ID) // another process goes on
	set(runtype.Paused, "", &runtype.Fault{Code: "B", Message: "m"})
	want("A", 0)
	want("B", 1)
	set(runtype.Paused, "", &runtype.Fault{Code: "B", Message: "n"})
	want("B", 1)
	set(runtype.Paused, "", nil)
	want("B", 0)
	set(runtype.Paused, "", &runtype.Fault{Code: "B"})
	want("B", 1)
	set(runtype.Cancelling, "", &runtype.Fault{Code: "B"})
	want("B", 0)
	set(runtype.Paused, "", &runtype.Fault{Code: "B"})
	want("B", 1)
	x.endRun(r)
	want("B", 0)
}

func labelled(terms ...runstore.LabelTerm) runstore.Query {
	return runstore.Query{Labels: terms, OldestFirst: true}
}

func runIDs(runs []*runtype.Run) []string {
	list := []string{}
	for _, r := range runs {
		list = append(list, r.ID)
	}
	return list
}

func testHistory(t *testing.T, h Harness) {
	t.Run("of one run, in order, every field", func(t *testing.T) {
		x := open(t, h)
		l := x.lister()
		r := x.createClaimed("w")
		want := created()
		for range 6 {
			events := []runtype.Event{event(r, runtype.StepFailedEvent), event(r, runtype.StepRetryingEvent)}
			events[0].Step, events[0].Attempt, events[0].Actor, events[0].Reason = "Loop[a]/One", 2, "ann", "Why"
			events[0].Message, events[0].Code, events[0].Data = "it\nfailed", "X", []byte(`{"stack":["a"]}`)
			if err := x.Save(x.Context(), &runstore.Save{Run: r, Events: events}); err != nil {
				t.Fatal(err)
			}
			want = append(want, events...)
		}
		for i := range want {
			want[i].Run = r.ID
			if want[i].Seq != int64(i)+1 {
				t.Fatalf("event %d has number %d", i, want[i].Seq)
			}
		}
		got, err := l.History(x.Context(), r.ID, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		x.wantEqual("history", got, want)
		got, err = l.History(x.Context(), r.ID, 4, 3)
		if err != nil {
			t.Fatal(err)
		}
		x.wantEqual("behind 4, three", got, want[4:7])
		got, err = l.History(x.Context(), r.ID, int64(len(want)), 0)
		if err != nil || len(got) != 0 {
			t.Errorf("behind the end: %d, %v", len(got), err)
		}
		_, err = l.History(x.Context(), "nobody", 0, 0)
		x.wantError("of nothing", err, runstore.ErrNotFound)
	})
	t.Run("of all runs by cursor", func(t *testing.T) {
		x := open(t, h)
		l := x.lister()
		_, end, err := l.Events(x.Context(), "now", 10)
		if err != nil || end == "" {
			t.Fatal(end, err)
		}
		var want []string
		runs := []*runtype.Run{x.createClaimed("w"), x.createClaimed("w")}
		for _, r := range runs {
			want = append(want, fmt.Sprint(r.ID, " ", 1))
		}
		for range 5 {
			for _, r := range runs {
				x.save(r, runtype.StepStarted, runtype.StepDoneEvent)
				want = append(want, fmt.Sprint(r.ID, " ", r.Seq-1), fmt.Sprint(r.ID, " ", r.Seq))
			}
		}
		for _, start := range []string{"", end} {
			for _, limit := range []int{3, 1000} {
				var got []string
				cursor := start
				x.waitUntil("all events", func() bool {
					events, next, err := l.Events(x.Context(), cursor, limit)
					if err != nil || next == "" || len(events) > limit {
						t.Fatal(next, err)
					}
					for _, e := range events {
						got = append(got, fmt.Sprint(e.Run, " ", e.Seq))
					}
					cursor = next
					return len(got) >= len(want)
				})
				x.wantEqual(fmt.Sprintf("from %q by %d", start, limit), got, want)
			}
		}
		_, now, err := l.Events(x.Context(), "now", 10)
		if err != nil {
			t.Fatal(err)
		}
		x.save(runs[0], runtype.RunWaiting)
		var tail []runtype.Event
		x.waitUntil("the newest event", func() bool {
			events, next, err := l.Events(x.Context(), now, 10)
			if err != nil {
				t.Fatal(err)
			}
			now, tail = next, append(tail, events...)
			return len(tail) > 0
		})
		if len(tail) != 1 || tail[0].Kind != runtype.RunWaiting {
			t.Errorf("behind now: %v", tail)
		}
		if _, _, err := l.Events(x.Context(), "no cursor", 10); err == nil {
			t.Error("nonsense is taken as a cursor")
		}
	})
	t.Run("survives a crash", func(t *testing.T) {
		x := reopenable(t, h)
		x.lister()
		r := x.createClaimed("w")
		x.save(r, runtype.RunStarted)
		x.Store = h.Reopen(t, x.Store)
		events, err := x.lister().History(x.Context(), r.ID, 0, 0)
		if err != nil || len(events) != 2 {
			t.Fatalf("%d events, %v", len(events), err)
		}
	})
}

func testDefinitions(t *testing.T, h Harness) {
	x := open(t, h)
	d := optional[runstore.Definitions](x)
	one := runstore.Definition{Hash: "h1", Flow: "Flow", Version: 2, Data: []byte(`{"a":1}`), Source: []byte("steps: []\n")}
	two := runstore.Definition{Hash: "h2", Flow: "Flow", Version: 3, Data: []byte(`{}`)}
	for _, def := range []runstore.Definition{one, two, one} {
		if err := d.PutDefinition(t.Context(), def); err != nil {
			t.Fatal(err)
		}
	}
	other := one
	other.Data = []byte(`{"a":2}`)
	if err := d.PutDefinition(t.Context(), other); err != nil {
		t.Fatalf("the same hash again: %v", err)
	}
	for _, want := range []runstore.Definition{one, two} {
		got, err := d.Definition(t.Context(), want.Hash)
		if err != nil {
			t.Fatal(err)
		}
		x.wantEqual(want.Hash, got, want)
	}
	_, err := d.Definition(t.Context(), "h3")
	x.wantError("unknown", err, runstore.ErrNotFound)
}

func testRetention(t *testing.T, h Harness) {
	x := open(t, h)
	r := optional[runstore.Retainer](x)
	now := time.Now().UTC()
	end := func(subject, flow string, age time.Duration) string {
		run := newRun(subject)
		run.Flow, run.Owner, run.Epoch = flow, "w", 1
		run = x.create(run)
		run.Phase, run.EndedAt, run.Owner = runtype.Succeeded, now.Add(-age), ""
		x.save(run, runtype.RunSucceeded)
		return run.ID
	}
	day := 24 * time.Hour
	var aged, many []string
	for i := range 5 {
		aged = append(aged, end("kind/r/aged", "Flow", time.Duration(50-i)*day))
	}
	for i := range 6 {
		many = append(many, end("kind/r/crowd", "Busy", time.Duration(6-i)*time.Minute))
	}
	active := x.create(newRun("kind/r/aged"))
	policy := func(flow string) runtype.Retention {
		if flow == "Busy" {
			return runtype.Retention{Age: 30 * day, Keep: 2, Max: 4}
		}
		return runtype.Retention{Age: 30 * day, Keep: 2, Max: 100}
	}
	want := append(slices.Clone(aged[:3]), many[:2]...)
	got, err := r.Expired(t.Context(), now, policy, 100)
	if err != nil {
		t.Fatal(err)
	}
	x.wantEqual("expired, oldest first", got, want)
	got, err = r.Expired(t.Context(), now, policy, 2)
	if err != nil {
		t.Fatal(err)
	}
	x.wantEqual("the first two", got, want[:2])

	if err := r.Remove(t.Context(), append([]string{active.ID, "nobody"}, want...)); err != nil {
		t.Fatal(err)
	}
	for _, id := range want {
		_, _, err := x.Load(t.Context(), id)
		x.wantError("load of a removed run", err, runstore.ErrNotFound)
	}
	x.load(active.ID)
	x.load(aged[4])
	if got, err = r.Expired(t.Context(), now, policy, 100); err != nil || len(got) != 0 {
		t.Errorf("expired after the removal: %v, %v", got, err)
	}
	if l, ok := x.Store.(runstore.Lister); ok {
		_, err := l.History(t.Context(), want[0], 0, 0)
		x.wantError("history of a removed run", err, runstore.ErrNotFound)
		events, err := l.History(t.Context(), aged[4], 0, 0)
		if err != nil || len(events) != 2 {
			t.Errorf("history of a kept run: %d, %v", len(events), err)
		}
		_, cursor, err := l.Events(t.Context(), "now", 1)
		if err != nil {
			t.Fatal(err)
		}
		last := end("kind/r/last", "Flow", 50*day)
		if err := r.Remove(t.Context(), []string{last}); err != nil {
			t.Fatal(err)
		}
		next := end("kind/r/next", "Flow", day)
		var seen []runtype.Event
		x.waitUntil("events behind a removed run", func() bool {
			events, after, err := l.Events(t.Context(), cursor, 10)
			if err != nil {
				t.Fatal(err)
			}
			cursor, seen = after, append(seen, events...)
			return len(seen) >= 2
		})
		if seen[0].Run != next {
			t.Errorf("the first event behind the cursor is of %s, want %s", seen[0].Run, next)
		}
	}
}
