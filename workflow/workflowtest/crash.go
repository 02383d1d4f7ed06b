package workflowtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Crash says at which save the process of a play dies. Its zero value is a play without a crash.
// [EveryCrash] and [Explore] make them; a play gives it to [New] in [Options].
type Crash struct {
	at     int  // number of the save, from 1; 0: never
	after  bool // the save happens, and then the process dies
	calm   *ending
	got    *ending
	writes int // saves that the first process has made
	saved  string
}

// String names the play: "no crash", "crash before save 3".
func (c *Crash) String() string {
	switch {
	case c.at == 0:
		return "no crash"
	case c.after:
		return fmt.Sprintf("crash after save %d", c.at)
	}
	return fmt.Sprintf("crash before save %d", c.at)
}

// EveryCrash calls play in a bubble of testing/synctest, first without a crash, and then once with a
// crash before and once with a crash after each save. After a crash, another worker continues the
// run, and a call of the play that has met the crash is repeated with the same id. The test fails if
// a play fails or ends otherwise than the first one: another phase, fault, result or output, other
// phases of steps, other work done or undone.
//
// What play uses besides the engine, such as a fake of the outside world, it makes anew in each
// call. The fake outlives the crash, as the world does.
func EveryCrash(t *testing.T, play func(t *testing.T, crash *Crash)) {
	t.Helper()
	Explore(func(c *Crash) bool {
		return t.Run(c.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { play(t, c) })
			if c.got == nil && !t.Failed() {
				t.Fatal("the play made no engine with this crash: set Options.Crash")
			}
		})
	})
}

// Explore calls play as [EveryCrash] does, without a test. It stops after the first play without a
// crash that fails, and after three plays that fail. It returns the number of crashes.
func Explore(play func(*Crash) bool) int {
	calm := &Crash{}
	if !play(calm) || calm.got == nil {
		return 0
	}
	n, failed := 0, 0
	for at := 1; at <= calm.writes; at++ {
		for _, after := range []bool{false, true} {
			n++
			if !play(&Crash{at: at, after: after, calm: calm.got}) {
				failed++
			}
			if failed == 3 {
				return n
			}
		}
	}
	return n
}

// ending is what is compared between two plays: the runs by their id.
type ending struct {
	runs map[string]runEnding
	done []string // work by step and round, sorted; see effects
}

type runEnding struct {
	flow   string
	phase  runtype.Phase
	fault  fault.Code
	result json.RawMessage
	steps  map[string]stepEnding
}

type stepEnding struct {
	phase  runtype.StepPhase
	output json.RawMessage
}

func endingOf(runs []*runtype.Run, done map[string]bool) *ending {
	e := &ending{runs: map[string]runEnding{}, done: slices.Sorted(maps.Keys(done))}
	for _, r := range runs {
		end := runEnding{flow: r.Flow, phase: r.Phase, result: r.Result(), steps: map[string]stepEnding{}}
		if r.Fault != nil {
			end.fault = r.Fault.Code
		}
		for s := range r.Steps() {
			end.steps[s.Name] = stepEnding{s.Phase, s.Output}
		}
		e.runs[r.ID] = end
	}
	return e
}

// differences says how another ending differs from this one.
func (e *ending) differences(other *ending) []string {
	var all []string
	differ := func(what string, want, got any) {
		if w, g := fmt.Sprint(want), fmt.Sprint(got); w != g {
			all = append(all, fmt.Sprintf("%s is %s, without a crash %s", what, orNone(g), orNone(w)))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(e.runs)) {
		want, got := e.runs[id], other.runs[id]
		differ("phase of "+want.flow, want.phase, got.phase)
		differ("fault of "+want.flow, want.fault, got.fault)
		if !bytes.Equal(want.result, got.result) {
			differ("result of "+want.flow, string(want.result), string(got.result))
		}
		names := slices.Collect(maps.Keys(want.steps))
		for name := range got.steps {
			if _, ok := want.steps[name]; !ok {
				names = append(names, name)
			}
		}
		for _, name := range slices.Sorted(slices.Values(names)) {
			w, g := want.steps[name], got.steps[name]
			differ("phase of step "+name, w.phase, g.phase)
			differ("output of step "+name, string(w.output), string(g.output))
		}
	}
	if len(e.runs) != len(other.runs) {
		differ("number of runs", len(e.runs), len(other.runs))
	}
	differ("work done", strings.Join(e.done, ", "), strings.Join(other.done, ", "))
	return all
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}
