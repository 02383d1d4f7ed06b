package wfengine_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"

	"github.com/pawl-dev/pawl/compat/define"
	"github.com/pawl-dev/pawl/compat/statemachine"
	"github.com/pawl-dev/pawl/compat/wfengine"
)

// listener records the calls of the hook, and fails as configured.
type listener struct {
	flow *wfengine.WfRuntime
	to   *recorder
}

type recorder struct {
	mu    sync.Mutex
	lines []string
	fail  func(line string) error
}

func (h *recorder) factory(flow *wfengine.WfRuntime) (wfengine.WfHook, error) {
	return &listener{flow, h}, nil
}

func (l *listener) tell(format string, args ...any) error {
	line := fmt.Sprintf(format, args...)
	l.to.mu.Lock()
	l.to.lines = append(l.to.lines, line)
	fail := l.to.fail
	l.to.mu.Unlock()
	if fail != nil {
		return fail(line)
	}
	return nil
}

func (l *listener) OnWfInit() error      { return l.tell("init %s", l.flow.FlowStatus) }
func (l *listener) OnWfCompleted() error { return l.tell("end %s", l.flow.FlowStatus) }
func (l *listener) OnWfInterrupt(err *define.InterruptError) error {
	return l.tell("interrupt %s %s", err.Reason, l.flow.FlowStatus)
}
func (l *listener) OnStepInit(s *wfengine.StepRuntime) error {
	return l.tell("begin %s %d", s.StepName, s.RetryTimes)
}
func (l *listener) OnStepWaiting(s *wfengine.StepRuntime) error { return l.tell("wait %s", s.StepName) }
func (l *listener) OnStepCompleted(s *wfengine.StepRuntime) error {
	return l.tell("%s %s", s.StepStatus, s.StepName)
}

func (h *recorder) want(t *testing.T, lines ...string) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if got, want := strings.Join(h.lines, "\n"), strings.Join(lines, "\n"); got != want {
		t.Errorf("heard\n%s\n\nwant\n%s", got, want)
	}
	h.lines = nil
}

// The order of hook calls; they are complete when a call returns.
func TestHooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &recorder{}
		l := newHarness(t, func(l *harness) { l.hook = h.factory })
		l.on("First", times(1, errors.New("not ready")))
		l.on("Second", times(1, wfengine.NewWaitingError()))
		l.on("Third", times(1, wfengine.NewInterruptError("R", "m")))
		_ = l.pass()
		h.want(t, "init prepared", "begin First 0", "failed First")
		_ = l.pass()
		h.want(t, "init failed", "begin First 1", "completed First", "begin Second 0", "wait Second")
		_ = l.pass()
		h.want(t, "init waiting", "completed Second", "begin Third 0", "failed Third", "interrupt R failedAndCompleted")
		l.resume()
		l.until(statemachine.StateRunning, 2)
		h.want(t, "init failedAndCompleted", "begin Third 1", "completed Third", "begin Last 0", "completed Last", "end completed")
	})
}

// Defect 16: a hook that fails, panics or hangs fails no flow and repeats no step, and a manager
// works without hooks, too.
func TestHooksCannotHarm(t *testing.T) {
	for name, fail := range map[string]func(string) error{
		"error": func(string) error { return errors.New("hook") },
		"panic": func(line string) error { panic(line) },
		"hang":  func(string) error { time.Sleep(30 * time.Second); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newHarness(t, func(l *harness) { l.hook = (&recorder{fail: fail}).factory })
				l.on("Second", times(1, wfengine.NewInterruptError("R", "m")))
				if is, _ := define.IsInterruptError(l.pass()); !is {
					t.Error("it was not interrupted")
				}
				l.resume()
				l.until(statemachine.StateRunning, 2)
				l.want("First", "Second", "Second", "Third", "Last")
				time.Sleep(10 * time.Minute)
			})
		})
	}
}

// An error of the hook factory is returned before anything is stored.
func TestHookFactoryFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kept := &texts{}
		l := newHarness(t, func(l *harness) {
			l.storage = kept.factory
			l.hook = func(*wfengine.WfRuntime) (wfengine.WfHook, error) { return nil, errors.New("no hook") }
		})
		if err := l.pass(); err == nil || !strings.Contains(err.Error(), "no hook") || kept.saves > 0 {
			t.Errorf("%v after %d writes", err, kept.saves)
		}
	})
}

// The default hook writes to the log; steps use the logger of the manager.
func TestDefaultHook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var lines []string
		l := newHarness(t, func(l *harness) { l.hook = wfengine.CreateDefaultWorkflowHook })
		l.manager.RegisterLogger(funcr.New(func(prefix, args string) {
			mu.Lock()
			defer mu.Unlock()
			lines = append(lines, prefix+" "+args)
		}, funcr.Options{}))
		l.on("First", times(1, wfengine.NewInterruptError("R", "m")))
		_ = l.pass()
		mu.Lock()
		defer mu.Unlock()
		all := strings.Join(lines, "\n")
		for _, want := range []string{`"WorkFlowStart"`, `"StepInited"`, `"StepError"`, `"WorkFlowInterrupt"`, `"reason"="R"`, `"flow"="Create"`} {
			if !strings.Contains(all, want) {
				t.Errorf("the log misses %s:\n%s", want, all)
			}
		}
	})
}
