package wfengine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/pawl-dev/pawl/compat/define"
	"github.com/pawl-dev/pawl/compat/statemachine"
	"github.com/pawl-dev/pawl/compat/utils/k8sutil"
	"github.com/pawl-dev/pawl/compat/wfengine"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// The steps of a flow and its groups run in order. Each step gets the input of the flow and the
// outputs of all earlier steps, with the same types before and after a restart. The last step
// writes the state.
func TestFlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newHarness(t)
		l.onValues("First", func(context.Context, map[string]interface{}) (map[string]interface{}, error) {
			return map[string]interface{}{"id": 7, "name": "a"}, nil
		})
		l.onValues("Second", func(context.Context, map[string]interface{}) (map[string]interface{}, error) {
			return map[string]interface{}{"name": "b"}, nil
		})
		l.onValues("Last", func(_ context.Context, values map[string]interface{}) (map[string]interface{}, error) {
			if values["size"] != int64(3) || values["id"] != int64(7) || values["name"] != "b" || values["_resourceNameSpace"] != "default" {
				t.Errorf("the last step is given %#v", values)
			}
			return nil, nil
		})
		l.until(statemachine.StateRunning, 1)
		l.want("First", "Second", "Third", "Last")
		if got := l.manager.FlowMetaMap["Create"].Steps; len(got) != 4 || got[1].StepName != "Second" {
			t.Errorf("the flow's steps are %v", got)
		}
	})
}

// A step can observe that its attempt was saved before it started.
func TestCheckpointBeforeStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kept := &texts{}
		l := newHarness(t, func(l *harness) { l.storage = kept.factory })
		for _, name := range []string{"First", "Second", "Third", "Last"} {
			l.on(name, func() error {
				if text := kept.data["1-Create"]; !strings.Contains(text, `"StepName":"`+name+`","stepStatus":"inited"`) {
					t.Errorf("%s runs, and stored is %s", name, text)
				}
				return nil
			})
		}
		l.until(statemachine.StateRunning, 1)
	})
}

// A waiting step has not failed: each call polls it, and that neither costs a retry nor writes
// anything (defect 13).
func TestWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kept := &texts{}
		l := newHarness(t, func(l *harness) { l.storage = kept.factory })
		ready := false
		l.on("Second", func() error {
			if !ready {
				return fmt.Errorf("pods: %w", wfengine.NewWaitingError())
			}
			return nil
		})
		for i := range 50 {
			if err := l.pass(); err != nil || l.state() != statemachine.StateCreating {
				t.Fatalf("pass %d: %v, state %s", i, err, l.state())
			}
			if i == 1 {
				kept.saves = 0
			}
		}
		if kept.saves > 0 {
			t.Errorf("48 looks wrote %d times", kept.saves)
		}
		name, waiting, err := l.flow().RunLastUnCompletedRuntime(t.Context(), "Create", false)
		if name != "Create" || !waiting || err != nil {
			t.Errorf("the flow: %s, waiting %t, %v", name, waiting, err)
		}
		ready = true
		l.until(statemachine.StateRunning, 1)
		want := append([]string{"First"}, slices.Repeat([]string{"Second"}, 52)...)
		l.want(append(want, "Third", "Last")...)
	})
}

// An InterruptError interrupts the flow: the resource goes to Interrupt and has reason, message
// and former state. The annotation resumes the flow at the failed step, with a full budget.
func TestInterruptAndResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newHarness(t)
		l.on("Second", times(1, wfengine.NewInterruptError("NO_SPACE", "the pool is full")))
		err := l.pass()
		is, stop := define.IsInterruptError(err)
		if !is || stop.Reason != "NO_SPACE" || stop.ErrorMsg != "the pool is full" {
			t.Fatalf("the call answers %v", err)
		}
		o := l.resource().object()
		for key, want := range map[string]string{
			"interrupt.reason": "NO_SPACE", "interrupt.message": "the pool is full", "interrupt.previous.status": "Creating", "interrupt.recover": "F",
		} {
			if o.Annotations[key] != want {
				t.Errorf("annotation %s is %q, want %q", key, o.Annotations[key], want)
			}
		}
		if l.state() != statemachine.StateInterrupt {
			t.Fatalf("state %s", l.state())
		}
		for range 3 {
			if err := l.pass(); err != nil || l.manager.CheckRecovery(l.resource()) {
				t.Fatalf("nobody has asked for it: %v", err)
			}
		}
		l.resume()
		l.until(statemachine.StateRunning, 2)
		l.want("First", "Second", "Second", "Third", "Last")
		for key := range l.resource().object().Annotations {
			if strings.HasPrefix(key, "interrupt.") {
				t.Errorf("the annotation %s stays", key)
			}
		}
	})
}

// A flow that is interrupted again and again can be resumed each time, although the number of a
// run's signals is limited.
func TestManyInterruptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newHarness(t)
		l.on("Second", times(1200, wfengine.NewInterruptError("R", "m")))
		l.on("Third", times(1, wfengine.NewInterruptError("R", "m")))
		for i := range 1201 {
			if is, _ := define.IsInterruptError(l.pass()); !is || l.state() != statemachine.StateInterrupt {
				t.Fatalf("interruption %d: state %s", i, l.state())
			}
			l.resume()
			if !l.manager.CheckRecovery(l.resource()) || l.state() != statemachine.StateCreating {
				t.Fatalf("resume %d: state %s", i, l.state())
			}
		}
		l.until(statemachine.StateRunning, 1)
	})
}

// Defect 28: only a true value resumes.
func TestRecoverValues(t *testing.T) {
	for value, want := range map[string]bool{"T": true, "true": true, "1": true, "F": false, "false": false, "0": false, "": false, "no": false} {
		synctest.Test(t, func(t *testing.T) {
			l := newHarness(t)
			l.on("First", times(1, wfengine.NewInterruptError("R", "m")))
			_ = l.pass()
			l.cluster.edit(t, l.name(), func(o *corev1.ConfigMap) { o.Annotations["interrupt.recover"] = value })
			if got := l.manager.CheckRecovery(l.resource()); got != want {
				t.Errorf("%q: %t", value, got)
			}
		})
	}
}

// A flow with recoverFromFirstStep resumes at its first step. Rebuild is not resumed: its flow
// starts again.
func TestRecoverFromFirstStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newHarness(t)
		flow := l.flow()
		l.on("Last", times(1, wfengine.NewInterruptError("R", "m")))
		if is, _ := define.IsInterruptError(flow.Run(t.Context(), "Rebuild", nil)); !is {
			t.Fatal("it was not interrupted")
		}
		if err := flow.RetryInterruptedStep(); err != nil {
			t.Fatal(err)
		}
		if name, waiting, err := flow.RunLastUnCompletedRuntime(t.Context(), "Rebuild", false); name != "Rebuild" || waiting || err != nil {
			t.Fatal(name, waiting, err)
		}
		l.want("First", "Last", "First", "Last")
		if err := flow.RetryInterruptedStep(); err != nil { // there is no interrupted flow any more
			t.Error(err)
		}
	})
}

// Defects 3 and 4: each step has a budget of its own. Thirty failures of one flow do not interrupt
// it; ten in a row of one step do.
func TestBudgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newHarness(t)
		for _, step := range []string{"First", "Second", "Third"} {
			l.on(step, times(9, errors.New(step+" is not ready")))
		}
		var failures int
		for range 1000 {
			if err := l.pass(); err == nil {
				break
			} else if is, _ := define.IsInterruptError(err); is {
				t.Fatal(err)
			}
			failures++
			time.Sleep(time.Second)
		}
		if l.state() != statemachine.StateRunning || failures < 27 {
			t.Errorf("state %s after %d failures", l.state(), failures)
		}
	})
}

func TestTooManyFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newHarness(t)
		l.on("Second", times(10, errors.New("not ready")))
		var err error
		for l.state() == statemachine.StateCreating {
			err = l.pass()
			time.Sleep(time.Second)
		}
		_, stop := define.IsInterruptError(err)
		if stop == nil || stop.Reason != "MANY_RETRY" || !strings.Contains(stop.ErrorMsg, "Second") || !strings.Contains(stop.ErrorMsg, "not ready") {
			t.Errorf("it was interrupted by %v", err)
		}
		l.want(append([]string{"First"}, slices.Repeat([]string{"Second"}, 10)...)...)
		l.resume()
		l.until(statemachine.StateRunning, 2)
	})
}

// The configuration of one manager sets its retries, and not those of another manager.
func TestConfiguration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newHarness(t)
		l.manager.RegisterConf(map[define.WFConfKey]string{
			define.WFRetryAttempts: "2", define.WFRetryFirst: "10ms", define.WorkFlowResourceName: "_resourceName", define.WFInterruptReason: "why",
		})
		if l.manager.GetConfItem(define.WFInterruptReason) != "why" || define.DefaultWfConf[define.WFInterruptReason] != "interrupt.reason" {
			t.Error("the configuration of a manager is not its own")
		}
		l.on("First", times(2, errors.New("not ready")))
		begin := time.Now()
		_ = l.pass()
		err := l.pass()
		if is, _ := define.IsInterruptError(err); !is || time.Since(begin) > time.Second || l.resource().object().Annotations["why"] != "MANY_RETRY" {
			t.Errorf("%v after %s", err, time.Since(begin))
		}
		l.manager.RegisterConf(map[define.WFConfKey]string{define.WFStepTimeout: "soon"})
		other := newHarness(t)
		other.manager.RegisterConf(map[define.WFConfKey]string{define.WFStepTimeout: "soon"})
		if _, err := other.manager.CreateResourceWorkflow(other.resource()); err == nil || !strings.Contains(err.Error(), "WFStepTimeout") {
			t.Errorf("a time-out of %q: %v", "soon", err)
		}
	})
}

// Promise 12: problems of the API server are not charged to the step (defect 5).
func TestControlPlaneIsFree(t *testing.T) {
	for name, trouble := range map[string]error{
		"conflict": apierrors.NewConflict(objects, "a", errors.New("changed")), "429": apierrors.NewTooManyRequests("later", 1),
		"500": apierrors.NewInternalError(errors.New("etcd")), "timeout": apierrors.NewServerTimeout(objects, "get", 1),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newHarness(t)
				l.on("Second", times(25, fmt.Errorf("reading pods: %w", trouble)))
				var said error
				for l.state() == statemachine.StateCreating {
					if err := l.pass(); err != nil && said == nil {
						said = err
					}
					time.Sleep(time.Second)
				}
				if l.state() != statemachine.StateRunning {
					t.Errorf("state %s", l.state())
				}
				var status apierrors.APIStatus
				if !errors.As(said, &status) {
					t.Errorf("the call hides what the API server said: %v", said)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) { // an error about the request itself is charged to the step
		l := newHarness(t)
		l.on("First", times(10, apierrors.NewBadRequest("no such field")))
		for l.state() == statemachine.StateCreating {
			_ = l.pass()
			time.Sleep(time.Second)
		}
		if l.state() != statemachine.StateInterrupt {
			t.Errorf("state %s", l.state())
		}
	})
}

// If a dependency of a step refuses connections or answers too late, that is charged to the step:
// after its budget the flow is interrupted. Only the operator's own API server is not charged.
func TestFinding24DependencyIsCharged(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := closed.Addr().String()
	_ = closed.Close()
	_, dialed := net.Dial("tcp", address)
	_, requested := http.Get("http://" + address + "/status") //nolint:bodyclose // nobody answers
	late := &url.Error{Op: "Get", URL: "http://" + address + "/status", Err: context.DeadlineExceeded}
	cut := &url.Error{Op: "Post", URL: "http://" + address + "/status", Err: io.ErrUnexpectedEOF}
	for name, server := range map[string]string{"of another": "https://10.0.0.1:6443", "the API server's": "http://" + address} {
		for what, failure := range map[string]error{"dial": dialed, "request": requested, "time-out": late, "cut": cut} {
			t.Run(name+" "+what, func(t *testing.T) {
				k8sutil.SetConfig(&rest.Config{Host: server})
				t.Cleanup(func() { k8sutil.SetConfig(nil) })
				synctest.Test(t, func(t *testing.T) {
					l := newHarness(t)
					l.on("Second", times(30, fmt.Errorf("asking the database: %w", failure)))
					for pass := 0; pass < 60 && l.state() == statemachine.StateCreating; pass++ {
						_ = l.pass()
						time.Sleep(time.Minute)
					}
					free := strings.HasPrefix(name, "the API")
					reason := l.resource().object().Annotations["interrupt.reason"]
					switch {
					case free && l.state() != statemachine.StateRunning:
						t.Errorf("trouble of the API server ends in %s %s", l.state(), reason)
					case !free && (l.state() != statemachine.StateInterrupt || reason != "MANY_RETRY"):
						t.Errorf("state %s, reason %q", l.state(), reason)
					}
				})
			})
		}
	}
}

// If the operator's own API server is observed, a 503 of another Kubernetes API that a step calls
// is charged to the step; one of the own API server is not.
func TestFinding24AnotherAPIServerIsCharged(t *testing.T) {
	server := func() *rest.Config {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"shutting down","reason":"ServiceUnavailable","code":503}`))
		}))
		t.Cleanup(s.Close)
		return &rest.Config{Host: s.URL}
	}
	ask := func(c *rest.Config) error {
		client, err := kubernetes.NewForConfig(c)
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.CoreV1().ConfigMaps("default").Get(t.Context(), "x", metav1.GetOptions{})
		if !apierrors.IsServiceUnavailable(err) {
			t.Fatalf("the server says %v", err)
		}
		return err
	}
	for _, c := range []struct {
		name      string
		own, free bool
	}{{"own", true, true}, {"another", false, false}} {
		t.Run(c.name, func(t *testing.T) {
			t.Cleanup(func() { k8sutil.SetConfig(nil) })
			own, other := k8sutil.Observed(server()), server()
			failure := ask(other)
			if c.own {
				failure = ask(own)
			}
			synctest.Test(t, func(t *testing.T) {
				l := newHarness(t)
				l.on("Second", times(30, fmt.Errorf("asking: %w", failure)))
				for pass := 0; pass < 60 && l.state() == statemachine.StateCreating; pass++ {
					_ = l.pass()
					time.Sleep(time.Minute)
				}
				reason := l.resource().object().Annotations["interrupt.reason"]
				switch {
				case c.free && l.state() != statemachine.StateRunning:
					t.Errorf("trouble of the own API server ends in %s %s", l.state(), reason)
				case !c.free && (l.state() != statemachine.StateInterrupt || reason != "MANY_RETRY"):
					t.Errorf("state %s, reason %q", l.state(), reason)
				}
			})
		})
	}
}

// An interruption has one code: the resource's annotation and every program that shows the run
// report the same one, with a title and a remedy.
func TestFinding26OneCodeOfAnInterruption(t *testing.T) {
	for reason, second := range map[string]func() error{
		"NO_SPACE":   times(1, wfengine.NewInterruptError("NO_SPACE", "the pool is full")),
		"PoolIsFull": times(1, wfengine.NewInterruptError("PoolIsFull", "the pool is full")),
		"MANY_RETRY": times(10, errors.New("not ready")),
	} {
		t.Run(reason, func(t *testing.T) { oneCode(t, reason, second) })
	}
	t.Run("panics", func(t *testing.T) { oneCode(t, "MANY_RETRY", func() error { panic("again") }) })
}

func oneCode(t *testing.T, reason string, second func() error) {
	synctest.Test(t, func(t *testing.T) {
		l := newHarness(t)
		l.on("Second", second)
		for l.state() == statemachine.StateCreating {
			_ = l.pass()
			time.Sleep(time.Minute)
		}
		flow := l.flow()
		run, err := wfengine.Engine(flow).Get(t.Context(), wfengine.RunOf(flow))
		if err != nil {
			t.Fatal(err)
		}
		if got := l.resource().object().Annotations["interrupt.reason"]; got != reason || string(run.Fault.Code) != reason {
			t.Errorf("the annotation says %s, the run %s", got, run.Fault.Code)
		}
		data, err := json.Marshal(run.Fault)
		if err != nil {
			t.Fatal(err)
		}
		elsewhere := bytes.ReplaceAll(data, []byte(reason), []byte("OTHER_PROGRAM")) // a program that does not declare the code
		var f runtype.Fault
		if err := json.Unmarshal(elsewhere, &f); err != nil {
			t.Fatal(err)
		}
		if kind := f.Kind(); kind.Title == "" || kind.Title == fault.Unknown.Title || !strings.Contains(kind.Remedy, "interrupt.recover") {
			t.Errorf("another program says %q, %q", kind.Title, kind.Remedy)
		}
	})
}

// Promise 5, defect 2: a panic is a failure of its step.
func TestPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newHarness(t)
		n := 0
		l.on("Second", func() error {
			if n++; n < 3 {
				panic("step")
			}
			return nil
		})
		err := l.pass()
		if err == nil || !strings.Contains(err.Error(), "PANIC") {
			t.Errorf("the call answers %v", err)
		}
		l.until(statemachine.StateRunning, 10)
		flow := l.flow()
		l.cluster.edit(t, l.name(), func(o *corev1.ConfigMap) { o.Data["state"] = "Creating" })
		err = flow.CommonWorkFlowMainEnter(t.Context(), l.resource(), "Create", false, func(statemachine.StateResource) (*statemachine.Event, error) { panic("checker") })
		if fault.Of(err) != fault.Panic {
			t.Errorf("a checker panics: %v", err)
		}
	})
}

// A type that is not registered, and a flow that does not exist.
func TestUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newHarness(t)
		flow := l.flow()
		if err := flow.Run(t.Context(), "Elsewhere", nil); err == nil || !strings.Contains(err.Error(), "not found") {
			t.Errorf("a flow that is not there: %v", err)
		}
		err := flow.Run(t.Context(), "Unknown", nil)
		if _, stop := define.IsInterruptError(err); stop == nil || stop.Reason != "UNKNOWN_TASK" || !strings.Contains(stop.ErrorMsg, "wfengine_test.Nobody") {
			t.Errorf("a step that is not there: %v", err)
		}
	})
}

// Defect 8: a cancel ends the step before the call returns. The same mark does not cancel the flow
// after it was resumed, but a new mark does.
func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kept := &texts{}
		l := newHarness(t, func(l *harness) { l.storage = kept.factory })
		mark := func(value string) {
			l.cluster.edit(t, l.name(), func(o *corev1.ConfigMap) {
				if o.Annotations == nil {
					o.Annotations = map[string]string{}
				}
				o.Annotations["cancelled"] = value
			})
		}
		running := 0
		hang := func(ctx context.Context, _ map[string]interface{}) (map[string]interface{}, error) {
			running++
			defer func() { running-- }()
			if len(l.done()) == 2 {
				mark("true")
			}
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(20 * time.Second):
				return nil, nil
			}
		}
		l.onValues("Second", hang)
		l.onValues("Third", hang)
		err := l.pass()
		if _, stop := define.IsInterruptError(err); stop == nil || stop.Reason != "CANCELLED" || running != 0 || l.state() != statemachine.StateInterrupt {
			t.Fatalf("%v; %d steps run, state %s", err, running, l.state())
		}
		l.resume()
		if !l.manager.CheckRecovery(l.resource()) {
			t.Fatal("no recovery")
		}
		l.restart()
		go func() {
			time.Sleep(25 * time.Second)
			mark("false")
			time.Sleep(6 * time.Second)
			mark("true")
		}()
		err = l.pass()
		if _, stop := define.IsInterruptError(err); stop == nil || stop.Reason != "CANCELLED" {
			t.Fatalf("the mark was set anew: %v", err)
		}
		l.want("First", "Second", "Second", "Third")
	})
}

// A step that ignores its cancelled context blocks nobody, and no second copy of it starts while
// it runs.
func TestCancelOfADeafStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newHarness(t)
		l.on("First", func() error {
			if len(l.done()) == 1 {
				l.cluster.edit(t, l.name(), func(o *corev1.ConfigMap) { o.Annotations = map[string]string{"cancelled": "true"} })
				time.Sleep(time.Hour)
			}
			return nil
		})
		begin := time.Now()
		err := l.pass()
		if is, _ := define.IsInterruptError(err); !is || time.Since(begin) > time.Minute || l.state() != statemachine.StateInterrupt {
			t.Fatalf("%v after %s, state %s", err, time.Since(begin), l.state())
		}
		l.cluster.edit(t, l.name(), func(o *corev1.ConfigMap) { delete(o.Annotations, "cancelled") })
		l.resume()
		_ = l.pass()
		_ = l.pass()
		l.want("First")
		time.Sleep(time.Hour)
		l.resume()
		l.until(statemachine.StateRunning, 3)
		l.want("First", "Second", "Third", "Last") // the step completed after all
	})
}

// The end of the caller's context is not a cancel: the next call continues the flow.
func TestShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newHarness(t)
		type key struct{}
		ctx, cancel := context.WithCancelCause(context.WithValue(t.Context(), key{}, "caller"))
		l.onValues("Second", func(ctx context.Context, _ map[string]interface{}) (map[string]interface{}, error) {
			if len(l.done()) > 2 {
				return nil, nil
			}
			if ctx.Value(key{}) != "caller" {
				t.Error("a step does not see the values of its caller's context")
			}
			cancel(errors.New("the operator ends"))
			<-ctx.Done()
			return nil, ctx.Err()
		})
		err := l.flow().CommonWorkFlowMainEnter(ctx, l.resource(), "Create", false, creating)
		if err == nil || err.Error() != "the operator ends" || l.state() != statemachine.StateCreating {
			t.Errorf("%v, state %s", err, l.state())
		}
		l.until(statemachine.StateRunning, 1)
		l.want("First", "Second", "Second", "Third", "Last")
	})
}

// Defect 11: the interruption succeeds although the step has changed the object. Defect 26: a
// failed write is reported, and repeated by the next call.
func TestInterruptionIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newHarness(t)
		l.on("First", func() error {
			l.cluster.edit(t, l.name(), func(o *corev1.ConfigMap) { o.Data["changed"] = "by the step" })
			return wfengine.NewInterruptError("R", "m")
		})
		if is, _ := define.IsInterruptError(l.pass()); !is || l.state() != statemachine.StateInterrupt {
			t.Fatalf("state %s", l.state())
		}
	})
	for _, refused := range []string{"update", "state"} {
		synctest.Test(t, func(t *testing.T) {
			l := newHarness(t)
			l.on("First", times(1, wfengine.NewInterruptError("R", "m")))
			l.cluster.refuse = func(what string) error {
				if what == refused {
					return apierrors.NewInternalError(errors.New("etcd is away"))
				}
				return nil
			}
			err := l.pass()
			if is, _ := define.IsInterruptError(err); !is || !strings.Contains(err.Error(), "etcd is away") || l.state() != statemachine.StateCreating {
				t.Fatalf("%s is refused: %v, state %s", refused, err, l.state())
			}
			l.cluster.refuse = nil
			err = l.pass()
			if is, _ := define.IsInterruptError(err); !is || l.state() != statemachine.StateInterrupt || l.resource().object().Annotations["interrupt.reason"] != "R" {
				t.Fatalf("the next call: %v, state %s", err, l.state())
			}
			l.want("First")
			l.resume()
			l.until(statemachine.StateRunning, 2)
		})
	}
}

// Defect 12: a resume that stops anywhere is completed by the next pass.
func TestResumeBreaksOff(t *testing.T) {
	for _, refused := range []string{"update", "state"} {
		synctest.Test(t, func(t *testing.T) {
			l := newHarness(t)
			l.on("Second", times(1, wfengine.NewInterruptError("R", "m")))
			_ = l.pass()
			l.resume()
			l.cluster.refuse = func(what string) error {
				if what == refused {
					return apierrors.NewInternalError(errors.New("etcd is away"))
				}
				return nil
			}
			if !l.manager.CheckRecovery(l.resource()) {
				t.Error("it was asked for")
			}
			l.cluster.refuse = nil
			l.until(statemachine.StateRunning, 3)
			l.want("First", "Second", "Second", "Third", "Last")
		})
	}
}

// pawl resume, which resumes the run itself, is a recovery, too.
func TestResumedElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kept := &texts{}
		l := newHarness(t, func(l *harness) { l.storage = kept.factory })
		l.on("Second", times(1, wfengine.NewInterruptError("R", "m")))
		_ = l.pass()
		if err := wfengine.Engine(l.flow()).Resume(t.Context(), wfengine.RunOf(l.flow()), "", "", workflow.Actor{Name: "a person"}); err != nil {
			t.Fatal(err)
		}
		l.until(statemachine.StateRunning, 2)
		l.want("First", "Second", "Second", "Third", "Last")
	})
}

// An unfinished flow is completed before another one starts. Only with ignoreUnCompleted, or after
// an interrupted flow, the new one replaces it.
func TestOneFlowAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newHarness(t)
		flow := l.flow()
		wait := true
		l.on("Second", func() error {
			if wait {
				return wfengine.NewWaitingError()
			}
			return nil
		})
		if err := flow.Run(t.Context(), "Create", nil); err != nil {
			t.Fatal(err)
		}
		if err := flow.Run(t.Context(), "Rebuild", nil); fault.Of(err) != wfengine.Unfinished {
			t.Errorf("a flow waits, and another one begins: %v", err)
		}
		if name, waiting, err := flow.RunLastUnCompletedRuntime(t.Context(), "Rebuild", true); name != "Create" || waiting || err != nil {
			t.Errorf("another flow is to be left alone: %s %t %v", name, waiting, err)
		}
		wait = false
		if err := flow.Run(t.Context(), "Rebuild", nil); err != nil {
			t.Error(err)
		}
		l.want("First", "Second", "Second", "Second", "Third", "Last", "First", "Last")
	})
	synctest.Test(t, func(t *testing.T) {
		l := newHarness(t)
		l.on("Second", func() error { return wfengine.NewWaitingError() })
		if err := l.pass(); err != nil {
			t.Fatal(err)
		}
		l.cluster.edit(t, l.name(), func(o *corev1.ConfigMap) { o.Data["state"] = "Rebuild" })
		l.until(statemachine.StateRunning, 1)
		l.want("First", "Second", "First", "Last")
		if name, _, err := l.flow().RunLastUnCompletedRuntime(t.Context(), "Create", false); name != "" || err != nil {
			t.Errorf("left over: %s %v", name, err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		l := newHarness(t)
		l.on("Second", times(1, wfengine.NewInterruptError("R", "m")))
		_ = l.pass()
		l.cluster.edit(t, l.name(), func(o *corev1.ConfigMap) { o.Data["state"] = "Rebuild" })
		l.until(statemachine.StateRunning, 1)
		l.want("First", "Second", "First", "Last")
	})
}

// Defect 27: calls for one resource run one after the other, even through several handles.
func TestCallsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newHarness(t)
		at, most := 0, 0
		var mu sync.Mutex
		for _, step := range []string{"First", "Last"} {
			l.on(step, func() error {
				mu.Lock()
				at++
				most = max(most, at)
				mu.Unlock()
				time.Sleep(time.Second)
				mu.Lock()
				at--
				mu.Unlock()
				return nil
			})
		}
		var all sync.WaitGroup
		for range 3 {
			flow := l.flow()
			all.Go(func() {
				if err := flow.Run(t.Context(), "Rebuild", nil); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if most != 1 {
			t.Errorf("%d steps at once", most)
		}
		l.want("First", "Last", "First", "Last", "First", "Last")
	})
}

// When the event is no longer due, the resource goes to Running.
func TestEventIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newHarness(t)
		err := l.flow().CommonWorkFlowMainEnter(t.Context(), l.resource(), "Create", false, func(statemachine.StateResource) (*statemachine.Event, error) { return nil, nil })
		if err != nil || l.state() != statemachine.StateRunning {
			t.Errorf("%v, state %s", err, l.state())
		}
		l.want()
		err = l.flow().CommonWorkFlowMainEnter(t.Context(), l.resource(), "Create", false, func(statemachine.StateResource) (*statemachine.Event, error) { return nil, errors.New("cannot look") })
		if err == nil || err.Error() != "cannot look" {
			t.Error(err)
		}
	})
}
