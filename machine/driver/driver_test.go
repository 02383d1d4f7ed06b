package driver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	ref   = control.Ref{Kind: "demo", Namespace: "default", Name: "c1"}
	quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

	diskFull = fault.Declare(fault.Kind{Code: "TEST_DISK_FULL", Class: fault.Blocked, Title: "the disk is full", Remedy: "Free the disk, then resume."})
)

func spec(s *machine.Subject, key string) any {
	object, _, _ := s.Values()
	return object["spec"].(map[string]any)[key]
}

func status(s *machine.Subject, key string) any {
	object, _, _ := s.Values()
	return object["status"].(map[string]any)[key]
}

// world is a driver, an engine and their stores.
type world struct {
	t       *testing.T
	objects *control.Memory
	runs    runstore.Store
	engine  *workflow.Engine
	driver  *Driver
	stop    func()

	mu      sync.Mutex
	full    bool // the next step finds the disk full
	slow    time.Duration
	looks   int
	answer  func() (any, error)
	written int
}

func (w *world) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

func (w *world) flows() []workflow.Flow {
	work := func(ctx context.Context, t *workflow.Task) outcome.Outcome {
		w.mu.Lock()
		full, slow := w.full, w.slow
		w.mu.Unlock()
		if full {
			return outcome.Fail(diskFull.Errorf("no space"))
		}
		if slow > 0 {
			select {
			case <-time.After(slow):
			case <-ctx.Done():
				return outcome.Fail(ctx.Err())
			}
		}
		var input struct {
			Size *int64 `json:"size"`
		}
		if err := t.Input(&input); err != nil {
			return outcome.Fail(err)
		}
		if input.Size == nil {
			return outcome.Done()
		}
		patch, _ := json.Marshal(map[string]any{"size": *input.Size})
		return outcome.Fail(Status{w.objects}.PatchStatus(ctx, t.Subject(), patch, t.Key()))
	}
	return []workflow.Flow{
		{Name: "Create", Steps: []workflow.Step{{Name: "Work", Do: work}}},
		{Name: "Resize", Steps: []workflow.Step{{Name: "Work", Do: work}}},
		{Name: "Delete", Steps: []workflow.Step{{Name: "Work", Do: work}}},
	}
}

func demo() machine.Standalone {
	size := func(s *machine.Subject) (any, error) { return map[string]any{"size": spec(s, "size")}, nil }
	return machine.Standalone{Old: true, Table: machine.Table[*machine.Subject]{
		Name: "demo", Kind: "demo", Initial: "Init", Input: (*machine.Subject).Input,
		Any: []machine.Transition[*machine.Subject]{{Event: "delete", To: "Deleting", When: func(s *machine.Subject) (bool, error) { return s.Object.Deleting(), nil }}},
		States: map[machine.State]machine.StateSpec[*machine.Subject]{
			"Init":     {On: []machine.Transition[*machine.Subject]{{Event: "create", To: "Creating", Params: size}}},
			"Creating": {Flow: "Create", Then: "Running"},
			"Running": {On: []machine.Transition[*machine.Subject]{
				{Event: "sick", To: "Interrupted", When: func(s *machine.Subject) (bool, error) {
					seen, _ := status(s, "observed").(map[string]any)
					health, _ := seen["health"].(map[string]any)
					return health["ok"] == false, nil
				}},
				{Event: "resize", To: "Resizing", Params: size, When: func(s *machine.Subject) (bool, error) {
					if spec(s, "size") == "bad" {
						return false, errors.New("size is no number")
					}
					return spec(s, "size") != status(s, "size"), nil
				}}}},
			"Resizing":    {Flow: "Resize", Then: "Running"},
			"Interrupted": {Rests: true},
			"Deleting":    {Flow: "Delete", Then: "Deleted", Else: "Deleting", Abort: "Interrupted"},
			"Deleted":     {},
		},
	}}
}

func start(t *testing.T, m machine.Standalone) *world {
	t.Helper()
	w := &world{t: t, objects: control.NewMemory(), runs: runstore.NewMemory()}
	w.serve(m)
	return w
}

func (w *world) serve(m machine.Standalone) {
	w.t.Helper()
	notifier := &Notifier{}
	var err error
	w.engine, err = workflow.New(w.runs, w.flows(), workflow.Options{Hooks: []workflow.Hook{notifier.Hook()}, Object: Object(w.objects), Logger: quiet})
	if err != nil {
		w.t.Fatal(err)
	}
	look := workflow.Action{Name: "look", Do: func(ctx context.Context, t *workflow.Task) outcome.Outcome {
		w.mu.Lock()
		w.looks++
		answer := w.answer
		w.mu.Unlock()
		value, err := answer()
		if err == nil {
			err = t.Set(value)
		}
		return outcome.Fail(err)
	}}
	wait := workflow.Action{Name: "wait", Do: func(ctx context.Context, t *workflow.Task) outcome.Outcome { return outcome.Wait(0, "Someday", "") }}
	hang := workflow.Action{Name: "hang", Do: func(ctx context.Context, t *workflow.Task) outcome.Outcome {
		<-ctx.Done()
		return outcome.Fail(ctx.Err())
	}}
	crash := workflow.Action{Name: "crash", Do: func(ctx context.Context, t *workflow.Task) outcome.Outcome { panic("boom") }}
	w.driver, err = New(Options{Objects: w.objects, Engine: w.engine, Machines: []machine.Standalone{m}, Notifier: notifier,
		Actions: []workflow.Action{look, wait, hang, crash}, Logger: quiet,
		Moved: func(control.Ref, machine.Move) { w.set(func() { w.written++ }) }})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	var wg sync.WaitGroup
	for _, serve := range []func(context.Context) error{w.engine.Serve, w.driver.Serve} {
		wg.Go(func() {
			if err := serve(ctx); err != nil && !errors.Is(err, context.Canceled) {
				w.t.Error(err)
			}
		})
	}
	w.stop = func() { cancel(); wg.Wait() }
}

func (w *world) apply(spec string) {
	w.t.Helper()
	if _, err := w.objects.Apply(w.t.Context(), control.Object{Ref: ref, Spec: json.RawMessage(spec)}); err != nil {
		w.t.Fatal(err)
	}
}

// shown is a status as people read it.
type shown struct {
	State      machine.State
	Size       any
	Machine    record
	Run        *Run
	Conditions []Condition
	Fault      *control.FaultRecord
	Observed   map[string]any
}

func (s shown) String() string {
	out := string(s.State)
	for _, c := range s.Conditions {
		out += fmt.Sprintf(" %s=%s/%s", c.Type, c.Status, c.Reason)
	}
	if s.Fault != nil {
		out += " fault=" + string(s.Fault.Code)
	}
	return out
}

func (w *world) status() shown {
	w.t.Helper()
	o, err := w.objects.Get(w.t.Context(), ref)
	if err != nil {
		w.t.Fatal(err)
	}
	var s shown
	if err := json.Unmarshal(o.Status, &s); err != nil {
		w.t.Fatal(err)
	}
	return s
}

func (w *world) expect(want string) shown {
	w.t.Helper()
	synctest.Wait()
	s := w.status()
	if s.String() != want {
		w.t.Fatalf("status\n got %s\nwant %s\n%+v", s, want, s)
	}
	return s
}

// soon lets the 5 ms of queues and timers pass, and much less than a safety look.
func soon() {
	time.Sleep(2 * time.Second)
	synctest.Wait()
}

func TestALife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, demo())
		defer w.stop()
		w.set(func() { w.slow = 10 * time.Second })
		w.apply(`{"size": 1}`)
		soon()
		s := w.expect("Creating Ready=Unknown/Creating Progressing=True/Creating")
		if s.Run == nil || s.Run.Phase != runtype.Running || s.Run.Step != "Work" || s.Machine.Visit != 1 {
			t.Fatalf("run %+v", s.Run)
		}
		o, _ := w.objects.Get(t.Context(), ref)
		if len(o.Finalizers) != 1 || o.Finalizers[0] != Finalizer {
			t.Fatalf("finalizers %v", o.Finalizers)
		}
		time.Sleep(10 * time.Second) // the bell rings; the safety look is far
		s = w.expect("Running Ready=True/Rests Progressing=False/Rests")
		if s.Run != nil || s.Size != 1.0 || s.Conditions[0].ObservedGeneration != 1 || s.Conditions[0].LastTransitionTime.IsZero() {
			t.Fatalf("status %+v", s)
		}
		o, _ = w.objects.Get(t.Context(), ref)
		time.Sleep(11 * time.Hour) // a resync
		if again, _ := w.objects.Get(t.Context(), ref); again.Revision != o.Revision {
			t.Fatal("an object at rest is written")
		}
		w.set(func() { w.slow = 0 })
		w.apply(`{"size": 2}`)
		soon()
		s = w.expect("Running Ready=True/Rests Progressing=False/Rests")
		if s.Size != 2.0 || !strings.Contains(string(s.Machine.Old), `"size":2`) {
			t.Fatalf("status %+v, old %s", s, s.Machine.Old)
		}
		if _, err := w.objects.Delete(t.Context(), ref, 0); err != nil {
			t.Fatal(err)
		}
		soon()
		if _, err := w.objects.Get(t.Context(), ref); !isGone(err) {
			t.Fatalf("it is not gone: %v\n%s", err, w.status())
		}
		runs, _, err := w.runs.(runstore.Lister).List(t.Context(), runstore.Query{Subject: Subject(o)})
		if err != nil || len(runs) != 3 {
			t.Fatalf("%d runs, %v", len(runs), err)
		}
	})
}

func TestAnInterruptionNamesItsRemedyAndEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, demo())
		defer w.stop()
		w.set(func() { w.full = true })
		w.apply(`{"size": 1}`)
		soon()
		s := w.expect("Interrupted Ready=False/TestDiskFull Progressing=False/TestDiskFull fault=TEST_DISK_FULL")
		if s.Fault.Remedy != diskFull.Remedy || s.Fault.Message != "step Work: no space" || s.Machine.Previous != "Creating" {
			t.Fatalf("fault %+v", s.Fault)
		}
		w.set(func() { w.full = false })
		if err := w.engine.Resume(t.Context(), s.Machine.Run, workflow.FromFailed, "", workflow.Actor{Name: "me"}); err != nil {
			t.Fatal(err)
		}
		soon()
		w.expect("Running Ready=True/Rests Progressing=False/Rests")
	})
}

func TestDeletionEndsTheActiveRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, demo())
		defer w.stop()
		w.set(func() { w.slow = time.Hour })
		w.apply(`{"size": 1}`)
		soon()
		w.set(func() { w.slow = 0 })
		if _, err := w.objects.Delete(t.Context(), ref, 0); err != nil {
			t.Fatal(err)
		}
		soon()
		if _, err := w.objects.Get(t.Context(), ref); !isGone(err) {
			t.Fatalf("it is not gone: %s", w.status())
		}
	})
}

func TestAMachineWithoutAFinalStateHoldsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := demo()
		delete(m.Table.States, "Deleted")
		m.Table.Any = nil
		delete(m.Table.States, "Deleting")
		w := start(t, m)
		defer w.stop()
		w.apply(`{"size": 1}`)
		soon()
		if o, _ := w.objects.Get(t.Context(), ref); len(o.Finalizers) != 0 {
			t.Fatalf("finalizers %v", o.Finalizers)
		}
		if _, err := w.objects.Delete(t.Context(), ref, 0); err != nil {
			t.Fatal(err)
		}
		if _, err := w.objects.Get(t.Context(), ref); !isGone(err) {
			t.Fatal(err)
		}
	})
}

func TestAnEventThatCannotBeJudgedIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, demo())
		defer w.stop()
		w.apply(`{"size": 1}`)
		soon()
		w.apply(`{"size": "bad"}`)
		soon()
		w.expect("Running Ready=False/EventFailed Progressing=False/EventFailed fault=EVENT_FAILED")
		time.Sleep(time.Hour)
		s := w.expect("Running Ready=False/RetriesExhausted Progressing=False/RetriesExhausted fault=RETRIES_EXHAUSTED")
		if s.Fault.Cause != "EVENT_FAILED" {
			t.Fatalf("cause %s", s.Fault.Cause)
		}
		w.apply(`{"size": 3}`)
		soon()
		w.expect("Running Ready=True/Rests Progressing=False/Rests")
	})
}

func TestADamagedPositionIsShownAndKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, demo())
		defer w.stop()
		w.apply(`{"size": 1}`)
		soon()
		_, err := control.Modify(t.Context(), w.objects, ref, func(o *control.Object) error {
			o.Status = json.RawMessage(`{"machine": {"state": 7}, "fact": 1}`)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		soon()
		o, _ := w.objects.Get(t.Context(), ref)
		if !strings.Contains(string(o.Status), `"machine":{"state":7}`) || !strings.Contains(string(o.Status), "POSITION_INVALID") {
			t.Fatalf("status %s", o.Status)
		}
	})
}

func TestARestartGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, demo())
		w.set(func() { w.slow = 5 * time.Second })
		w.apply(`{"size": 1}`)
		time.Sleep(time.Second)
		w.stop()
		w.serve(demo())
		defer w.stop()
		time.Sleep(time.Minute)
		s := w.expect("Running Ready=True/Rests Progressing=False/Rests")
		if s.Machine.Visit != 2 {
			t.Fatalf("visit %d", s.Machine.Visit)
		}
	})
}

func TestPlan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, demo())
		defer w.stop()
		w.apply(`{"size": 1}`)
		soon()
		o, err := w.objects.Get(t.Context(), ref)
		if err != nil {
			t.Fatal(err)
		}
		o.Spec = json.RawMessage(`{"size": 9}`)
		plan, err := w.driver.PlanFor(t.Context(), o)
		if err != nil || plan.To != "Resizing" || plan.Event != "resize" || plan.Flow == nil || len(plan.Flow.Steps) != 1 || string(plan.Params) != `{"size":9}` {
			t.Fatalf("plan %+v, %v", plan, err)
		}
		if plan, err = w.driver.Plan(t.Context(), ref); err != nil || plan.Act != machine.Rest {
			t.Fatalf("plan %+v, %v", plan, err)
		}
		if err := w.driver.Resume(t.Context(), ref); !errors.Is(err, machine.NotHeld) {
			t.Fatal(err)
		}
		kinds, err := w.driver.Kinds()
		if err != nil {
			t.Fatal(err)
		}
		if plan, err = Plan(t.Context(), kinds, o); err != nil || plan.To != "Resizing" {
			t.Errorf("by its kind the plan is %+v, %v", plan, err)
		}
		o.Kind = "ConfigMap"
		if _, err := Plan(t.Context(), kinds, o); !errors.Is(err, machine.Unplanned) {
			t.Errorf("a kind without a plan: %v", err)
		}
		o.Kind = "nobody"
		if _, err := Plan(t.Context(), kinds, o); !errors.Is(err, machine.Unserved) {
			t.Errorf("a kind that nothing serves: %v", err)
		}
	})
}

func TestNewRefuses(t *testing.T) {
	engine, err := workflow.New(runstore.NewMemory(), nil, workflow.Options{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	_, err = New(Options{Objects: control.NewMemory(), Engine: engine, Machines: []machine.Standalone{demo()}})
	if !errors.Is(err, machine.Invalid) || !strings.Contains(err.Error(), `unknown flow "Create"`) {
		t.Errorf("unknown flows: %v", err)
	}
	_, err = New(Options{Objects: control.NewMemory(), Engine: engine, Machines: []machine.Standalone{observing(machine.Observation{Name: "o", Uses: "nothing"})}})
	if !errors.Is(err, workflow.ActionMissing) {
		t.Errorf("unknown action: %v", err)
	}
}

// Two processes over the same stores: the position's compare-and-set decides,
// and each visit has one run.
func TestTwoDriversAgree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, demo())
		defer w.stop()
		other := &world{t: t, objects: w.objects, runs: w.runs}
		other.serve(demo())
		defer other.stop()
		w.apply(`{"size": 1}`)
		soon()
		for size := 2; size < 6; size++ {
			w.apply(fmt.Sprintf(`{"size": %d}`, size))
			time.Sleep(3 * time.Minute) // whoever does not hear the bell looks by itself
			s := w.expect("Running Ready=True/Rests Progressing=False/Rests")
			if s.Size != float64(size) || s.Machine.Visit != int64(2*size) {
				t.Fatalf("size %v, visit %d", s.Size, s.Machine.Visit)
			}
		}
		o, _ := w.objects.Get(t.Context(), ref)
		runs, _, err := w.runs.(runstore.Lister).List(t.Context(), runstore.Query{Subject: Subject(o)})
		if err != nil || len(runs) != 5 {
			t.Fatalf("%d runs, %v", len(runs), err)
		}
		if moves := w.written + other.written; moves != 10 {
			t.Fatalf("%d moves", moves)
		}
	})
}

// A step that waits for a fact of its object is woken by the fact's change.
func TestAChangedObjectTouchesItsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := demo()
		w := &world{t: t, objects: control.NewMemory(), runs: runstore.NewMemory()}
		w.serve(m)
		defer w.stop()
		w.apply(`{"size": 1}`)
		soon()
		if err := w.engine.Load(append(w.flows()[:1:1], workflow.Flow{Name: "Resize", Steps: []workflow.Step{{Name: "Ready", Wait: &workflow.WaitFor{
			Condition: func(v workflow.View) (bool, error) {
				raw, err := v.Object()
				return strings.Contains(string(raw), `"ready":true`), err
			}}}}}, w.flows()[2])); err != nil {
			t.Fatal(err)
		}
		w.apply(`{"size": 2}`)
		soon()
		s := w.expect("Resizing Ready=Unknown/Resizing Progressing=True/Resizing")
		if s.Run.Step != "Ready" {
			t.Fatalf("run %+v", s.Run)
		}
		o, _ := w.objects.Get(t.Context(), ref)
		if err := (Status{w.objects}).PatchStatus(t.Context(), Subject(o), json.RawMessage(`{"ready": true, "size": 2}`), ""); err != nil {
			t.Fatal(err)
		}
		soon()
		w.expect("Running Ready=True/Rests Progressing=False/Rests")
	})
}

func TestAMachineThatReadsTheTimeIsLookedAtAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := demo()
		m.Clock = true
		running := m.Table.States["Running"]
		running.On[0] = machine.Transition[*machine.Subject]{Event: "old-age", To: "Interrupted",
			When: func(s *machine.Subject) (bool, error) { return s.Now.Sub(s.Object.CreatedAt) > 10*time.Minute, nil }}
		w := start(t, m)
		defer w.stop()
		w.apply(`{"size": 1}`)
		time.Sleep(9 * time.Minute)
		w.expect("Running Ready=True/Rests Progressing=False/Rests")
		time.Sleep(2*time.Minute + time.Second)
		if s := w.status(); s.State != "Interrupted" || s.Machine.Event != "old-age" {
			t.Fatalf("status %s", s)
		}
	})
}
