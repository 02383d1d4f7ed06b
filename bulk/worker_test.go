package bulk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

var (
	diskFull = &fault.Kind{Code: "DISK_FULL", Class: fault.Blocked}
	refusal  = &fault.Kind{Code: "TEST_REFUSED", Class: fault.Blocked, Remedy: "Mend it."}
	errDied  = errors.New("the worker has died")
)

// world has runs that are paused, and counts what they are asked.
type world struct {
	mu       sync.Mutex
	runs     []*runtype.Run
	asked    map[string]int             // requests that took effect
	known    map[string]map[string]bool // request ids of each run
	last     workflow.RunRequest
	signals  []runtype.Signal
	largest  int // of the pages that were read
	refuses  func(id string) error
	midway   func() // is called before each request
	requests int
}

func newWorld(n int) *world {
	w := &world{asked: map[string]int{}, known: map[string]map[string]bool{}}
	for i := range n {
		w.runs = append(w.runs, &runtype.Run{ID: fmt.Sprintf("%026d", i), Flow: "F", Phase: runtype.Paused, CreatedAt: time.Unix(int64(i), 0),
			Labels: map[string]string{"odd": fmt.Sprint(i % 2)}, Fault: &runtype.Fault{Code: diskFull.Code, Step: "Copy"}})
	}
	return w
}

func (w *world) List(_ context.Context, q runstore.Query) (page []*runtype.Run, next string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.runs {
		if !q.Matches(r) || r.ID <= q.Cursor {
			continue
		}
		if len(page) == q.Limit {
			next = page[len(page)-1].ID
			break
		}
		copied := *r
		page = append(page, &copied)
	}
	w.largest = max(w.largest, len(page))
	return page, next, nil
}

func (w *world) Count(_ context.Context, q runstore.Query) ([]runstore.RunCount, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var counter runstore.Counter
	for _, r := range w.runs {
		if q.Matches(r) {
			counter.Add(r)
		}
	}
	return counter.Counts(), nil
}

func (w *world) Find(_ context.Context, id string) (runstore.Loaded, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := slices.IndexFunc(w.runs, func(r *runtype.Run) bool { return r.ID == id })
	copied := *w.runs[at]
	return runstore.Loaded{Run: &copied}, nil
}

// accept is the request of an id to a run: the run accepts it once.
func (w *world) accept(id, request string) error {
	if w.midway != nil {
		w.midway()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.requests++
	if w.known[id][request] {
		return nil
	}
	if w.refuses != nil {
		if err := w.refuses(id); err != nil {
			return err
		}
	}
	if w.known[id] == nil {
		w.known[id] = map[string]bool{}
	}
	w.known[id][request] = true
	w.asked[id]++
	at := slices.IndexFunc(w.runs, func(r *runtype.Run) bool { return r.ID == id })
	w.runs[at].Phase, w.runs[at].Fault = runtype.Running, nil
	return nil
}

func (w *world) SendRequest(_ context.Context, to runstore.Loaded, _ runtype.Verb, request workflow.RunRequest) error {
	err := w.accept(to.Run.ID, request.RequestID)
	w.mu.Lock()
	w.last = request
	w.mu.Unlock()
	return err
}

func (w *world) Post(_ context.Context, to runstore.Loaded, s runtype.Signal) error {
	err := w.accept(to.Run.ID, s.ID)
	w.mu.Lock()
	w.signals = append(w.signals, s)
	w.mu.Unlock()
	return err
}

// dying is a store of objects that stops to answer before or after some write.
type dying struct {
	*control.Memory
	left  int // writes until then
	after bool
}

func (d *dying) Update(ctx context.Context, next control.Object) (control.Object, error) {
	d.left--
	if d.left < 0 || d.left == 0 && !d.after {
		return control.Object{}, errDied
	}
	o, err := d.Memory.Update(ctx, next)
	if d.left == 0 {
		return o, errDied
	}
	return o, err
}

func order(t *testing.T, objects control.Objects, s Spec) control.Ref {
	t.Helper()
	raw, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	o, err := objects.Apply(t.Context(), control.Object{Ref: control.Ref{Kind: Kind, Namespace: "default", Name: "b1"}, Spec: raw})
	if err != nil {
		t.Fatal(err)
	}
	return o.Ref
}

func statusNow(t *testing.T, objects control.Objects, ref control.Ref) Status {
	t.Helper()
	o, err := objects.Get(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	s, err := StatusOf(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func resume() Spec {
	return Spec{Verb: runtype.VerbResume, Selection: Selection{Flow: "F", Fault: diskFull.Code, CreatedBefore: time.Unix(1<<20, 0)}, Actor: "ann", Reason: "mended"}
}

func (w *world) once(t *testing.T, want int) {
	t.Helper()
	for id, n := range w.asked {
		if n != 1 {
			t.Errorf("run %s was asked %d times", id, n)
		}
	}
	if len(w.asked) != want {
		t.Errorf("%d runs were asked, not %d", len(w.asked), want)
	}
}

// A worker that dies before or after any of its writes leaves a bulk that the next one ends: each run is asked
// once and counted once, although it is not selected any more once it has been asked.
func TestDeathBetweenWrites(t *testing.T) {
	for writes := 1; ; writes++ {
		for _, after := range []bool{false, true} {
			w, objects := newWorld(2*pageSize+10), control.NewMemory()
			w.refuses = func(id string) error {
				if strings.HasSuffix(id, "7") {
					return refusal.Errorf("not now")
				}
				return nil
			}
			ref := order(t, objects, resume())
			_, err := New(Options{Objects: &dying{objects, writes, after}, Engine: w, Runs: w, Alone: true}).Pass(t.Context(), ref)
			ended := statusNow(t, objects, ref).Ended()
			if !ended && !errors.Is(err, errDied) {
				t.Fatalf("write %d: %v", writes, err)
			}
			if _, err := New(Options{Objects: objects, Engine: w, Runs: w, Alone: true}).Pass(t.Context(), ref); err != nil {
				t.Fatal(err)
			}
			s := statusNow(t, objects, ref)
			if s.State != StateComplete || s.Done != 369 || s.Refused != 41 || len(s.Refusals) != 1 || s.Refusals[0].Count != 41 || len(s.Refusals[0].Runs) != MaxExamples {
				t.Fatalf("write %d: %+v", writes, s)
			}
			if s.Fault == nil || s.Fault.Code != Refused.Code || s.Conditions[0].Status != "True" {
				t.Fatalf("%+v, %+v", s.Fault, s.Conditions)
			}
			w.once(t, 369)
			if w.largest > pageSize {
				t.Fatalf("a page has %d runs", w.largest)
			}
			if ended {
				return
			}
		}
	}
}

// Two servers over one store carry out a bulk once. A server that has died keeps the other waiting for its lease.
func TestTwoServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, objects := newWorld(5*pageSize), control.NewMemory()
		dead := New(Options{Objects: &dying{objects, 3, true}, Engine: w, Runs: w})
		ref := order(t, objects, resume())
		if _, err := dead.Pass(t.Context(), ref); !errors.Is(err, errDied) {
			t.Fatal(err)
		}
		if after, err := New(Options{Objects: objects, Engine: w, Runs: w}).Pass(t.Context(), ref); err != nil || after != leaseFor {
			t.Fatalf("come again after %s, %v", after, err)
		}
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() { _ = New(Options{Objects: objects, Engine: w, Runs: w}).Serve(ctx) })
		}
		time.Sleep(leaseFor + time.Second)
		if s := statusNow(t, objects, ref); s.State != StateComplete || s.Done != 5*pageSize || s.Holder != "" {
			t.Errorf("%+v", s)
		}
		stop()
		all.Wait()
		w.once(t, 5*pageSize)
	})
}

// A server that ends gives its lease back, and a store that refuses is no refusal of a run.
func TestEndAndStoreAway(t *testing.T) {
	w, objects := newWorld(pageSize), control.NewMemory()
	ref := order(t, objects, resume())
	ctx, stop := context.WithCancel(t.Context())
	w.midway = stop
	if _, err := New(Options{Objects: objects, Engine: w, Runs: w, Parallel: 1}).Pass(ctx, ref); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if s := statusNow(t, objects, ref); s.Holder != "" || len(s.Pending) != pageSize || s.Done != 0 {
		t.Fatalf("%+v", s)
	}
	w.midway, w.refuses = nil, func(string) error { return runstore.StoreUnavailable.Errorf("away") }
	if _, err := New(Options{Objects: objects, Engine: w, Runs: w}).Pass(t.Context(), ref); !errors.Is(err, runstore.StoreUnavailable) {
		t.Fatal(err)
	}
	w.refuses = nil
	if _, err := New(Options{Objects: objects, Engine: w, Runs: w, Alone: true}).Pass(t.Context(), ref); err != nil {
		t.Fatal(err)
	}
	if s := statusNow(t, objects, ref); s.Done != pageSize || s.Refused != 0 || s.Fault != nil {
		t.Fatalf("%+v", s)
	}
	w.once(t, pageSize)
}

// A pause takes effect before the next page; a changed spec ends the bulk with a fault.
func TestPauseAndChange(t *testing.T) {
	w, objects := newWorld(3*pageSize), control.NewMemory()
	ref := order(t, objects, resume())
	pause := sync.OnceFunc(func() {
		if _, err := control.Modify(t.Context(), objects, ref, func(o *control.Object) error {
			o.Annotations = map[string]string{PauseAnnotation: "by ann"}
			return nil
		}); err != nil {
			t.Error(err)
		}
	})
	w.midway = pause
	worker := New(Options{Objects: objects, Engine: w, Runs: w})
	pass := func(state string, done int64) {
		t.Helper()
		if _, err := worker.Pass(t.Context(), ref); err != nil {
			t.Fatal(err)
		}
		if s := statusNow(t, objects, ref); s.State != state || s.Done != done {
			t.Fatalf("%+v", s)
		}
	}
	pass(StatePaused, 0) // the page is asked again: its write met the pause
	w.midway = nil
	if _, err := control.Modify(t.Context(), objects, ref, func(o *control.Object) error { delete(o.Annotations, PauseAnnotation); return nil }); err != nil {
		t.Fatal(err)
	}
	pass(StateComplete, 3*pageSize)
	w.once(t, 3*pageSize)
	changed := resume()
	changed.Flow = "G"
	order(t, objects, changed)
	pass(StateInvalid, 3*pageSize)
	if s := statusNow(t, objects, ref); s.Fault.Code != Invalid.Code {
		t.Errorf("%+v", s.Fault)
	}
}

// What is asked is what the spec says; runs of later, of other labels and of other faults are left out.
func TestWhatIsAsked(t *testing.T) {
	for _, c := range []struct {
		name string
		spec Spec
		want int
		step string
	}{
		{"the step of the fault", Spec{Verb: runtype.VerbSkip, Selection: Selection{Flow: "F"}}, 10, "Copy"},
		{"a step", Spec{Verb: runtype.VerbSkip, Selection: Selection{Flow: "F"}, Step: "Wait"}, 10, "Wait"},
		{"a label", Spec{Verb: runtype.VerbResume, Selection: Selection{Selector: "odd=1"}}, 5, ""},
		{"another fault", Spec{Verb: runtype.VerbResume, Selection: Selection{Fault: "OTHER"}}, 0, ""},
		{"another phase", Spec{Verb: runtype.VerbPause, Selection: Selection{Flow: "F"}}, 0, ""},
		{"until a time", Spec{Verb: runtype.VerbResume, Selection: Selection{Flow: "F", CreatedBefore: time.Unix(3, 0)}}, 4, ""},
		{"since a time", Spec{Verb: runtype.VerbResume, Selection: Selection{CreatedAfter: time.Unix(3, 0)}}, 7, ""},
		{"a text", Spec{Verb: runtype.VerbResume, Selection: Selection{Text: "ODD=1"}}, 5, ""},
		{"runs by their ids, one of them unknown", Spec{Verb: runtype.VerbResume, Selection: Selection{IDs: []string{fmt.Sprintf("%026d", 7), fmt.Sprintf("%026d", 2), fmt.Sprintf("%026d", 99)}}}, 2, ""},
		{"ids and a label", Spec{Verb: runtype.VerbResume, Selection: Selection{IDs: []string{fmt.Sprintf("%026d", 7), fmt.Sprintf("%026d", 2)}, Selector: "odd=1"}}, 1, ""},
		{"a signal", Spec{Verb: VerbSignal, Selection: Selection{Flow: "F"}, Signal: "go", Data: json.RawMessage(`{"lag":0}`), Actor: "ann"}, 10, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, objects := newWorld(10), control.NewMemory()
			plan, err := MakePlan(t.Context(), w, c.spec, time.Now())
			if err != nil || plan.Runs != c.want || len(plan.First) != c.want {
				t.Fatalf("planned %d, %v", plan.Runs, err)
			}
			ref := order(t, objects, c.spec)
			if _, err := New(Options{Objects: objects, Engine: w, Runs: w}).Pass(t.Context(), ref); err != nil {
				t.Fatal(err)
			}
			w.once(t, c.want)
			if w.last.Step != c.step {
				t.Errorf("step %q, not %q", w.last.Step, c.step)
			}
			for _, s := range w.signals {
				if s.Name != "go" || string(s.Payload) != `{"lag":0}` || s.Actor != "ann" {
					t.Errorf("%+v", s)
				}
			}
		})
	}
}

// A plan counts by flow, phase and fault, and reads only the runs that it names.
func TestPlan(t *testing.T) {
	w := newWorld(2500)
	for _, r := range w.runs[:100] {
		r.Fault = &runtype.Fault{Code: "OTHER"}
	}
	for _, r := range w.runs[100:110] {
		r.Phase, r.Fault = runtype.Running, nil
	}
	plan, err := MakePlan(t.Context(), w, Spec{Verb: runtype.VerbCancel, Selection: Selection{Flow: "F"}}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	want := []Group{{"F", runtype.Paused, diskFull.Code, 2390}, {"F", runtype.Paused, "OTHER", 100}, {"F", runtype.Running, "", 10}}
	if plan.Runs != 2500 || !slices.Equal(plan.Groups, want) || len(plan.First) != MaxFirst || w.largest > MaxFirst {
		t.Errorf("%d, %v, %d, %d", plan.Runs, plan.Groups, len(plan.First), w.largest)
	}
	if len(w.asked) > 0 {
		t.Error("a plan has asked runs")
	}
	if _, err := MakePlan(t.Context(), w, Spec{Verb: runtype.VerbCancel}, time.Now()); fault.Of(err) != Invalid {
		t.Errorf("a plan of all runs: %v", err)
	}
}

func TestParse(t *testing.T) {
	for spec, want := range map[string]string{
		`{}`:                 `verb: "" is not resume`,
		`{"verb": "resume"}`: "it selects every run",
		`{"verb": "resume", "createdBefore": "2026-11-28T11:30:00Z"}`: "it selects every run",
		`{"verb": "resume", "ids": ["gk3v"]}`:                         "ids.0: \"gk3v\" is no complete id of a run: it has 26 characters",
		`{"verb": "resume", "ids": [` + strings.Repeat(`"aaaaaaaaaaaaaaaaaaaaaaaaaa",`, MaxIDs) + `"aaaaaaaaaaaaaaaaaaaaaaaaaa"]}`: "ids: there are 1001, and the limit is 1000",
		`{"verb": "resume", "text": "` + strings.Repeat("x", 201) + `"}`:                                                           "text: it has 201 bytes, and the limit is 200",
		`{"verb": "resume", "createdAfter": "2026-11-28T11:30:00Z", "createdBefore": "2026-11-27T11:30:00Z"}`:                      "createdBefore: it is earlier than createdAfter",
		`{"verb": "resume", "createdAfter": "2026-11-28T11:30:00Z"}`:                                                               "",
		`{"verb": "resume", "flow": "F", "nope": 1}`:                                                                               "nope: unknown key",
		`{"verb": "resume", "flow": 7}`:                                                                                            "flow: it is no string",
		`{"verb": "resume", "phases": ["Succeeded"]}`:                                                                              "phases.0: a run that is Succeeded has ended",
		`{"verb": "resume", "phases": ["Sleeping"]}`:                                                                               `phases.0: "Sleeping" is not`,
		`{"verb": "resume", "fault": "X", "phases": ["Running"]}`:                                                                  "fault: only a run that is Paused",
		`{"verb": "resume", "selector": "=x"}`:                                                                                     "selector: ",
		`{"verb": "resume", "flow": "F", "mode": "undo"}`:                                                                          "mode: it is an argument of cancel",
		`{"verb": "cancel", "flow": "F", "mode": "maybe"}`:                                                                         `mode: "maybe" is not hold`,
		`{"verb": "cancel", "flow": "F", "giveUp": true}`:                                                                          "giveUp: it leaves steps",
		`{"verb": "resume", "flow": "F", "definition": "x"}`:                                                                       `definition: "x" is not old or new`,
		`{"verb": "signal", "flow": "F"}`:                                                                                          "signal: the verb signal needs",
		`{"verb": "cancel", "flow": "F", "mode": "drop"}`:                                                                          "",
	} {
		_, err := Parse([]byte(spec))
		if err == nil && want != "" || err != nil && (want == "" || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", spec, err)
		}
	}
}
