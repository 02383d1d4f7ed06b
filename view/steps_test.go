package view

import (
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// longRun returns a run with n done steps, and its flow.
func longRun(n int) (*runtype.Run, *workflow.Flow) {
	begun := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	flow := &workflow.Flow{Name: "Long"}
	r := &runtype.Run{ID: sampleID, Flow: "Long", Phase: runtype.Running, Subject: "demo/default/long", CreatedAt: begun, StartedAt: begun}
	for i := range n {
		name := fmt.Sprintf("s%05d", i)
		flow.Steps = append(flow.Steps, workflow.Step{Name: name, Retry: workflow.Retry{Attempts: 3}})
		r.Put(&runtype.StepRecord{Name: name, Phase: runtype.StepDone, Ord: int64(i + 1), Attempt: 1, StartedAt: begun, EndedAt: begun.Add(time.Duration(i))})
	}
	return r, flow
}

// allocated returns the bytes that do allocates.
func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestReadingARunIsLinearInItsSteps(t *testing.T) {
	cost := func(n int) uint64 {
		r, flow := longRun(n)
		return allocated(func() {
			if v := OfRun(r, flow); len(v.Steps) != n || v.Steps[n-1].Budget != 3 {
				t.Errorf("%d steps, the last with %+v", len(v.Steps), v.Steps[n-1])
			}
		})
	}
	small, large := cost(500), cost(4000)
	if large > 12*small {
		t.Errorf("500 steps cost %d bytes, 4,000 cost %d: more than eight times as much", small, large)
	}
}

func TestStepsComeInPages(t *testing.T) {
	r, flow := longRun(2500)
	var names []string
	after := 0
	for {
		page := OfSteps(r, flow, after, 1000)
		for _, s := range page.Items {
			names = append(names, s.Name)
			if s.Budget != 3 {
				t.Fatalf("%+v", s)
			}
		}
		if page.Next == "" {
			break
		}
		next, err := strconv.Atoi(page.Next)
		if err != nil || next != after+1000 {
			t.Fatal(page.Next, err)
		}
		after = next
	}
	if len(names) != 2500 || names[0] != "s00000" || names[2499] != "s02499" {
		t.Errorf("%d steps, %s to %s", len(names), names[0], names[len(names)-1])
	}
	if rest := OfSteps(r, flow, 2500, 10); len(rest.Items) != 0 || rest.Next != "" {
		t.Errorf("behind the end: %+v", rest)
	}
}

func TestStepStatesCountTheStepsOfAPath(t *testing.T) {
	r, _ := longRun(2)
	for i, s := range []struct {
		name  string
		phase runtype.StepPhase
	}{{"Loop[a]/Do", runtype.StepDone}, {"Loop[b]/Do", runtype.StepFailed}, {"Loop[c]/Do", runtype.StepDone}, {"Loop[d]/Do", runtype.StepDone}} {
		r.Put(&runtype.StepRecord{Name: s.name, Phase: s.phase, Ord: int64(10 + i)})
	}
	want := []StepState{
		{Path: "s00000", Phase: runtype.StepDone, Count: 1}, {Path: "s00001", Phase: runtype.StepDone, Count: 1},
		{Path: "Loop/Do", Phase: runtype.StepDone, Count: 3, Name: "Loop[a]/Do"}, {Path: "Loop/Do", Phase: runtype.StepFailed, Count: 1, Name: "Loop[b]/Do"},
	}
	if got := OfStepStates(r).Items; !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
}

func TestAnAnswerHoldsTheNewestSteps(t *testing.T) {
	r, flow := longRun(2500)
	r.Step("s00007").Phase = runtype.StepFailed
	v := OfRun(r, flow).Newest(StepPage)
	if len(v.Steps) != StepPage || v.EarlierSteps != 1500 || v.Step != "s00007" || v.Current() == nil || v.Steps[StepPage-1].Name != "s02499" {
		t.Errorf("%d steps, %d earlier, stands at %s", len(v.Steps), v.EarlierSteps, v.Step)
	}
	if short := OfRun(r, flow).Newest(2500); len(short.Steps) != 2500 || short.EarlierSteps != 0 {
		t.Errorf("%d steps, %d earlier", len(short.Steps), short.EarlierSteps)
	}
	now := r.CreatedAt.Add(time.Hour)
	if text := Describe(v, nil, now, Style{}); !strings.Contains(text, "… 1500 earlier steps: pawl describe") {
		t.Errorf("describe does not tell of the earlier steps:\n%.600s", text)
	}
	tree := Tree(v, now, Style{Height: 20})
	if len(tree) != 20 || !strings.Contains(tree[1], "lines above") || !strings.Contains(tree[len(tree)-1], "s02499") {
		t.Errorf("a tree of %d lines on 20: %q … %q", len(tree), tree[1], tree[len(tree)-1])
	}
	before := OfRun(r, flow).Newest(StepPage)
	for i := range 1200 {
		r.Put(&runtype.StepRecord{Name: fmt.Sprintf("more%d", i), Phase: runtype.StepDone, Ord: int64(3000 + i), Attempt: 1, StartedAt: r.CreatedAt, EndedAt: r.CreatedAt})
	}
	after := OfRun(r, flow).Newest(StepPage)
	lines := Changes(&before, after, now, Style{})
	if len(lines) == 0 || !strings.Contains(lines[0], "… 200 steps between") {
		t.Errorf("%d lines, the first %q", len(lines), lines[0])
	}
}
