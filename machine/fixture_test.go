package machine

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
	"time"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

var (
	ref   = control.Ref{Kind: "demo", Namespace: "default", Name: "c1"}
	epoch = time.Date(2025, 1, 2, 3, 4, 5, 0, time.UTC)
	quiet = slog.New(slog.NewTextHandler(io.Discard, nil))
)

// testObject is an object with a few fields.
type testObject struct {
	Revision int
	Deleted  bool
	Size     int // wanted

	Generation int64
	Has        int
	Move       string // a request
	Bad        bool   // makes a predicate fail
	Position   json.RawMessage
}

// memory is Objects with a fault for each write.
type memory struct {
	mu      sync.Mutex
	objects map[control.Ref]testObject
	before  func(Move) error // the write is not made
	after   func(Move) error // the write was made, its answer is lost
	loads   int
	moves   []Move
}

func (m *memory) Load(_ context.Context, r control.Ref) (Snapshot[*testObject], error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.loads++
	t, ok := m.objects[r]
	if !ok {
		return Snapshot[*testObject]{}, control.NotFoundError(r)
	}
	return Snapshot[*testObject]{Object: &t}, nil
}

func (m *memory) Position(t *testObject) (Position, error) {
	var p Position
	if t.Position == nil {
		return p, nil
	}
	err := json.Unmarshal(t.Position, &p)
	return p, err
}

func (m *memory) Write(_ context.Context, t *testObject, move Move) error {
	if m.before != nil {
		if err := m.before(move); err != nil {
			return err
		}
	}
	m.mu.Lock()
	stored, ok := m.objects[ref]
	if !ok || stored.Revision != t.Revision {
		m.mu.Unlock()
		return fault.WriteConflict.Errorf("revision %d, not %d", stored.Revision, t.Revision)
	}
	stored.Revision++
	stored.Position, _ = json.Marshal(move.To)
	m.objects[ref] = stored
	m.moves = append(m.moves, move)
	m.mu.Unlock()
	if m.after != nil {
		return m.after(move)
	}
	return nil
}

func (m *memory) Subject(*testObject) string { return ref.String() + "/u1" }

func (m *memory) edit(change func(*testObject)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.objects[ref]
	change(&t)
	t.Revision++
	m.objects[ref] = t
}

// runs is Flows without an engine: the test says what becomes of a run.
type runs struct {
	mu      sync.Mutex
	runs    map[string]*runtype.Run
	started []string // ids in order
	refuse  error
	gets    int
	lost    bool // the next Start is carried out, and its answer is lost
	cancels []string
	// noReturn refuses to undo
	noReturn bool
	advance  func(id string) outcome.Outcome
	check    func(flow string, input json.RawMessage) error
}

func (r *runs) CheckInput(flow, _ string, input json.RawMessage) error {
	if r.check == nil {
		return nil
	}
	return r.check(flow, input)
}

func (r *runs) Start(_ context.Context, req workflow.Request) (*runtype.Run, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refuse != nil {
		return nil, r.refuse
	}
	id := req.Flow + ":" + req.RequestID
	run, ok := r.runs[id]
	if !ok {
		run = &runtype.Run{ID: id, Flow: req.Flow, Subject: req.Subject, RequestID: req.RequestID, Input: req.Input, Labels: req.Labels, Phase: runtype.Running}
		for _, other := range r.runs {
			if !other.Phase.Final() {
				run.Phase = runtype.Queued
			}
		}
		r.runs[id] = run
		r.started = append(r.started, id)
	} else if string(run.Input) != string(req.Input) {
		return nil, runtype.InputInvalid.Errorf("known with another input")
	}
	if r.lost {
		r.lost = false
		return nil, runstore.StoreUnavailable.Errorf("the answer was lost")
	}
	copied := *run
	return &copied, nil
}

func (r *runs) Get(_ context.Context, id string) (*runtype.Run, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gets++
	run, ok := r.runs[id]
	if !ok {
		return nil, workflow.RunNotFound.Errorf("%s", id)
	}
	copied := *run
	return &copied, nil
}

func (r *runs) Cancel(_ context.Context, id string, mode runtype.Mode, _ bool, by workflow.Actor) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cancels = append(r.cancels, fmt.Sprintf("%s %s %s", id, mode, by.RequestID))
	run, ok := r.runs[id]
	switch {
	case !ok:
		return workflow.RunNotFound.Errorf("%s", id)
	case run.Phase.Final():
		return workflow.RunFinished.Errorf("%s", id)
	case r.noReturn && mode == runtype.Undo:
		return workflow.NoReturn.Errorf("%s", id)
	}
	run.Phase, run.Revision = runtype.Cancelling, run.Revision+1
	run.State.Stop = &runtype.Stop{Verb: runtype.VerbCancel, Mode: mode}
	return nil
}

func (r *runs) Advance(_ context.Context, id string) outcome.Outcome {
	if r.advance == nil {
		return outcome.Wait(0, "Waiting", "%s", id)
	}
	return r.advance(id)
}

func (r *runs) Plan(flow string, input json.RawMessage) (workflow.Plan, error) {
	_, flow, _ = strings.Cut(flow, "/") // of the kind demo
	return workflow.Plan{Flow: flow, Steps: []workflow.PlanStep{{Name: "Only", Decision: "run", Why: string(input)}}}, nil
}

// set says what has become of a run.
func (r *runs) set(id string, phase runtype.Phase, f *runtype.Fault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	run := r.runs[id]
	run.Phase, run.Fault, run.Revision = phase, f, run.Revision+1
	if phase.Final() {
		for _, id := range r.started { // promote the next
			if r.runs[id].Phase == runtype.Queued {
				r.runs[id].Phase = runtype.Running
				break
			}
		}
	}
}

func (r *runs) newest() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.started) == 0 {
		return ""
	}
	return r.started[len(r.started)-1]
}

func sizeDiffers(t *testObject) (bool, error) {
	if t.Bad {
		return false, errors.New("size cannot be read")
	}
	return t.Size != t.Has, nil
}

// lifecycle is a table with everything in it; its states have names of its own choice.
func lifecycle() Table[*testObject] {
	moves := func(t *testObject) (bool, error) { return t.Move != "", nil }
	return Table[*testObject]{
		Name: "demo", Kind: "demo", Initial: "Neu",
		Any: []Transition[*testObject]{{Event: "delete", To: "Weg", Why: "deletion was asked for", When: func(t *testObject) (bool, error) { return t.Deleted, nil }}},
		States: map[State]StateSpec[*testObject]{
			"Neu":     {On: []Transition[*testObject]{{Event: "create", To: "Anlegen", Params: func(t *testObject) (any, error) { return map[string]int{"size": t.Size}, nil }}}},
			"Anlegen": {Flow: "Create", Then: "Ruhe"},
			"Ruhe": {On: []Transition[*testObject]{
				{Event: "resize", To: "Sperren", Why: "the size differs", When: sizeDiffers, Params: func(t *testObject) (any, error) { return map[string]int{"size": t.Size}, nil }},
				{Event: "move", To: "Ziehen", When: moves, Params: func(t *testObject) (any, error) { return t.Move, nil }},
			}},
			"Sperren":     {Flow: "Lock", Then: "Wachsen"},
			"Wachsen":     {Flow: "Grow", Then: "Ruhe"},
			"Ziehen":      {Flow: "Move", Then: "Ruhe"},
			"Interrupted": {On: []Transition[*testObject]{{Event: "move", To: "Ziehen", When: moves, Cancel: Undo, Params: func(t *testObject) (any, error) { return t.Move, nil }}}},
			"Weg":         {Flow: "Delete", Then: "Fort", Else: "Weg", Abort: "Interrupted"},
			"Fort":        {},
		},
	}
}

type world struct {
	t       *testing.T
	objects *memory
	flows   *runs
	m       *Machine[*testObject]
}

func newWorld(t *testing.T, table Table[*testObject], inline bool) *world {
	t.Helper()
	w := &world{t: t, objects: &memory{objects: map[control.Ref]testObject{ref: {Revision: 1}}}, flows: &runs{runs: map[string]*runtype.Run{}}}
	var err error
	w.m, err = New(table, Options[*testObject]{Objects: w.objects, Flows: w.flows, Inline: inline, Logger: quiet, Now: func() time.Time { return epoch }})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) advance() outcome.Outcome { return w.m.Advance(w.t.Context(), ref) }

// settle advances until the object asks for nothing at once.
func (w *world) settle() outcome.Outcome {
	w.t.Helper()
	for range 50 {
		out := w.advance()
		if out.After() != soon {
			return out
		}
	}
	w.t.Fatal("the object does not come to rest")
	return outcome.Outcome{}
}

func (w *world) position() Position {
	t := w.objects.objects[ref]
	p, err := w.objects.Position(&t)
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

func (w *world) in(state State) Position {
	w.t.Helper()
	p := w.position()
	if p.State != state {
		w.t.Fatalf("state %s, want %s: %+v", p.State, state, p)
	}
	return p
}

// rest brings a fresh object to Ruhe.
func (w *world) rest() {
	w.t.Helper()
	w.settle()
	w.flows.set(w.flows.newest(), runtype.Succeeded, nil)
	w.settle()
	w.in("Ruhe")
}

func (w *world) states() string {
	var out []string
	for _, move := range w.objects.moves {
		if move.Cause.Changes() {
			out = append(out, string(move.To.State))
		}
	}
	return strings.Join(out, " ")
}

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		t.Fatalf("%s:\n got %s\nwant %s", what, g, w)
	}
}
