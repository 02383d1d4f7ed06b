package classic

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/flowfile"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// probe is a step in the form of that engine.
type probe struct {
	values map[string]interface{}
	used   bool
	fail   error
	seen   func(*probe, map[string]interface{})
}

func (p *probe) Init(values map[string]interface{}, log logr.Logger) error {
	p.values = values
	log.Info("init")
	return nil
}

func (p *probe) DoStep(_ context.Context, _ logr.Logger) error {
	if p.used {
		return errors.New("the value was used before")
	}
	p.used = true
	p.seen(p, p.values)
	return p.fail
}

func (p *probe) Output(logr.Logger) map[string]interface{} {
	return map[string]interface{}{"ip": "10.0.0.9", "count": len(p.values)}
}

const flowText = `
flowName: CreateCluster
recoverFromFirstStep: false
steps:
- className: InitMeta
  stepName: InitMeta
- className: PrepareAll
  stepName: PrepareAll
- className: CreateRwPod
  stepName: CreateRwPod
`

const groupText = `
groupName: PrepareAll
steps:
- {className: PrepareStorage, stepName: PrepareStorage}
`

func flows(t testing.TB, actions []workflow.Action) []workflow.Flow {
	t.Helper()
	set, err := flowfile.Parse([]flowfile.File{{Name: "create.yaml", Data: []byte(flowText)}, {Name: "all_step_group.yaml", Data: []byte(groupText)}},
		flowfile.Options{Actions: actions, Check: true})
	if err != nil {
		t.Fatal(err)
	}
	return set.Flows()
}

func probes(seen func(name string, values map[string]interface{}) error) []workflow.Action {
	var all []workflow.Action
	for _, name := range []string{"InitMeta", "PrepareStorage", "CreateRwPod"} {
		all = append(all, Adapt(name, func() Step {
			return &probe{seen: func(p *probe, values map[string]interface{}) { p.fail = seen(name, values) }}
		}, Options{}))
	}
	return all
}

func TestAdapter(t *testing.T) {
	var lines []string
	failures := 1
	actions := probes(func(name string, values map[string]interface{}) error {
		lines = append(lines, fmt.Sprint(name, " ", string(mustJSON(values))))
		if name == "PrepareStorage" && failures > 0 {
			failures--
			return errors.New("not yet")
		}
		return nil
	})
	all := flows(t, actions)
	all[0].Steps[1].Steps[0].Retry = workflow.Retry{First: time.Nanosecond, Jitter: -1}
	engine, err := workflow.New(runstore.NewMemory(), all, workflow.Options{Actions: actions})
	if err != nil {
		t.Fatal(err)
	}
	run, err := engine.Start(t.Context(), workflow.Request{Flow: "CreateCluster", Subject: "demo/default/c1/uid-1", Input: json.RawMessage(`{"ip": "none", "n": 7}`)})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if engine.Advance(t.Context(), run.ID).IsDone() {
			break
		}
	}
	want := []string{
		`InitMeta {"_resourceName":"c1","_resourceNameSpace":"default","ip":"none","n":7}`,
		`PrepareStorage {"_resourceName":"c1","_resourceNameSpace":"default","count":4,"ip":"10.0.0.9","n":7}`,
		`PrepareStorage {"_resourceName":"c1","_resourceNameSpace":"default","count":4,"ip":"10.0.0.9","n":7}`,
		`CreateRwPod {"_resourceName":"c1","_resourceNameSpace":"default","count":5,"ip":"10.0.0.9","n":7}`,
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Error(diff)
	}
}

func mustJSON(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}

func TestAdapterReadsErrors(t *testing.T) {
	waiting := errors.New("waiting for the pod")
	action := Adapt("A", func() Step { return &probe{fail: waiting, seen: func(*probe, map[string]interface{}) {}} }, Options{
		Outcome: func(err error) outcome.Outcome {
			if errors.Is(err, waiting) {
				return outcome.Wait(time.Second, "PodPending", "%v", err)
			}
			return outcome.Fail(err)
		}})
	task := workflow.NewTask(t.Context(), workflow.TaskFacts{Run: "r", Step: "A", Subject: "demo/default/c1"})
	if out := action.Do(t.Context(), task); !out.IsWait() || out.Reason() != "PodPending" {
		t.Errorf("%v", out)
	}
	task = workflow.NewTask(t.Context(), workflow.TaskFacts{Run: "r", Step: "A", Subject: "demo/default/c1", Input: json.RawMessage(`[1]`)})
	if out := action.Do(t.Context(), task); !errors.Is(out.Err(), runtype.InputInvalid) {
		t.Errorf("%v", out)
	}
}

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func imported(t *testing.T, all []workflow.Flow) Imported {
	t.Helper()
	data, err := os.ReadFile("testdata/records.yaml")
	if err != nil {
		t.Fatal(err)
	}
	i, err := Import(data, ImportOptions{Subject: "demo/default/c1", Flows: all, Actor: "eve", Now: noon})
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func nothing(string, map[string]interface{}) error { return nil }

func TestImport(t *testing.T) {
	all := flows(t, probes(nothing))
	i := imported(t, all)
	var got []string
	for _, one := range i.Runs {
		r := one.Run
		line := fmt.Sprintf("%s %s %s %s", one.Key, r.Phase, r.CreatedAt.Format(time.DateTime), r.Input)
		for s := range r.Steps() {
			line += fmt.Sprintf(" | %s %s %d %s", s.Name, s.Phase, s.Attempt, s.Output)
		}
		if r.Fault != nil {
			line += fmt.Sprintf(" | %s at %q: %s", r.Fault.Code, r.Fault.Step, r.Fault.Message)
		}
		got = append(got, line)
		got = append(got, one.Notes...)
	}
	want := []string{
		`1-CreateCluster Succeeded 2021-09-01 10:00:00 {"class":"polar.x4.large"} | InitMeta Done 1 {"ip":"10.0.0.1"} | PrepareAll/PrepareStorage Done 3  | CreateRwPod Done 1 {}`,
		`flow CreateCluster has no step "Gone"`,
		`2-CreateCluster Running 2021-09-02 10:00:00 {"class":"polar.x4.xlarge","big":9007199254740993} | InitMeta Done 1 {"ip":"10.0.0.2"}`,
		`3-CreateCluster Paused 2021-09-03 10:00:00 {} | InitMeta Done 1  | PrepareAll/PrepareStorage Done 1  | CreateRwPod Failed 10  | UNKNOWN at "CreateRwPod": no node offers 8 CPU`,
		`4-CreateCluster Paused 2026-01-02 12:00:00 {} | INPUT_INVALID at "": 4-CreateCluster: the record is not valid JSON: unexpected end of JSON input`,
		`5-Removed Paused 2026-01-02 12:00:00 {} | INPUT_INVALID at "": 5-Removed: no flow Removed is loaded: load it and import again, or drop the run`,
		`6-CreateCluster Paused 2026-01-02 12:00:00 {} | INPUT_INVALID at "": 6-CreateCluster: step "Stranger" is completed, but flow CreateCluster has no such step`,
		`7-CreateCluster Paused 2026-01-02 12:00:00 {} | INPUT_INVALID at "": 7-CreateCluster: the record is of flow Other, its key says CreateCluster`,
		`8-CreateCluster Paused 2026-01-02 12:00:00 {} | INPUT_INVALID at "": 8-CreateCluster: initContext: it is no object`,
		`9-CreateCluster Paused 2026-01-02 12:00:00 {} | INPUT_INVALID at "": 9-CreateCluster: the record has no flowStatus`,
		`10-CreateCluster Paused 2026-01-02 12:00:00 {} | INPUT_INVALID at "": 10-CreateCluster: contextOutput of InitMeta: it is not valid JSON: unexpected end of JSON input`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"lastUpdate"}, i.Ignored); diff != "" {
		t.Error(diff)
	}
	if len(i.Damaged()) != 7 {
		t.Errorf("%d damaged runs", len(i.Damaged()))
	}
	if again := imported(t, all); again.Runs[1].Run.ID != i.Runs[1].Run.ID || i.Runs[1].Run.ID != workflow.RunID("demo/default/c1", "CreateCluster", "2-CreateCluster") {
		t.Error("the id is not computed from the imported record")
	}
}

func TestImportedRunsGoOn(t *testing.T) {
	var worked []string
	actions := probes(func(name string, values map[string]interface{}) error {
		worked = append(worked, fmt.Sprint(name, " ", values["ip"]))
		return nil
	})
	all := flows(t, actions)
	store := runstore.NewMemory()
	i := imported(t, all)
	w, err := i.Write(t.Context(), store)
	if err != nil || w != (Written{New: 10}) {
		t.Fatalf("%+v, %v", w, err)
	}
	before := dump(t, store, i)
	if w, err = imported(t, all).Write(t.Context(), store); err != nil || w != (Written{Known: 10}) {
		t.Fatalf("the second time: %+v, %v", w, err)
	}
	if diff := cmp.Diff(before, dump(t, store, i)); diff != "" {
		t.Errorf("importing twice changed something:\n%s", diff)
	}
	engine, err := workflow.New(store, all, workflow.Options{Actions: actions})
	if err != nil {
		t.Fatal(err)
	}
	running, paused := i.Runs[1].Run.ID, i.Runs[2].Run.ID
	if out := engine.Advance(t.Context(), running); !out.IsDone() {
		t.Fatalf("the running one: %v", out)
	}
	if diff := cmp.Diff([]string{"PrepareStorage 10.0.0.2", "CreateRwPod 10.0.0.9"}, worked); diff != "" {
		t.Error(diff)
	}
	worked = nil
	if out := engine.Advance(t.Context(), paused); !out.IsFail() || !strings.Contains(out.Message(), "no node offers 8 CPU") || worked != nil {
		t.Fatalf("the interrupted one: %v, worked %v", out, worked)
	}
	if err := engine.Resume(t.Context(), paused, "", "", workflow.Actor{Name: "eve"}); err != nil {
		t.Fatal(err)
	}
	if out := engine.Advance(t.Context(), paused); !out.IsDone() {
		t.Fatalf("after resume: %v", out)
	}
	if diff := cmp.Diff([]string{"CreateRwPod <nil>"}, worked); diff != "" {
		t.Error(diff)
	}
}

func TestPausedAloneIsPausedAtOnce(t *testing.T) {
	all := flows(t, probes(nothing))
	for key, code := range map[string]string{
		`{"1-CreateCluster": {"flowName": "CreateCluster", "flowStatus": "failedAndCompleted", "errorMessage": "lost"}}`: "UNKNOWN",
		`{"1-CreateCluster": "damaged"}`: "INPUT_INVALID",
	} {
		i, err := Import([]byte(key), ImportOptions{Subject: "demo/default/c1", Flows: all, Now: noon})
		if err != nil {
			t.Fatal(err)
		}
		store := runstore.NewMemory()
		if _, err := i.Write(t.Context(), store); err != nil {
			t.Fatal(err)
		}
		run, _, err := store.Load(t.Context(), i.Runs[0].Run.ID)
		if err != nil || run.Phase != runtype.Paused || run.Fault == nil || string(run.Fault.Code) != code {
			t.Errorf("%s: %+v, %v", key, run, err)
		}
		events, err := store.History(t.Context(), run.ID, 0, 0)
		if err != nil || len(events) != 2 || events[1].Seq != 2 || events[1].Kind != runtype.RunPaused {
			t.Errorf("history %+v, %v", events, err)
		}
	}
}

func TestWriteFinishesWhatWasBrokenOff(t *testing.T) {
	all := flows(t, probes(nothing))
	i := imported(t, all)
	i.Runs = i.Runs[:1]
	memory := runstore.NewMemory()
	if _, err := i.Write(t.Context(), brokenStore{memory}); err == nil {
		t.Fatal("the store does not break")
	}
	if _, err := i.Write(t.Context(), memory); err != nil {
		t.Fatal(err)
	}
	if run, _, err := memory.Load(t.Context(), i.Runs[0].Run.ID); err != nil || run.Phase != runtype.Succeeded || run.Len() != 3 {
		t.Errorf("%+v, %v", run, err)
	}
}

type brokenStore struct{ *runstore.Memory }

func (brokenStore) Save(context.Context, *runstore.Save) error { return errors.New("broken") }

// dump returns everything that a store holds of the imported runs.
func dump(t *testing.T, store *runstore.Memory, i Imported) []string {
	var lines []string
	for _, one := range i.Runs {
		run, _, err := store.Load(t.Context(), one.Run.ID)
		if err != nil {
			t.Fatal(err)
		}
		line := fmt.Sprint(run.ID, run.Phase, run.Revision, run.Seq, run.Queue, run.Fault)
		for s := range run.Steps() {
			line += fmt.Sprintf(" %s %s %s", s.Name, s.Phase, s.Output)
		}
		lines = append(lines, line)
	}
	return lines
}

func TestFilesThatAreNone(t *testing.T) {
	for name, data := range map[string]string{
		"not YAML":      "{",
		"a list":        "[1]",
		"another kind":  "kind: Secret\ndata: {}",
		"two documents": "a: 1\n---\nb: 2",
		"an alias":      "a: &x 1\nb: *x",
		"repeated":      "1-A: x\n1-A: y",
		"data is text":  "kind: ConfigMap\ndata: x",
		"empty":         "",
	} {
		if _, err := Import([]byte(data), ImportOptions{Subject: "a/b/c"}); !errors.Is(err, runtype.InputInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Import([]byte("a: 1"), ImportOptions{Subject: "c1"}); !errors.Is(err, runtype.InputInvalid) {
		t.Errorf("a bare subject: %v", err)
	}
}

func FuzzImport(f *testing.F) {
	data, err := os.ReadFile("testdata/records.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"1-CreateCluster": {"flowStatus": "running", "runningSteps": [{"StepName": "InitMeta", "stepStatus": "completed", "contextOutput": {"a": 1}}]}}`))
	f.Add([]byte("kind: ConfigMap\ndata:\n  1-CreateCluster: '{\"flowStatus\":\"failedAndCompleted\"}'\n"))
	all := flows(f, probes(nothing))
	f.Fuzz(func(t *testing.T, data []byte) {
		o := ImportOptions{Subject: "demo/default/c1", Flows: all, Now: noon}
		i, err := Import(data, o)
		if err != nil {
			return
		}
		if len(i.Runs) > 20 {
			i.Runs = i.Runs[:20]
		}
		store := runstore.NewMemory()
		first, err := i.Write(t.Context(), store)
		if err != nil {
			t.Fatalf("the imported runs cannot be written: %v", err)
		}
		if second, err := i.Write(t.Context(), store); err != nil || second.New != 0 || second.Known != first.New {
			t.Fatalf("the second time: %+v after %+v, %v", second, first, err)
		}
	})
}

// A completed record of the old engine is a run that has ended, whatever else is wrong with it. It
// must not block the next run of its subject while it waits for a person.
func TestFinding26CompletedIsImportedAsCompleted(t *testing.T) {
	for what, c := range map[string]struct{ record, note string }{
		"sound":               {`{"flowStatus":"completed","runningSteps":[{"StepName":"InitMeta","stepStatus":"completed"}]}`, ""},
		"input no JSON":       {`{"flowStatus":"completed","initContext":"{bad"}`, "initContext: it is not valid JSON"},
		"input no object":     {`{"flowStatus":"completed","initContext":[1]}`, "initContext: it is no object"},
		"input too large":     {`{"flowStatus":"completed","initContext":{"x":"` + strings.Repeat("y", runtype.MaxInput) + `"}}`, "the limit is"},
		"name of another":     {`{"flowStatus":"completed","flowName":"Other"}`, "the record is of flow Other"},
		"output no JSON":      {`{"flowStatus":"completed","runningSteps":[{"StepName":"InitMeta","stepStatus":"completed","contextOutput":"{"}]}`, "contextOutput of InitMeta"},
		"a step that is gone": {`{"flowStatus":"completed","runningSteps":[{"StepName":"Gone","stepStatus":"completed"}]}`, `no step "Gone"`},
	} {
		t.Run(what, func(t *testing.T) {
			data, err := json.Marshal(map[string]any{"kind": "ConfigMap", "data": map[string]string{"1-CreateCluster": c.record}})
			if err != nil {
				t.Fatal(err)
			}
			i, err := Import(data, ImportOptions{Subject: "demo/default/c1", Flows: flows(t, probes(nothing))})
			if err != nil || len(i.Runs) != 1 {
				t.Fatalf("%d runs, %v", len(i.Runs), err)
			}
			run := i.Runs[0]
			if run.Run.Phase != runtype.Succeeded || run.Damage != "" || run.Run.EndedAt.IsZero() {
				t.Errorf("%s, damage %q", run.Run.Phase, run.Damage)
			}
			if notes := strings.Join(run.Notes, "\n"); !strings.Contains(notes, c.note) {
				t.Errorf("notes %q", notes)
			}
		})
	}
}
