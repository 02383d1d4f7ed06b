package controller_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/kube/condition"
	"github.com/pawl-dev/pawl/kube/controller"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/outcome"
)

func (w *fixture) setup(m *controller.Manager, change func(*controller.Controller[*Demo])) {
	w.t.Helper()
	c := controller.Controller[*Demo]{For: &Demo{}, Conditions: conditions, Reconcile: func(context.Context, control.Ref) outcome.Outcome { return outcome.Done() }}
	change(&c)
	if err := controller.Setup(m, c); err != nil {
		w.t.Fatal(err)
	}
}

// A failed object has a condition, an Event and a metric. The next change tries again, and
// a successful pass removes them.
func TestRetriesExhaustedIsReportedAndCleared(t *testing.T) {
	w := newFixture(t)
	m := w.manager(func(o *controller.Options) { o.Listen = "127.0.0.1:0" })
	var broken atomic.Bool
	broken.Store(true)
	var passes atomic.Int32
	full := fault.Declare(fault.Kind{Code: "EXAM_DISK_FULL", Class: fault.Blocked, Title: "the disk is full", Remedy: "Free space."})
	w.setup(m, func(c *controller.Controller[*Demo]) {
		c.MaxRetries = 2
		c.Reconcile = func(context.Context, control.Ref) outcome.Outcome {
			passes.Add(1)
			if broken.Load() {
				return outcome.Fail(full.Errorf("no byte is left"))
			}
			return outcome.Done()
		}
	})
	w.create("a", 1)
	w.start(m)
	progressing := func() (metav1.Condition, error) {
		c := meta.FindStatusCondition(w.get("a").Status.Conditions, condition.TypeProgressing)
		if c == nil {
			return metav1.Condition{}, errors.New("there is no condition Progressing")
		}
		return *c, nil
	}
	var given metav1.Condition
	w.until("the condition", func() (err error) { given, err = progressing(); return err })
	if given.Status != metav1.ConditionFalse || given.Reason != "RetriesExhausted" || given.ObservedGeneration != 1 || given.LastTransitionTime.IsZero() ||
		!strings.Contains(given.Message, "no byte is left") || !strings.HasSuffix(given.Message, control.RetriesExhausted.Remedy) {
		t.Errorf("the condition: %+v", given)
	}
	w.until("the Events", func() error {
		events := w.events("a")
		if e := events["RetriesExhausted"]; !strings.HasPrefix(e, "Warning: ") || !strings.Contains(e, control.RetriesExhausted.Remedy) {
			return fmt.Errorf("the Events are %q", events)
		}
		if e := events["ExamDiskFull"]; e != "Warning: no byte is left. Free space." {
			return fmt.Errorf("the Events are %q", events)
		}
		return nil
	})
	if n := passes.Load(); n != 3 {
		t.Errorf("%d passes until it was given up, want 3", n)
	}
	answer := w.httpGet(m, "/metrics")
	for _, line := range []string{
		`pawl_controller_given_up_total{code="EXAM_DISK_FULL",controller="demo"} 1`,
		`pawl_controller_failures_total{code="EXAM_DISK_FULL",controller="demo"} 3`,
		`pawl_controller_passes_total{controller="demo",outcome="fail"} 3`,
		`workqueue_depth{`, // metrics of controller-runtime
	} {
		if !strings.Contains(answer, line) {
			t.Errorf("the metrics lack %s", line)
		}
	}
	broken.Store(false)
	w.create("a", 2)
	w.until("the condition goes", func() error {
		c, err := progressing()
		if err == nil && c.Reason != "Done" {
			err = fmt.Errorf("it is %+v", c)
		}
		given = c
		return err
	})
	if given.ObservedGeneration != 2 || given.Status != metav1.ConditionFalse {
		t.Errorf("the condition after it: %+v", given)
	}
	w.until("the Event", func() error {
		if e := w.events("a")["Revived"]; !strings.HasPrefix(e, "Normal: ") {
			return fmt.Errorf("the Events are %q", w.events("a"))
		}
		return nil
	})
	if n := passes.Load(); n != 4 {
		t.Errorf("%d passes, want 4: reports of our own must not wake us", n)
	}
}

func (w *fixture) httpGet(m *controller.Manager, path string) string {
	w.t.Helper()
	answer, err := http.Get("http://" + m.Addr() + path)
	if err != nil {
		w.t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return answer.Status + "\n" + string(body)
}

// A fault from an earlier process is removed by the first pass that does not fail.
func TestAnEarlierProcessesFaultIsTakenBack(t *testing.T) {
	w := newFixture(t)
	w.create("a", 1)
	d := w.get("a")
	condition.Set(&d.Status.Conditions, 1, time.Now(), condition.FromError(condition.TypeProgressing, metav1.ConditionFalse, control.RetriesExhausted.Errorf("too often")))
	if err := w.client.Status().Update(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	m := w.manager(nil)
	w.setup(m, func(c *controller.Controller[*Demo]) {
		c.Reconcile = func(context.Context, control.Ref) outcome.Outcome {
			return outcome.Wait(0, "CatchingUp", "3 bytes behind")
		}
	})
	w.start(m)
	w.until("the condition", func() error {
		c := w.get("a").Status.Conditions[0]
		if c.Reason != "CatchingUp" || c.Status != metav1.ConditionTrue || c.Message != "3 bytes behind" {
			return fmt.Errorf("it is %+v", c)
		}
		return nil
	})
}

// A standby has full caches and makes no pass; when the leader ends, it continues at once.
func TestOneLeaderAtATime(t *testing.T) {
	w := newFixture(t)
	var by [2]atomic.Int32
	var managers [2]*controller.Manager
	for i := range managers {
		managers[i] = w.manager(func(o *controller.Options) { o.Listen = "127.0.0.1:0"; o.RetryPeriod = 200 * time.Millisecond })
		w.setup(managers[i], func(c *controller.Controller[*Demo]) {
			c.Reconcile = func(context.Context, control.Ref) outcome.Outcome { by[i].Add(1); return outcome.Done() }
		})
	}
	w.create("a", 1)
	stop := w.start(managers[0])
	w.until("the leader's pass", func() error { return atLeast(&by[0], 1) })
	w.start(managers[1])
	w.until("the other's caches", func() error {
		if answer := w.httpGet(managers[1], "/readyz"); !strings.HasPrefix(answer, "200 OK") {
			return errors.New(answer)
		}
		return nil
	})
	w.create("a", 2)
	w.until("the leader's next pass", func() error { return atLeast(&by[0], 2) })
	if n := by[1].Load(); n != 0 {
		t.Fatalf("%d passes by one who is not elected", n)
	}
	stop()
	w.until("the other's pass", func() error { return atLeast(&by[1], 1) })
	if n := by[0].Load(); n != 2 {
		t.Errorf("%d passes by the one who was stopped", n)
	}
}

// After the loss of the lease there are no passes: running passes are cancelled and Start
// returns the error.
func TestALostLeaseCancelsThePasses(t *testing.T) {
	w := newFixture(t)
	m := w.manager(func(o *controller.Options) {
		o.LeaseDuration, o.RenewDeadline, o.RetryPeriod = 3*time.Second, 2*time.Second, 200*time.Millisecond
	})
	begun, cause := make(chan struct{}), make(chan error, 1)
	w.setup(m, func(c *controller.Controller[*Demo]) {
		c.Reconcile = func(ctx context.Context, _ control.Ref) outcome.Outcome {
			close(begun)
			<-ctx.Done()
			cause <- context.Cause(ctx)
			return outcome.Fail(ctx.Err())
		}
	})
	w.create("a", 1)
	ended := make(chan error, 1)
	go func() { ended <- m.Start(t.Context()) }()
	<-begun
	// Another takes the lease by force.
	lease := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"holderIdentity":"thief","leaseDurationSeconds":3600,"renewTime":"2999-01-01T00:00:00.000000Z"}}`))
	w.until("the theft", func() error { return w.client.Patch(t.Context(), leaseOf(w.namespace), lease) })
	if err := <-ended; fault.Of(err) != controller.LeaderLost {
		t.Errorf("Start gives %v", err)
	}
	if err := <-cause; fault.Of(err) != controller.LeaderLost {
		t.Errorf("the pass ends with %v", err)
	}
}

// A pass may finish after the stop, and its client works until then.
func TestAStoppedManagerLetsPassesFinish(t *testing.T) {
	for name, c := range map[string]struct {
		drain time.Duration
		want  error
	}{
		"within the drain":             {0, nil},
		"the end of the drain cancels": {200 * time.Millisecond, control.ErrStopped},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			m := w.manager(func(o *controller.Options) { o.Drain = c.drain })
			begun, stopped, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
			w.setup(m, func(d *controller.Controller[*Demo]) {
				d.Reconcile = func(ctx context.Context, ref control.Ref) outcome.Outcome {
					close(begun)
					select {
					case <-stopped:
						var d Demo
						ended <- m.GetClient().Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, &d)
					case <-ctx.Done():
						ended <- context.Cause(ctx)
					}
					return outcome.Done()
				}
			})
			w.create("a", 1)
			ctx, cancel := context.WithCancel(t.Context())
			finished := make(chan error, 1)
			go func() { finished <- m.Start(ctx) }()
			<-begun
			cancel()
			if c.want == nil {
				close(stopped)
			}
			if err := <-finished; err != nil {
				t.Errorf("Start gives %v", err)
			}
			select {
			case err := <-ended:
				if !errors.Is(err, c.want) {
					t.Errorf("the pass ends with %v, want %v", err, c.want)
				}
			default:
				t.Error("Start has returned before the pass")
			}
		})
	}
}

// An annotation is changed only if it still has the value that was read: a request in
// between is not lost.
func TestAnnotateTestsTheValue(t *testing.T) {
	w := newFixture(t)
	c := controller.FaultClient(w.client)
	const key = "pawl.dev/resume"
	fresh := func(annotations map[string]string) *Demo {
		d := named(w.namespace, "a")
		if err := client.IgnoreNotFound(w.client.Delete(t.Context(), named(w.namespace, "a"))); err != nil {
			t.Fatal(err)
		}
		d.Annotations = annotations
		if err := w.client.Create(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		return d
	}
	for name, q := range map[string]struct {
		has      map[string]string
		between  string // a patch by someone else
		replaced bool
		from, to string
		conflict bool
		want     map[string]string
	}{
		"a request is stamped":                        {has: map[string]string{key: "true", "other": "x"}, from: "true", to: "true#id", want: map[string]string{key: "true#id", "other": "x"}},
		"a request is taken away":                     {has: map[string]string{key: "true#id"}, from: "true#id", want: nil},
		"the first annotation":                        {from: "", to: "v", want: map[string]string{key: "v"}},
		"one more annotation":                         {has: map[string]string{"other": "x"}, from: "", to: "v", want: map[string]string{key: "v", "other": "x"}},
		"nothing to do":                               {has: map[string]string{key: "v"}, from: "x", to: "x", want: map[string]string{key: "v"}},
		"a newer request stays":                       {has: map[string]string{key: "1"}, between: `{"metadata":{"annotations":{"pawl.dev/resume":"2"}}}`, from: "1", conflict: true, want: map[string]string{key: "2"}},
		"a request that went":                         {has: map[string]string{key: "1"}, between: `{"metadata":{"annotations":{"pawl.dev/resume":null}}}`, from: "1", to: "2", conflict: true, want: nil},
		"a change of something else is no conflict":   {has: map[string]string{key: "1"}, between: `{"spec":{"n":9}}`, from: "1", to: "2", want: map[string]string{key: "2"}},
		"what is not there is guarded by the version": {between: `{"metadata":{"annotations":{"pawl.dev/resume":"2"}}}`, from: "", to: "v", conflict: true, want: map[string]string{key: "2"}},
		"another object of the name":                  {has: map[string]string{key: "1"}, replaced: true, from: "1", to: "2", conflict: true, want: map[string]string{key: "1"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := fresh(q.has)
			if q.between != "" {
				w.patch("a", q.between)
			}
			if q.replaced {
				fresh(q.has)
			}
			err := controller.Annotate(t.Context(), c, d, key, q.from, q.to)
			if q.conflict != (fault.Of(err) == fault.WriteConflict) || !q.conflict && err != nil {
				t.Errorf("the answer is %v", err)
			}
			got := w.get("a")
			if fmt.Sprint(got.Annotations) != fmt.Sprint(q.want) {
				t.Errorf("the annotations are %v, want %v", got.Annotations, q.want)
			}
			if err == nil && d.ResourceVersion != got.ResourceVersion {
				t.Errorf("the object that was written is not the newest one")
			}
		})
	}
	if err := controller.Annotate(t.Context(), c, fresh(map[string]string{key: "1"}), key, "1", strings.Repeat("x", 300<<10)); fault.Of(err) != controller.Refused {
		t.Errorf("an annotation that is too long: %v", err)
	}
	d := fresh(map[string]string{key: "1"})
	if err := w.client.Delete(t.Context(), named(w.namespace, "a")); err != nil {
		t.Fatal(err)
	}
	if err := controller.Annotate(t.Context(), c, d, key, "1", "2"); fault.Of(err) != control.NotFound {
		t.Errorf("an object that is gone: %v", err)
	}
}

// counting returns a client that counts writes.
func (w *fixture) counting(n *atomic.Int32) client.Client {
	w.t.Helper()
	inner, err := client.NewWithWatch(w.plane.Config(), client.Options{Scheme: w.scheme})
	if err != nil {
		w.t.Fatal(err)
	}
	return controller.FaultClient(interceptor.NewClient(inner, interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			n.Add(1)
			return c.SubResource(sub).Patch(ctx, obj, p, opts...)
		},
	}))
}

// A pass writes status once, only if it has changed, and only over the version that it has
// read.
func TestADraftIsWrittenOnceAndOnlyOverWhatWasSeen(t *testing.T) {
	w := newFixture(t)
	var writes atomic.Int32
	c := w.counting(&writes)
	w.create("a", 1)
	load := func() *controller.Draft[*Demo] {
		d, err := controller.Load(t.Context(), c, c, client.ObjectKey{Namespace: w.namespace, Name: "a"}, &Demo{})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	save := func(d *controller.Draft[*Demo], wrote bool, want *fault.Kind) {
		t.Helper()
		if got, err := d.Save(t.Context()); got != wrote || fault.Of(err) != want {
			t.Errorf("Save gives %t, %v", got, err)
		}
	}
	d := load()
	save(d, false, nil)
	d.Object.Status.N = 3
	condition.AddUnknown(&d.Object.Status.Conditions, d.Object.Generation, time.Now(), condition.TypeReady, condition.TypeProgressing)
	d.Object.Spec.N = 77 // not ours to write
	save(d, true, nil)
	save(d, false, nil)
	if got := w.get("a"); got.Status.N != 3 || len(got.Status.Conditions) != 2 || got.Spec.N != 1 || got.ResourceVersion != d.Object.ResourceVersion {
		t.Errorf("what is stored: %+v", got)
	}
	d.Object.Status.N = 0
	save(d, true, nil)
	if got := w.get("a"); got.Status.N != 0 || len(got.Status.Conditions) != 2 {
		t.Errorf("what is stored: %+v", got.Status)
	}
	if n := writes.Load(); n != 2 {
		t.Errorf("%d writes, want 2", n)
	}
	d = load()
	w.create("a", 2) // someone else
	d.Object.Status.N = 4
	save(d, false, fault.WriteConflict)
	d = load()
	if err := w.client.Delete(t.Context(), named(w.namespace, "a")); err != nil {
		t.Fatal(err)
	}
	d.Object.Status.N = 4
	save(d, false, control.NotFound)
	w.create("a", 1)
	save(d, false, fault.WriteConflict)
	if got := w.get("a"); got.Status.N != 0 {
		t.Errorf("an object of the same name got the status of another: %+v", got.Status)
	}
}

// Foreign finalizers are never lost, and no finalizer is added to a terminating object.
func TestFinalizersAreGuarded(t *testing.T) {
	w := newFixture(t)
	c := controller.FaultClient(w.client)
	w.create("a", 1)
	const ours = "pawl.dev/exam"
	check := func(err error, want *fault.Kind, finalizers ...string) {
		t.Helper()
		if fault.Of(err) != want {
			t.Errorf("the answer is %v", err)
		}
		if got := w.get("a").Finalizers; strings.Join(got, ",") != strings.Join(finalizers, ",") {
			t.Errorf("the finalizers are %v, want %v", got, finalizers)
		}
	}
	d := w.get("a")
	check(controller.Finalize(t.Context(), c, d, ours), nil, ours)
	check(controller.Finalize(t.Context(), c, d, ours), nil, ours)
	old := w.get("a")
	w.patch("a", `{"metadata":{"finalizers":["pawl.dev/exam","example.com/theirs"]}}`)
	check(controller.Release(t.Context(), c, old, ours), fault.WriteConflict, ours, "example.com/theirs")
	if err := w.client.Delete(t.Context(), named(w.namespace, "a")); err != nil {
		t.Fatal(err)
	}
	check(controller.Release(t.Context(), c, w.get("a"), ours), nil, "example.com/theirs")
	check(controller.Finalize(t.Context(), c, w.get("a"), ours), nil, "example.com/theirs")
	last := w.get("a")
	if err := controller.Release(t.Context(), c, last, "example.com/theirs"); err != nil {
		t.Error(err)
	}
	last.Finalizers = []string{ours}
	if err := controller.Release(t.Context(), c, last, ours); err != nil {
		t.Errorf("an object that is gone: %v", err)
	}
}

// Apply owns the fields that it sets, removes those that it no longer sets, and leaves the
// rest.
func TestApplyOwnsItsFields(t *testing.T) {
	w := newFixture(t)
	a := controller.Applier{Client: w.client, Owner: "pawl-exam"}
	w.create("owner", 1)
	owner := w.get("owner")
	apply := func(data map[string]string) *corev1.ConfigMap {
		t.Helper()
		m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "m"}, Data: data}
		if err := a.Apply(t.Context(), m, owner); err != nil {
			t.Fatal(err)
		}
		return m
	}
	first := apply(map[string]string{"a": "1", "b": "1"})
	if first.ResourceVersion == "" || !metav1.IsControlledBy(first, owner) {
		t.Errorf("what was applied: %+v", first)
	}
	if again := apply(map[string]string{"a": "1", "b": "1"}); again.ResourceVersion != first.ResourceVersion {
		t.Error("the same apply again has changed something")
	}
	theirs := client.RawPatch(types.MergePatchType, []byte(`{"data":{"b":"2","c":"3"}}`))
	if err := w.client.Patch(t.Context(), first.DeepCopy(), theirs); err != nil {
		t.Fatal(err)
	}
	if got := apply(map[string]string{"b": "1"}).Data; fmt.Sprint(got) != "map[b:1 c:3]" {
		t.Errorf("the data are %v", got)
	}
	w.create("rival", 1)
	m := &corev1.ConfigMap{ObjectMeta: *first.ObjectMeta.DeepCopy()}
	if err := a.Apply(t.Context(), m, w.get("rival")); fault.Of(err) != controller.Refused {
		t.Errorf("an object that another controls: %v", err)
	}
}

// A kind without a CRD is reported at once, with its remedy.
func TestAKindWithoutCRDIsNamed(t *testing.T) {
	w := newFixture(t)
	w.scheme.AddKnownTypeWithName(schema.GroupVersionKind{Group: "absent.pawl.dev", Version: "v1", Kind: "Lost"}, &unregisteredDemo{})
	m := w.manager(nil)
	w.setup(m, func(c *controller.Controller[*Demo]) { c.Owns = []client.Object{&unregisteredDemo{}} })
	if err := m.Start(t.Context()); fault.Of(err) != controller.KindMissing || !strings.Contains(err.Error(), "Lost") {
		t.Errorf("Start gives %v", err)
	}
}

type unregisteredDemo struct{ Demo }

func (l *unregisteredDemo) DeepCopyObject() runtime.Object {
	return &unregisteredDemo{*l.Demo.DeepCopyObject().(*Demo)}
}

// Owned objects, signals and chosen changes wake the main object.
func TestWhatElseWakes(t *testing.T) {
	w := newFixture(t)
	m := w.manager(nil)
	var passes atomic.Int32
	notify := make(chan control.Ref)
	w.setup(m, func(c *controller.Controller[*Demo]) {
		c.Reconcile = func(context.Context, control.Ref) outcome.Outcome { passes.Add(1); return outcome.Done() }
		c.Owns = []client.Object{&corev1.ConfigMap{}}
		c.Watches = []controller.Watch{{Object: &corev1.Secret{}, Keys: func(_ context.Context, obj client.Object) []types.NamespacedName {
			return []types.NamespacedName{{Namespace: obj.GetNamespace(), Name: obj.GetLabels()["for"]}}
		}}}
		c.Requests = []string{"example.com/"}
		c.ExtraUpdates = func(old, now *Demo) bool { return old.Status.N != now.Status.N }
		c.Signals = func(ctx context.Context, add func(control.Ref)) {
			for {
				select {
				case ref := <-notify:
					add(ref)
				case <-ctx.Done():
					return
				}
			}
		}
	})
	w.create("a", 1)
	stop := w.start(m)
	n := int32(1)
	w.until("the first pass", func() error { return atLeast(&passes, n) })
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "m"}}
	for _, act := range []struct {
		name string
		do   func() error
	}{
		{"an owned object comes", func() error {
			return controller.Applier{Client: w.client, Owner: "exam"}.Apply(t.Context(), config, w.get("a"))
		}},
		{"an owned object goes", func() error { return w.client.Delete(t.Context(), config) }},
		{"a watched object comes", func() error {
			return w.client.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "s", Labels: map[string]string{"for": "a"}}})
		}},
		{"a signal", func() error {
			notify <- control.Ref{Kind: "Other", Namespace: w.namespace, Name: "a"}
			notify <- control.Ref{Kind: "Demo", Namespace: w.namespace, Name: "a"}
			return nil
		}},
		{"a request of another prefix", func() error { w.patch("a", `{"metadata":{"annotations":{"example.com/x":"1"}}}`); return nil }},
		{"a chosen change", func() error {
			return w.client.Status().Patch(t.Context(), named(w.namespace, "a"), client.RawPatch(types.MergePatchType, []byte(`{"status":{"n":1}}`)))
		}},
	} {
		if err := act.do(); err != nil {
			t.Fatalf("%s: %v", act.name, err)
		}
		n++
		w.until(act.name, func() error { return atLeast(&passes, n) })
	}
	stop()
	if got := passes.Load(); got != n {
		t.Errorf("%d passes, want %d", got, n)
	}
}

// A machine stores its positions in the status; a writer with an old version fails.
func TestPositionsAreComparedAndSet(t *testing.T) {
	w := newFixture(t)
	c := controller.FaultClient(w.client)
	var moves []string
	p := &controller.Positions[*Demo]{
		Client: c, Kind: "Demo", New: func() *Demo { return &Demo{} },
		Field: func(d *Demo) *json.RawMessage { return &d.Status.Position },
		Fill:  func(d *Demo, m machine.Move) error { d.Status.N = int(m.To.Visit); return nil },
		Moved: func(_ *Demo, m machine.Move) { moves = append(moves, string(m.To.State)) },
	}
	m, err := machine.New(machine.Table[*controller.Draft[*Demo]]{Name: "exam", Kind: "Demo", Initial: "Small", States: map[machine.State]machine.StateSpec[*controller.Draft[*Demo]]{
		"Small": {On: []machine.Transition[*controller.Draft[*Demo]]{{To: "Big", Event: "grown", When: func(d *controller.Draft[*Demo]) (bool, error) { return d.Object.Spec.N > 1, nil }}}},
		"Big":   {On: []machine.Transition[*controller.Draft[*Demo]]{{To: "Small", Event: "shrunk", When: func(d *controller.Draft[*Demo]) (bool, error) { return d.Object.Spec.N < 2, nil }}}},
	}}, machine.Options[*controller.Draft[*Demo]]{Objects: p, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ref := control.Ref{Kind: "Demo", Namespace: w.namespace, Name: "a"}
	if out := m.Advance(t.Context(), ref); !out.IsDone() && fault.Of(out.Err()) != control.NotFound {
		t.Errorf("an object that is not there: %v", out)
	}
	w.create("a", 2)
	if out := m.Advance(t.Context(), ref); out.IsFail() {
		t.Fatal(out)
	}
	loaded, err := p.Load(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	d := loaded.Object
	at, err := p.Position(d)
	if err != nil || at.State != "Big" || at.Event != "grown" || d.Object.Status.N != int(at.Visit) || fmt.Sprint(moves) != "[Big]" {
		t.Errorf("position %+v (%v), status %+v, moves %v", at, err, d.Object.Status, moves)
	}
	if got, want := p.Subject(d), "Demo/"+w.namespace+"/a/"+string(d.Object.UID); got != want {
		t.Errorf("the subject is %s, want %s", got, want)
	}
	w.create("a", 3)
	if err := p.Write(t.Context(), d, machine.Move{From: at, To: machine.Position{State: "Small", Visit: 9}, Cause: machine.ByEvent}); fault.Of(err) != fault.WriteConflict {
		t.Errorf("a write over a newer version: %v", err)
	}
	if fmt.Sprint(moves) != "[Big]" {
		t.Errorf("a move that was not written was reported: %v", moves)
	}
}

// One API call in ten fails: no object fails, and all complete.
func TestTroubleOfTheAPIServerGivesNothingUp(t *testing.T) {
	w := newFixture(t)
	var calls, failed atomic.Int32
	trouble := func() error {
		if n := calls.Add(1); n%10 == 0 {
			failed.Add(1)
			return []error{
				statusError(http.StatusConflict, metav1.StatusReasonConflict), statusError(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests),
				statusError(http.StatusInternalServerError, metav1.StatusReasonInternalError), context.DeadlineExceeded,
			}[n/10%4]
		}
		return nil
	}
	m := w.manager(func(o *controller.Options) {
		o.NewClient = func(config *rest.Config, options client.Options) (client.Client, error) {
			inner, err := client.NewWithWatch(config, options)
			return interceptor.NewClient(inner, interceptor.Funcs{
				SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
					if err := trouble(); err != nil {
						return err
					}
					return c.SubResource(sub).Patch(ctx, obj, p, opts...)
				},
			}), err
		}
	})
	var given atomic.Int32
	w.setup(m, func(c *controller.Controller[*Demo]) {
		c.MaxRetries = -1 // the first failure that counts would be the last
		c.GivenUp = func(_ control.Ref, err error) { given.Add(1); t.Log(err) }
		c.Reconcile = func(ctx context.Context, ref control.Ref) outcome.Outcome {
			d, err := controller.Load(ctx, m.GetClient(), m.GetClient(), client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, &Demo{})
			if err != nil {
				return outcome.Fail(err)
			}
			if d.Object.Status.N < 10 {
				d.Object.Status.N++
				if _, err := d.Save(ctx); err != nil {
					return outcome.Fail(err)
				}
				return outcome.Wait(time.Millisecond, "Counting", "%d", d.Object.Status.N)
			}
			return outcome.Done()
		}
	})
	for i := range 5 {
		w.create(fmt.Sprint("o-", i), 1)
	}
	w.start(m)
	w.until("all ends", func() error {
		for i := range 5 {
			if n := w.get(fmt.Sprint("o-", i)).Status.N; n != 10 {
				return fmt.Errorf("o-%d is at %d", i, n)
			}
		}
		return nil
	})
	if given.Load() != 0 || failed.Load() < 4 {
		t.Errorf("%d of %d calls failed and %d objects were given up", failed.Load(), calls.Load(), given.Load())
	}
}

func leaseOf(namespace string) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: controller.LeaseName}}
}

func statusError(code int32, reason metav1.StatusReason) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: "injected"}}
}

func atLeast(n *atomic.Int32, want int32) error {
	if got := n.Load(); got < want {
		return fmt.Errorf("%d, want %d", got, want)
	}
	return nil
}
