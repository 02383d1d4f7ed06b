package wfengine_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/pawl-dev/pawl/compat/define"
	"github.com/pawl-dev/pawl/compat/statemachine"
	"github.com/pawl-dev/pawl/compat/wfengine"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

// A process that dies between any two writes leaves a record with which the next one continues: no
// step that was saved as done is repeated, and none is skipped (defect 1: the first checkpoint
// blocked the resource forever).
func TestCrashAtEveryWrite(t *testing.T) {
	var writes int
	synctest.Test(t, func(t *testing.T) {
		kept := &texts{}
		l := newHarness(t, func(l *harness) { l.storage = kept.factory })
		l.until(statemachine.StateRunning, 1)
		writes = kept.saves
	})
	if writes < 6 {
		t.Fatalf("a flow of four steps made %d writes", writes)
	}
	for at := range writes {
		for _, stored := range []bool{false, true} { // the write at which it dies
			synctest.Test(t, func(t *testing.T) {
				died := errors.New("the process has died")
				kept, n := &texts{}, 0
				l := newHarness(t, func(l *harness) { l.storage = kept.factory })
				kept.refuse = func(string) error {
					switch n++; {
					case n <= at:
						return nil
					case stored && n == at+1:
						return errStored
					}
					return died
				}
				go func() { _ = l.pass() }() // it hangs at the store until the virtual clock continues
				time.Sleep(time.Second)
				left, _ := kept.LoadMementoMap("") // what an external storage would have now
				frozen := &texts{data: left}
				before := l.done()
				l.storage = frozen.factory
				l.restart()
				l.until(statemachine.StateRunning, 20)
				count := map[string]int{}
				for _, step := range l.done()[len(before):] {
					count[step]++
				}
				for _, step := range []string{"First", "Second", "Third", "Last"} {
					saved := strings.Contains(strings.Join(before, " "), step)
					if count[step] > 1 || count[step] == 0 && !saved {
						t.Errorf("dead at write %d (stored: %t): %s ran %d times in the next process; before: %v", at, stored, step, count[step], before)
					}
				}
				kept.mu.Lock()
				kept.refuse = nil
				kept.mu.Unlock()
				time.Sleep(time.Hour) // the old process ends, with its own storage
			})
		}
	}
}

// Failures, interruptions and waits are stored: a restart refills no budget and loses no reason.
func TestRestartKeepsAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kept := &texts{}
		l := newHarness(t, func(l *harness) { l.storage = kept.factory })
		l.on("Second", times(10, errors.New("not ready")))
		var err error
		for l.state() == statemachine.StateCreating {
			err = l.pass()
			l.restart()
			time.Sleep(time.Second)
		}
		if _, stop := define.IsInterruptError(err); stop == nil || stop.Reason != "MANY_RETRY" || len(l.done()) != 11 {
			t.Errorf("%v after %d steps", err, len(l.done()))
		}
		l.resume()
		l.until(statemachine.StateRunning, 3)
	})
}

// A storage of the user's own kind gets texts in the known format, and does not grow: a new flow
// takes the key of an ended one (defect 10).
func TestTexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kept := &texts{}
		l := newHarness(t, func(l *harness) { l.storage = kept.factory })
		for range 60 {
			l.cluster.edit(t, l.name(), func(o *corev1.ConfigMap) { o.Data["state"] = "Creating" })
			l.until(statemachine.StateRunning, 1)
		}
		if err := l.flow().Run(t.Context(), "Rebuild", nil); err != nil {
			t.Fatal(err)
		}
		if len(kept.data) != 2 {
			t.Errorf("61 flows of two kinds have %d keys", len(kept.data))
		}
		var record struct {
			FlowName, FlowStatus, StartTime, CompleteTime string
			RunningSteps                                  []struct{ StepName, StepStatus string }
			InitContext                                   map[string]any
		}
		if err := json.Unmarshal([]byte(kept.data["1-Create"]), &record); err != nil {
			t.Fatal(err)
		}
		if record.FlowName != "Create" || record.FlowStatus != "completed" || record.StartTime == "" || record.CompleteTime == "" ||
			len(record.RunningSteps) != 4 || record.RunningSteps[2].StepName != "Third" || record.RunningSteps[2].StepStatus != "completed" || record.InitContext["size"] != 3.0 {
			t.Errorf("the record is %+v", record)
		}
	})
}

// An unfinished flow of the PolarDB Stack engine continues where it stopped.
func TestTakeOver(t *testing.T) {
	steps := func(first, second string) string {
		return `"runningSteps":[{"StepName":"First","stepStatus":"` + first + `","contextOutput":{"id":7}},{"StepName":"Second","stepStatus":"` + second + `"},{"StepName":"Third","stepStatus":"prepared"},{"StepName":"Last","stepStatus":"prepared"}]`
	}
	of := func(status, rest string) string {
		return `{"flowStatus":"` + status + `","flowName":"Create","startTime":"2021-07-21 08:32:47.492","initContext":{"_resourceName":"NAME","_resourceNameSpace":"default","size":3},` + rest + `}`
	}
	for name, c := range map[string]struct {
		left    map[string]string
		state   statemachine.State
		resume  bool
		did     string
		stopped string
	}{
		"running":                        {map[string]string{"4-Create": of("running", steps("completed", "inited"))}, "Creating", false, "Second Third Last", ""},
		"waiting":                        {map[string]string{"4-Create": of("waiting", steps("completed", "waiting"))}, "Creating", false, "Second Third Last", ""},
		"the first checkpoint":           {map[string]string{"4-Create": of("prepared", steps("prepared", "prepared"))}, "Creating", false, "First Second Third Last", ""},
		"interrupted":                    {map[string]string{"3-Create": of("completed", steps("completed", "completed")), "4-Create": of("failedAndCompleted", steps("completed", "failed"))}, "Interrupt", true, "Second Third Last", ""},
		"an older one was interrupted":   {map[string]string{"2-Create": of("failedAndCompleted", steps("completed", "failed")), "4-Create": of("running", steps("completed", "completed"))}, "Creating", false, "Third Last", ""},
		"only older ones":                {map[string]string{"2-Create": of("failedAndCompleted", steps("completed", "failed")), "4-Create": of("completed", steps("completed", "completed"))}, "Creating", false, "First Second Third Last", ""},
		"damaged":                        {map[string]string{"4-Create": "{"}, "Creating", false, "", "INPUT_INVALID"},
		"a damaged one behind another":   {map[string]string{"1-Create": "{", "4-Create": of("running", steps("completed", "inited"))}, "Creating", false, "Second Third Last", ""},
		"keys that are not the engine's": {map[string]string{"note": "x", "4-Create": of("running", steps("completed", "inited"))}, "Creating", false, "Second Third Last", ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				kept := &texts{data: map[string]string{}}
				l := newHarness(t, func(l *harness) { l.storage = kept.factory })
				for key, text := range c.left {
					kept.data[key] = strings.ReplaceAll(text, "NAME", l.name())
				}
				l.cluster.edit(t, l.name(), func(o *corev1.ConfigMap) {
					o.Data["state"] = string(c.state)
					o.Annotations = map[string]string{"interrupt.previous.status": "Creating", "interrupt.recover": "F", "interrupt.reason": "R"}
				})
				if c.stopped != "" {
					if _, stop := define.IsInterruptError(l.pass()); stop == nil || stop.Reason != c.stopped {
						t.Errorf("it was not interrupted by %s, but by %v", c.stopped, stop)
					}
					return
				}
				if c.resume {
					l.resume()
				}
				l.until(statemachine.StateRunning, 2)
				l.want(strings.Fields(c.did)...)
				l.restart() // it is not taken over a second time
				if name, _, err := l.flow().RunLastUnCompletedRuntime(t.Context(), "", false); name != "" || err != nil {
					t.Errorf("after a restart there is %q left: %v", name, err)
				}
			})
		})
	}
}

// A storage that fails at first is written later; a panic of one does not spread.
func TestStorageFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kept, n := &texts{}, 0
		kept.refuse = func(string) error {
			if n++; n%3 == 0 {
				return errors.New("away")
			}
			if n%5 == 0 {
				panic("storage")
			}
			return nil
		}
		l := newHarness(t, func(l *harness) { l.storage = kept.factory })
		l.until(statemachine.StateRunning, 20)
		l.want("First", "Second", "Third", "Last")
	})
	l := newHarness(t, func(l *harness) {
		l.storage = func(statemachine.StateResource) (wfengine.WfRuntimeMementoStorage, error) {
			return nil, errors.New("no storage")
		}
	})
	if _, err := l.manager.CreateResourceWorkflow(l.resource()); err == nil || err.Error() != "no storage" {
		t.Error(err)
	}
}

// Runs in texts are fenced within the process.
func TestTextsCompare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kept := &texts{}
		l := newHarness(t, func(l *harness) { l.storage = kept.factory })
		l.on("First", func() error { return wfengine.NewWaitingError() })
		_ = l.pass()
		flow := l.flow()
		store := wfengine.Engine(flow).Store()
		old, _, err := store.Load(t.Context(), wfengine.RunOf(flow))
		if err != nil {
			t.Fatal(err)
		}
		stale := *old
		if err := store.Save(t.Context(), &runstore.Save{Run: old}); err != nil {
			t.Fatal(err)
		}
		if err := store.Save(t.Context(), &runstore.Save{Run: &stale}); !errors.Is(err, runstore.ErrConflict) {
			t.Errorf("an old revision is saved: %v", err)
		}
		stale.Revision, stale.Epoch = old.Revision, old.Epoch-1
		if err := store.Save(t.Context(), &runstore.Save{Run: &stale}); !errors.Is(err, runstore.ErrFenced) {
			t.Errorf("an old epoch is saved: %v", err)
		}
	})
}
