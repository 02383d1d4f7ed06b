package view

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

var update = flag.Bool("update", false, "write the golden files anew")

var unscheduled = fault.Declare(fault.Kind{
	Code: "POD_UNSCHEDULED", Class: fault.Blocked, Title: "no node can take the pod",
	Remedy: "Free or add a node with 8 CPU, then resume the run.",
	Guide:  "Look at the nodes:\n\n    kubectl describe node {{.node}}\n",
})

// now is the time of all tests: three minutes after the sample run paused.
var now = at("2026-03-01T02:50:15.500Z")

func at(text string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		panic(err)
	}
	return t
}

const (
	sampleID = "gk3vaaaaaaaaaaaaaaaaaaaaaa"
	waiterID = "b7qdaaaaaaaaaaaaaaaaaaaaaa"
	queuedID = "x2faaaaaaaaaaaaaaaaaaaaaaa"
)

var sampleFlow = workflow.Flow{Name: "CreateSharedStorageCluster", Steps: []workflow.Step{
	{Name: "InitMeta"}, {Name: "PrepareStorage"},
	{Name: "CreateRwPod", Retry: workflow.Retry{Attempts: 10}},
	{Name: "Replace", ForEach: &workflow.Loop{}, Steps: []workflow.Step{{Name: "Create"}}},
}}

// paused returns a run whose third step has failed.
func paused() *runtype.Run {
	failed := &runtype.Fault{
		Code: unscheduled.Code, Message: "no node offers 8 CPU", Details: map[string]any{"node": "n1", "free": int64(3)},
		Step: "CreateRwPod", Attempt: 1, At: at("2026-03-01T02:47:15.201Z"),
	}
	r := &runtype.Run{
		ID: sampleID, Flow: "CreateSharedStorageCluster", Version: 1, Hash: strings.Repeat("ab", 32), Subject: "demo/default/c1",
		Phase: runtype.Paused, Revision: 5, Epoch: 1, Input: json.RawMessage(`{"readers": 2}`), Actor: "anna", Reason: "new customer",
		CreatedAt: at("2026-03-01T02:47:12Z"), StartedAt: at("2026-03-01T02:47:12Z"), Fault: failed,
		State: runtype.State{PausedAt: at("2026-03-01T02:47:15.201Z"), Stop: &runtype.Stop{Verb: runtype.VerbPause, Failed: true}},
	}
	r.Put(&runtype.StepRecord{Name: "InitMeta", Phase: runtype.StepDone, Attempt: 1, StartedAt: at("2026-03-01T02:47:12Z"), EndedAt: at("2026-03-01T02:47:12.1Z")})
	r.Put(&runtype.StepRecord{Name: "PrepareStorage", Phase: runtype.StepDone, Attempt: 1, StartedAt: at("2026-03-01T02:47:12.1Z"), EndedAt: at("2026-03-01T02:47:14.5Z"),
		Output: json.RawMessage(`{"volume":"v1"}`)})
	r.Put(&runtype.StepRecord{Name: "CreateRwPod", Phase: runtype.StepFailed, Attempt: 1, Failures: 1, Fault: failed,
		StartedAt: at("2026-03-01T02:47:14.5Z"), EndedAt: at("2026-03-01T02:47:15.2Z")})
	return r
}

func waiting() *runtype.Run {
	r := &runtype.Run{
		ID: waiterID, Flow: "ModifyClass", Hash: strings.Repeat("cd", 32), Subject: "demo/default/c1", Phase: runtype.Waiting, Revision: 9, Epoch: 2,
		CreatedAt: now.Add(-3 * time.Minute), StartedAt: now.Add(-3 * time.Minute), NextAt: now.Add(7 * time.Minute),
	}
	r.Put(&runtype.StepRecord{Name: "Replace[ro-2]/Create", Phase: runtype.StepDone, Attempt: 2, Failures: 0, StartedAt: now.Add(-3 * time.Minute), EndedAt: now.Add(-2 * time.Minute)})
	r.Put(&runtype.StepRecord{Name: "Replace[ro-2]/Notify", Phase: runtype.StepSkipped, Note: "pager is down", Actor: "anna", EndedAt: now.Add(-2 * time.Minute)})
	r.Put(&runtype.StepRecord{Name: "Caught", Phase: runtype.StepWaiting, Attempt: 1, StartedAt: now.Add(-2 * time.Minute), NextAt: now.Add(7 * time.Minute),
		Wait: &runtype.WaitRecord{Signal: "caught-up", Since: now.Add(-2 * time.Minute), Deadline: now.Add(7 * time.Minute), Every: 5 * time.Second}})
	return r
}

func queued() *runtype.Run {
	return &runtype.Run{ID: queuedID, Flow: "SwitchWriter", Subject: "demo/default/c1", Phase: runtype.Queued, Queue: 1, Revision: 1, CreatedAt: now.Add(-time.Minute)}
}

var sampleEvents = []Event{
	{Run: sampleID, Seq: 7, At: at("2026-03-01T02:47:15.201Z"), Kind: runtype.StepFailedEvent, Step: "CreateRwPod", Attempt: 1, Code: unscheduled.Code, Message: "no node offers 8 CPU"},
	{Run: sampleID, Seq: 8, At: at("2026-03-01T02:47:15.201Z"), Kind: runtype.RunPaused, Actor: "engine"},
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got; `go test ./view -update` writes it anew):\n%s", name, diff)
	}
}

func text(lines []string) string { return strings.Join(lines, "\n") + "\n" }

func TestScreens(t *testing.T) {
	sample := OfRun(paused(), &sampleFlow)
	succeeded := sample
	succeeded.Phase, succeeded.Fault, succeeded.Stop, succeeded.PausedAt = runtype.Succeeded, nil, nil, time.Time{}
	succeeded.EndedAt = succeeded.StartedAt.Add(4*time.Minute + 12*time.Second)
	object := control.Object{
		Ref: control.Ref{Kind: "demo", Namespace: "default", Name: "c1"}, UID: "8c5f", Labels: map[string]string{"tier": "gold"}, Generation: 2, Revision: 42,
		CreatedAt: now.Add(-72 * time.Hour), Spec: json.RawMessage(`{"readers":2}`),
		Status: json.RawMessage(`{"state":"Interrupted","machine":{"state":"Interrupted","previous":"Creating","visit":2,"event":"created","since":"2026-03-01T02:47:15Z","held":true},
			"run":{"id":"` + sampleID + `","phase":"Paused","step":"CreateRwPod"},"fault":{"code":"POD_UNSCHEDULED","class":"blocked","title":"no node can take the pod","remedy":"Free or add a node with 8 CPU, then resume the run.","message":"no node offers 8 CPU","observedGeneration":2},
			"conditions":[{"type":"Progressing","status":"False","reason":"PodUnscheduled","message":"no node offers 8 CPU","observedGeneration":2}]}`),
	}
	two := object
	two.Ref, two.Status, two.DeletionMark, two.Finalizers = control.Ref{Kind: "demo", Namespace: "default", Name: "c2"}, nil, now.Add(-time.Hour), []string{"pawl.dev/guard"}
	list := OfRuns([]*runtype.Run{paused(), waiting(), queued()}, "", nil)
	list.Items[0].Subject, list.Items[2].Behind = "demo/default/c0", ""
	Queue(list.Items)
	plan := Plan{Flow: "Create", Steps: []PlanStep{{Name: "InitMeta", Decision: "run"}, {Name: "CreateRoPods", Decision: "skip", Why: "input.readers > 0"}}}
	healer := &workflow.Healer{Flow: "FreeNode", Limits: workflow.Limits{Attempts: 5}}
	flow, err := OfFlow(sampleFlow)
	if err != nil {
		t.Fatal(err)
	}
	flow.Hash = strings.Repeat("ab", 32)

	for name, got := range map[string]string{
		"tree-paused.txt":      text(Tree(sample, now, Style{})),
		"tree-waiting.txt":     text(Tree(OfRun(waiting(), nil), now, Style{})),
		"tree-succeeded.txt":   text(Tree(succeeded, now, Style{})),
		"tree-narrow.txt":      text(Tree(sample, now, Style{Width: 40})),
		"changes.txt":          text(Changes(nil, sample, now, Style{})),
		"get.txt":              RunTable(list.Items, now).Text(Style{}),
		"get-objects.txt":      ObjectTable([]control.Object{object, two}, now).Text(Style{}),
		"get-flows.txt":        FlowTable([]Flow{flow.Brief()}).Text(Style{}),
		"describe.txt":         Describe(sample, sampleEvents, now, Style{}),
		"describe-waiting.txt": Describe(OfRun(waiting(), nil), nil, now, Style{}),
		"describe-object.txt":  DescribeObject(object, []Run{sample}, now, Style{}),
		"describe-deleted.txt": DescribeObject(two, nil, now, Style{}),
		"history.txt":          text(HistoryLines(sampleEvents, Style{})),
		"explain.txt":          Explain(OfKind(unscheduled, healer), Style{}),
		"plan.txt":             text(PlanLines(plan)),
		"plan-machine.txt": text(MachinePlanLines(machine.Plan{Machine: "demo", Object: "demo/default/c1", State: "Running", Act: machine.Moves, To: "ScalingOut",
			Event: "more readers", Why: "3 readers are wanted, 2 exist", Params: json.RawMessage(`{"add": 1}`), Considered: []machine.Considered{
				{Event: "deleted", To: "Deleting", When: "object.metadata.deleting", Verdict: machine.Refused},
				{Event: "more readers", To: "ScalingOut", Why: "3 readers are wanted, 2 exist", Verdict: machine.Chosen}},
			Flow: &workflow.Plan{Flow: "ScaleOut", Steps: []workflow.PlanStep{{Name: "AddMember", Decision: "run"}}}})),
		"plan-links.txt": text(MachinePlanLines(machine.Plan{Object: "demo/default/c1", Act: machine.Work, Why: "AddPods: create pod a-1 and 1 more", Links: []machine.PlannedLink{
			{Link: "Network/Services", Verdict: machine.LinkDone},
			{Link: "AddPods", Verdict: machine.LinkDone, Acts: []string{"create pod a-1", "create pod a-2"}},
			{Link: "RemovePods", Verdict: machine.LinkLater, Acts: []string{"delete pod b-1"}, Held: true, Reason: "Held", Message: "its acts are held"},
			{Link: "Settle", Verdict: machine.LinkFail, Code: "PANIC", Message: "it fell over"},
			{Link: "Status", Verdict: machine.LinkUnknown, Message: "it says what it does only by doing it", Behind: "Settle"}}})),
		"problem.txt": text((&Problem{Code: "OBJECT_INVALID", Title: "malformed", Detail: "demo/default/c1: two mistakes", Remedy: "Mend them.",
			Errors: []ProblemError{{Location: "body.spec", Message: "is no object"}, {Message: "name is empty"}}}).Lines(Style{})),
	} {
		t.Run(name, func(t *testing.T) { golden(t, name, got) })
	}
}

// The JSON of a run keeps its names.
func TestRunJSON(t *testing.T) {
	data, err := json.MarshalIndent(OfRun(paused(), &sampleFlow), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "run.json", string(data)+"\n")

	var top map[string]any
	if err := json.Unmarshal(data, &top); err != nil {
		t.Fatal(err)
	}
	for _, name := range strings.Fields("id flow version hash subject phase revision epoch step attempt fault steps createdAt startedAt") {
		if _, ok := top[name]; !ok {
			t.Errorf("the run has no %q", name)
		}
	}
	failed := top["fault"].(map[string]any)
	for _, name := range strings.Fields("code class title remedy message details") {
		if _, ok := failed[name]; !ok {
			t.Errorf("the fault has no %q", name)
		}
	}
	if failed["guide"] != "Look at the nodes:\n\n    kubectl describe node n1\n" {
		t.Errorf("guide %q is not filled in", failed["guide"])
	}

	var back Run
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	if before, after := text(Tree(OfRun(paused(), &sampleFlow), now, Style{})), text(Tree(back, now, Style{})); before != after {
		t.Errorf("a decoded run reads differently:\n%s\n%s", before, after)
	}
}

// A zero time or an unset field is absent, never 0001-01-01.
func TestRunJSONHasNoZeroTimes(t *testing.T) {
	data, err := json.Marshal(OfRun(queued(), nil))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(data), "0001-01-01") || strings.Contains(string(data), "null") {
		t.Errorf("unset fields are present: %s", data)
	}
}

func TestChangesReportOnlyWhatIsNew(t *testing.T) {
	before := OfRun(paused(), &sampleFlow)
	if lines := Changes(&before, before, now, Style{}); len(lines) != 0 {
		t.Errorf("the same reading twice gave %q", lines)
	}
	stopped := before // it was resumed and paused for the same reason in between
	stopped.PausedAt = before.PausedAt.Add(time.Minute)
	if lines := strings.Join(Changes(&before, stopped, now, Style{}), "\n"); !strings.Contains(lines, "paused 02:48:15") {
		t.Errorf("stopped again: %q", lines)
	}
	after := OfRun(paused(), &sampleFlow)
	after.Phase, after.Fault = runtype.Running, nil
	after.Steps[2].Phase, after.Steps[2].Fault, after.Steps[2].Attempts = runtype.StepDone, nil, 2
	after.Steps[2].EndedAt = after.Steps[2].StartedAt.Add(31 * time.Second)
	want := []string{"✔ CreateRwPod     31s"}
	if diff := cmp.Diff(want, Changes(&before, after, now, Style{})); diff != "" {
		t.Error(diff)
	}
	again := after
	again.Steps = append([]Step{}, after.Steps...)
	again.Steps[2].Phase, again.Steps[2].Round = runtype.StepRetrying, 1
	again.Steps[2].Fault, again.Steps[2].NextAt, again.Steps[2].Failures = before.Fault, now.Add(3*time.Second), 2
	want = []string{"↻ CreateRwPod     attempt 2/10  POD_UNSCHEDULED  no node offers 8 CPU, again in 3s"}
	if diff := cmp.Diff(want, Changes(&after, again, now, Style{})); diff != "" {
		t.Error(diff)
	}
}

func TestReason(t *testing.T) {
	step := func(s Step) Run { return Run{Phase: runtype.Running, Step: "A", Steps: []Step{withName(s)}} }
	for name, c := range map[string]struct {
		run  Run
		want string
	}{
		"queued":           {Run{Phase: runtype.Queued, Queue: 3}, "number 3 in the queue"},
		"behind":           {Run{Phase: runtype.Queued, Queue: 3, Behind: waiterID}, "behind b7qd"},
		"limits of a list": {Run{Phase: runtype.Queued, CreatedAt: now.Add(-14 * time.Second), Limits: []Limit{{Key: "a", AtOnce: 1}, {Key: "b", AtOnce: 2}}}, "waits for limit a, b, 14s"},
		"full limit": {Run{Phase: runtype.Queued, CreatedAt: now.Add(-14 * time.Second), Limits: []Limit{
			{Key: "a", AtOnce: 2, Running: 1, Waiting: 1}, {Key: "provider/aws", AtOnce: 3, Running: 3, Waiting: 4, Before: 2},
		}}, "waits for limit provider/aws: 3 of 3 running, 2 before it, 14s"},
		"queued with limits": {Run{Phase: runtype.Queued, Queue: 2, Limits: []Limit{{Key: "a", AtOnce: 1}}}, "number 2 in the queue"},
		"paused by person":   {Run{Phase: runtype.Paused, Fault: &Fault{Code: "PAUSED"}, Stop: &Stop{Verb: "pause", Actor: "anna", Reason: "lunch"}}, "PAUSED by anna: lunch"},
		"healing":            {Run{Phase: runtype.Paused, Fault: &Fault{Code: "X", Message: "y"}, Healing: []Healing{{NextAt: now.Add(10 * time.Second)}}}, "X y, healing in 10s"},
		"healing ended":      {Run{Phase: runtype.Paused, Fault: &Fault{Code: "X", Message: "y"}, Healing: []Healing{{Ended: "exhausted"}}}, "X y"},
		"undo":               {Run{Phase: runtype.Cancelling, Stop: &Stop{Verb: "cancel", Mode: "undo", Actor: "anna", Reason: "wrong class"}}, "cancel undo by anna: wrong class"},
		"timer":              {step(Step{Phase: runtype.StepWaiting, Wait: &Wait{Until: now.Add(time.Hour)}}), "timer, ends in 1h"},
		"child":              {step(Step{Phase: runtype.StepWaiting, Wait: &Wait{Child: queuedID}}), "run x2fa"},
		"own wait":           {step(Step{Phase: runtype.StepWaiting, Wait: &Wait{Reason: "CatchingUp", Message: "12 bytes\nbehind"}}), "CatchingUp: 12 bytes behind"},
		"deadline has come":  {step(Step{Phase: runtype.StepWaiting, Wait: &Wait{Signal: "s", Deadline: now}}), "signal s, deadline now"},
		"progress":           {step(Step{Phase: runtype.StepRunning, Attempts: 1, Progress: &Progress{Done: 3, Total: 10, Text: "files"}}), "3/10 files"},
		"isolated":           {step(Step{Phase: runtype.StepRunning, Attempts: 3, Isolated: true}), "isolated, attempt 3"},
		"stalled":            {Run{Phase: runtype.Running, Warning: "Stalled"}, "stalled"},
		"no worker":          {Run{ID: waiterID, Phase: runtype.Running, Warning: NoWorker, Steps: []Step{{Phase: runtype.StepRunning, Attempts: 2}}}, "no process works on it, go on with: pawl resume b7qd"},
		"nothing":            {Run{Phase: runtype.Succeeded}, ""},
	} {
		if got := Reason(c.run, now); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func withName(s Step) Step { s.Name = "A"; return s }

func TestRemedy(t *testing.T) {
	for remedy, want := range map[string]string{
		"Free a node, then resume the run.":         "Free a node, then: pawl resume gk3v",
		"Free a node, then resume.":                 "Free a node, then: pawl resume gk3v",
		"Mend it and resume it":                     "Mend it, then: pawl resume gk3v",
		"Resume the run when you are ready.":        "Resume the run when you are ready.",
		"Start a new run.":                          "Start a new run.",
		"Allow the server\nto read it, then resume": "Allow the server to read it, then: pawl resume gk3v",
	} {
		if got := Remedy(remedy, sampleID); got != want {
			t.Errorf("%q: got %q, want %q", remedy, got, want)
		}
	}
}

func TestShort(t *testing.T) {
	for _, c := range []struct {
		id     string
		others []string
		want   string
	}{
		{"abcdefgh", nil, "abcd"},
		{"abcdefgh", []string{"abcdefgh", "zzzz"}, "abcd"},
		{"abcdefgh", []string{"abcdexxx"}, "abcdef"},
		{"ab", nil, "ab"},
	} {
		if got := Short(c.id, c.others...); got != c.want {
			t.Errorf("Short(%q, %q) = %q, want %q", c.id, c.others, got, c.want)
		}
	}
}

func TestSpans(t *testing.T) {
	for d, want := range map[time.Duration][2]string{
		-time.Second:                                {"0.0s", "0s"},
		99 * time.Millisecond:                       {"0.0s", "0s"},
		2450 * time.Millisecond:                     {"2.4s", "2s"},
		9999 * time.Millisecond:                     {"9.9s", "9s"},
		31 * time.Second:                            {"31s", "31s"},
		4*time.Minute + 12*time.Second:              {"4m12s", "4m"},
		3*time.Hour + 4*time.Minute:                 {"3h04m", "3h"},
		53 * time.Hour:                              {"2d05h", "2d"},
		59*time.Minute + 59*time.Second + 999999999: {"59m59s", "59m"},
	} {
		if got := [2]string{Took(d), Age(d)}; got != want {
			t.Errorf("%v: got %q, want %q", d, got, want)
		}
	}
}

func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		want int
	}{
		{"nothing", nil, 0},
		{"not found", workflow.RunNotFound.Errorf("x"), 1},
		{"not found by a store", fmt.Errorf("load: %w", runstore.ErrNotFound), 1},
		{"refused", workflow.NoReturn.Errorf("x"), 1},
		{"unknown flow", workflow.FlowUnknown.Errorf("x"), 1},
		{"bad input", runtype.InputInvalid.Errorf("x"), 2},
		{"bad flow", workflow.FlowInvalid.Errorf("x"), 2},
		{"bad object", control.Invalid.Errorf("x"), 2},
		{"store away", runstore.StoreUnavailable.Errorf("x"), 1},
		{"undeclared", errors.New("x"), 1},
		{"own", fmt.Errorf("flags: %w", exitCode(2)), 2},
		{"over the wire", &Problem{Status: 422, Code: "INPUT_INVALID"}, 2},
	} {
		if got := ExitOf(c.err); got != c.want {
			t.Errorf("%s: exit %d, want %d", c.name, got, c.want)
		}
	}
	for phase, want := range map[runtype.Phase]int{
		runtype.Succeeded: 0, runtype.Cancelled: 1, runtype.Paused: 4, runtype.Running: 3, runtype.Waiting: 3, runtype.Queued: 3, runtype.Cancelling: 3,
	} {
		if got := ExitOfRun(Run{Phase: phase}); got != want {
			t.Errorf("%s: exit %d, want %d", phase, got, want)
		}
	}
	if got := ExitOfRun(Run{Phase: runtype.Running, Warning: "Stalled"}); got != 4 {
		t.Errorf("stalled: exit %d, want 4", got)
	}
}

func TestStateOfObjects(t *testing.T) {
	object := func(status string) control.Object {
		return control.Object{Generation: 2, Status: json.RawMessage(status)}
	}
	for _, c := range []struct {
		name, status, state, line, run string
		exit                           int
	}{
		{"none", ``, "", "", "", 0},
		{"not an object", `[1]`, "", "", "", 0},
		{"wrong types", `{"state":7,"run":[],"conditions":{},"fault":"x"}`, "", "", "", 0},
		{"without a machine", `{"phase":"Ready","reason":"Fine","message":"all is well"}`, "Ready", "Fine all is well", "", 0},
		{"rests", `{"state":"Running","machine":{},"conditions":[{"type":"Progressing","status":"False","reason":"Rests","observedGeneration":2}]}`, "Running", "", "", 0},
		{"works", `{"state":"Scaling","run":{"id":"r1","step":"AddMember"},"conditions":[{"type":"Progressing","status":"True","reason":"Scaling","message":"under way","observedGeneration":2}]}`,
			"Scaling", "under way AddMember", "r1", 3},
		{"has not seen the spec", `{"state":"Running","conditions":[{"type":"Progressing","status":"False","reason":"Rests","observedGeneration":1}]}`, "Running", "", "", 3},
		{"is held", `{"state":"Interrupted","run":"r1","fault":{"code":"POD_UNSCHEDULED","title":"no node can take the pod"}}`, "Interrupted", "POD_UNSCHEDULED no node can take the pod", "r1", 4},
	} {
		o := object(c.status)
		s := StateOf(o)
		if s.State != c.state || s.Line() != c.line || s.Run != c.run || ExitOfObject(o) != c.exit {
			t.Errorf("%s: %+v, %q, exit %d", c.name, s, s.Line(), ExitOfObject(o))
		}
	}
}

type exitCode int

func (c exitCode) Error() string { return "usage" }
func (c exitCode) ExitCode() int { return int(c) }

// Every declared fault has a status in the API that matches its class.
func TestStatusOfEveryFault(t *testing.T) {
	for _, kind := range fault.All() {
		p := ProblemOf(kind.Errorf("it happened").With("node", "n1"))
		switch {
		case p.Status < 400 || p.Status > 599:
			t.Errorf("%s: status %d is no error", kind.Code, p.Status)
		case kind.Class == fault.Invalid && p.Status >= 500:
			t.Errorf("%s: the caller's mistake is reported as %d", kind.Code, p.Status)
		case p.Code != kind.Code || p.Class != kind.Class || p.Remedy != kind.Remedy || p.Title != kind.Title || p.Detail != "it happened":
			t.Errorf("%s: its words are lost: %+v", kind.Code, p)
		case p.Details["node"] != "n1":
			t.Errorf("%s: its details are lost: %v", kind.Code, p.Details)
		case !errors.Is(p, kind), fault.Of(p) != kind:
			t.Errorf("%s: fault.Of does not know the problem", kind.Code)
		}
	}
	for code := range statuses {
		if _, ok := fault.Lookup(string(code)); !ok {
			t.Errorf("%s has a status and is not declared", code)
		}
	}
}

func TestProblemListsMistakes(t *testing.T) {
	err := control.Object{Ref: control.Ref{Kind: "demo", Namespace: "Upper", Name: ""}}.Validate()
	p := ProblemOf(err)
	if len(p.Errors) != 2 || p.Details["problems"] != nil {
		t.Errorf("want two errors and no problems among the details, got %+v", p)
	}
}

func TestGuideThatCannotBeFilledIn(t *testing.T) {
	for guide, want := range map[string]string{
		"plain":        "plain",
		"{{.node}}":    "?",
		"{{.node":      "{{.node",
		"{{call .x}}!": "{{call .x}}!",
	} {
		if got := Guide(&fault.Kind{Guide: guide}, nil); got != want {
			t.Errorf("%q: got %q, want %q", guide, got, want)
		}
	}
}

func TestSimilar(t *testing.T) {
	if got := Similar("TIMEUOT"); len(got) == 0 || got[0] != "TIMEOUT" {
		t.Errorf("got %q", got)
	}
	if got := Similar("QQQQQQQQ"); got != nil {
		t.Errorf("got %q", got)
	}
}

func TestDefinition(t *testing.T) {
	flow := &workflow.Flow{Steps: []workflow.Step{
		{Name: "Loop", Steps: []workflow.Step{{Name: "B", Open: &workflow.Step{Name: "Off"}, Close: &workflow.Step{Name: "On"}, Steps: []workflow.Step{{Name: "S"}}}}},
	}, Finally: []workflow.Step{{Name: "Clean"}}}
	for name, want := range map[string]bool{"Loop[a.b:c]/B/S": true, "Loop[x]/B/Off": true, "Loop[x]/B/On": true, "Clean": true, "Loop/S": false, "": false} {
		if _, ok := (&definitions{flow: flow}).find(name); ok != want {
			t.Errorf("%q: found %v, want %v", name, ok, want)
		}
	}
}

// The JSON forms contain all that the engine records: a new field fails here until it is handled.
func TestNothingIsForgotten(t *testing.T) {
	for _, c := range []struct {
		of    reflect.Type
		known string
	}{
		{reflect.TypeFor[runtype.Event](), "Run Seq At Kind Step Attempt Actor Reason Message Code Data"},
		{reflect.TypeFor[runtype.WaitRecord](), "Reason Message Since Deadline Every Signal Child Until"},
		{reflect.TypeFor[runtype.Fault](), "Code Message Details Step Attempt At Exhausted Healer"},
	} {
		var fields []string
		for i := range c.of.NumField() {
			fields = append(fields, c.of.Field(i).Name)
		}
		if got := strings.Join(fields, " "); got != c.known {
			t.Errorf("%s has the fields %s, view knows %s", c.of, got, c.known)
		}
	}
}

func ExampleChanges() {
	var last *Run
	for _, reading := range []Run{OfRun(paused(), &sampleFlow)} { // one reading after each change
		for _, line := range Changes(last, reading, now, Style{}) {
			fmt.Println(line)
		}
		last = &reading
	}
	// Output:
	// RUN gk3v…  CreateSharedStorageCluster  demo/default/c1
	// ✔ InitMeta        0.1s
	// ✔ PrepareStorage  2.4s
	// ✖ CreateRwPod     attempt 1/10  POD_UNSCHEDULED  no node offers 8 CPU
	// ॥ paused 02:47:15
	//   remedy: Free or add a node with 8 CPU, then: pawl resume gk3v
}

// Steps that ended together are printed in the order of their ends, a loop after its last item.
func TestChangesOrderAStructureAfterItsSteps(t *testing.T) {
	at := func(s int) time.Time { return time.Date(2026, 1, 2, 3, 4, s, 0, time.UTC) }
	done := func(name string, s int) Step {
		return Step{Name: name, Phase: runtype.StepDone, StartedAt: at(s), EndedAt: at(s)}
	}
	before := Run{Phase: runtype.Running}
	after := before
	after.Steps = []Step{done("Add", 3), done("Add[a]/Start", 1), done("Add[b]/Start", 3), done("Add[b]/Install", 2), {Name: "Open", Phase: runtype.StepWaiting}}
	var reported []string
	for _, line := range Changes(&before, after, at(4), Style{}) {
		reported = append(reported, strings.Fields(line)[1])
	}
	want := []string{"Add[a]/Start", "Add[b]/Install", "Add[b]/Start", "Add", "Open"}
	if diff := cmp.Diff(want, reported); diff != "" {
		t.Error(diff)
	}
}
