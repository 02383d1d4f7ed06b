package machine

import (
	"context"
	"errors"
	"testing"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
)

// withRun is Objects whose Load reads the run of the position too.
type withRun struct {
	*memory
	flows *runs
}

func (o withRun) Load(ctx context.Context, r control.Ref) (Snapshot[*testObject], error) {
	s, err := o.memory.Load(ctx, r)
	if err != nil {
		return s, err
	}
	p, err := o.Position(s.Object)
	if err != nil || p.Run == "" {
		return s, err
	}
	s.Run, err = o.flows.Get(ctx, p.Run)
	return s, err
}

// A pass reads the object once and the run once; a run that Load has read is not read again.
func TestAPassReadsOnce(t *testing.T) {
	table := Table[*testObject]{Name: "w", Initial: "Work", States: map[State]StateSpec[*testObject]{"Work": {Flow: "F", Then: "Rest", Else: "Rest", Abort: "Rest"}, "Rest": {}}}
	for name, load := range map[string]func(*world) Objects[*testObject]{
		"the machine reads the run": func(w *world) Objects[*testObject] { return w.objects },
		"Load reads the run":        func(w *world) Objects[*testObject] { return withRun{w.objects, w.flows} },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, table, false)
			m, err := New(table, Options[*testObject]{Objects: load(w), Flows: w.flows, Logger: quiet})
			if err != nil {
				t.Fatal(err)
			}
			for range 5 { // enter, start, then wait for the run
				m.Advance(t.Context(), ref)
			}
			w.objects.loads, w.flows.gets = 0, 0
			pass := m.Pass(t.Context(), ref)
			if w.objects.loads != 1 || w.flows.gets != 1 || pass.Run == nil || pass.Run.ID != pass.Position.Run {
				t.Errorf("%d loads and %d readings of the run, want one of each: %+v", w.objects.loads, w.flows.gets, pass)
			}
			w.objects.loads, w.flows.gets = 0, 0
			if again := m.PassFrom(t.Context(), ref, pass.Snapshot); w.objects.loads != 0 || w.flows.gets != 0 || again.Position.State != "Work" {
				t.Errorf("a pass from a snapshot: %d loads, %d readings of the run: %+v", w.objects.loads, w.flows.gets, again)
			}
		})
	}
}

// A stale snapshot costs one load: what is written is decided by the newest version.
func TestAStaleSnapshotIsLoadedAgain(t *testing.T) {
	table := Table[*testObject]{Name: "w", Initial: "Rest", States: map[State]StateSpec[*testObject]{
		"Rest": {On: []Transition[*testObject]{{Event: "grow", To: "Big", When: func(o *testObject) (bool, error) { return o.Size > 0, nil }}}}, "Big": {},
	}}
	w := newWorld(t, table, false)
	w.settle()
	w.objects.edit(func(o *testObject) { o.Size = 1 })
	old, err := w.objects.Load(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	w.objects.edit(func(o *testObject) { o.Has = 1 })
	w.objects.loads = 0
	pass := w.m.PassFrom(t.Context(), ref, old)
	if w.objects.loads != 1 || !pass.Wrote || pass.Object.Has != 1 {
		t.Errorf("%d loads: %+v", w.objects.loads, pass)
	}
	w.in("Big")
}

// A move that the object refuses is decided again; one that it refuses for ever fails the pass.
func TestAReconsideredMove(t *testing.T) {
	table := Table[*testObject]{Name: "w", Initial: "Rest", States: map[State]StateSpec[*testObject]{
		"Rest": {On: []Transition[*testObject]{{Event: "grow", To: "Big", When: func(o *testObject) (bool, error) { return o.Size > 0, nil }}}}, "Big": {},
	}}
	w := newWorld(t, table, false)
	w.settle()
	w.objects.edit(func(o *testObject) { o.Size = 1 })
	refusals := 1
	w.objects.before = func(move Move) error {
		if refusals > 0 {
			refusals--
			return Reconsider{Why: "not now"}
		}
		return nil
	}
	if out := w.advance(); out.IsFail() {
		t.Errorf("refused once: %s", out)
	}
	w.in("Big")
	w = newWorld(t, table, false)
	w.settle()
	w.objects.edit(func(o *testObject) { o.Size = 1 })
	w.objects.before = func(Move) error { return Reconsider{Why: "never"} }
	w.objects.loads = 0
	var reconsider Reconsider
	if out := w.advance(); !errors.As(out.Err(), &reconsider) || reconsider.Why != "never" || fault.Of(out.Err()) == fault.WriteConflict || w.objects.loads != tries {
		t.Errorf("refused for ever: %s after %d loads", out, w.objects.loads)
	}
}

var _ Objects[*testObject] = withRun{}
