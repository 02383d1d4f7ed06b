package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/kube/condition"
	"github.com/pawl-dev/pawl/outcome"
)

type fixture struct {
	*worker[*demo]
	store  *store
	told   *recordedEvents
	given  []error
	answer func(context.Context) outcome.Outcome
}

func newFixture(t *testing.T, most int) *fixture {
	t.Helper()
	counted, err := newMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	b := &fixture{told: &recordedEvents{}, store: &store{obj: &demo{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a", UID: "u", ResourceVersion: "1", Generation: 7}}}}
	b.worker = &worker[*demo]{
		name: "demo", kind: "Demo", conditions: conditionsOf, condition: condition.TypeProgressing, cached: b.store, live: b.store, client: b.store,
		newObject: func() *demo { return &demo{} }, passes: context.Background(), retries: newRetries(most), events: Events{b.told}, metrics: counted, log: quiet, now: time.Now,
		reconcile: func(ctx context.Context, _ control.Ref) outcome.Outcome { return b.answer(ctx) },
		givenUp:   func(_ control.Ref, err error) { b.given = append(b.given, err) },
	}
	return b
}

func (b *fixture) pass(t *testing.T, out outcome.Outcome) time.Duration {
	t.Helper()
	b.answer = func(context.Context) outcome.Outcome { return out }
	result, err := b.Reconcile(t.Context(), key("a"))
	if err != nil {
		t.Fatalf("controller-runtime hears of %v", err)
	}
	return result.RequeueAfter
}

func TestOutcomeSetsTheRequeue(t *testing.T) {
	for name, c := range map[string]struct {
		out  outcome.Outcome
		want time.Duration
	}{
		"done":                {outcome.Done(), 0},
		"wait":                {outcome.Wait(time.Minute, "W", ""), time.Minute},
		"wait for a change":   {outcome.Wait(0, "W", ""), 0},
		"later":               {outcome.Later(time.Hour, "L", ""), time.Hour},
		"the first failure":   {outcome.Fail(errors.New("boom")), firstRetry},
		"a free fault":        {outcome.Fail(fault.APIUnavailable.Errorf("x")), firstRetry},
		"an API call's error": {outcome.Fail(apierrors.NewTooManyRequests("x", 1)), firstRetry},
	} {
		t.Run(name, func(t *testing.T) {
			b := newFixture(t, 15)
			if got := b.pass(t, c.out); got != c.want {
				t.Errorf("again after %s, want %s", got, c.want)
			}
			b.store.obj = nil
			if got := b.pass(t, c.out); got != 0 || b.retries.len() != 0 {
				t.Errorf("an object that vanished: again after %s, %d keys remembered", got, b.retries.len())
			}
			if len(b.store.writes) != 0 {
				t.Errorf("a pass that gives nothing up writes %v", b.store.writes)
			}
		})
	}
}

func TestAPanicIsAFailure(t *testing.T) {
	b := newFixture(t, 0)
	cause := errors.New("deep down")
	for _, thrown := range []any{"in words", cause} {
		b.answer = func(context.Context) outcome.Outcome { panic(thrown) }
		if _, err := b.Reconcile(t.Context(), key("a")); err != nil {
			t.Fatal(err)
		}
	}
	if len(b.given) != 2 || fault.Details(b.given[0])["cause"] != "PANIC" || !errors.Is(b.given[1], cause) || !errors.Is(b.given[0], fault.Panic) {
		t.Errorf("given up with %v", b.given)
	}
}

func TestGivingUpIsReportedOnceAndReverted(t *testing.T) {
	b := newFixture(t, 2)
	boom, other := errors.New("boom"), Refused.Errorf("no")
	for i, err := range []error{boom, boom, fault.WriteConflict.Errorf("x"), other} {
		again := b.pass(t, outcome.Fail(err))
		if last := i == 3; last != (again == 0) || last != (len(b.given) == 1) {
			t.Fatalf("failure %d: again after %s, given up %v", i, again, b.given)
		}
	}
	if fault.Of(b.given[0]) != control.RetriesExhausted || !errors.Is(b.given[0], Refused) || !strings.Contains(b.given[0].Error(), "3 times in a row") {
		t.Errorf("given up with %v", b.given[0])
	}
	events := []string{"Unknown!: boom. " + fault.Unknown.Remedy, "ApiRefused!: no. " + Refused.Remedy,
		"RetriesExhausted!: Demo/default/a failed 3 times in a row, at last with API_REFUSED: no. " + control.RetriesExhausted.Remedy}
	if !slices.Equal(b.told.events, events) {
		t.Errorf("Events:\n%s\nwant:\n%s", strings.Join(b.told.events, "\n"), strings.Join(events, "\n"))
	}
	c := meta.FindStatusCondition(b.store.obj.Status.Conditions, condition.TypeProgressing)
	if c == nil || c.Reason != "RetriesExhausted" || c.Status != metav1.ConditionFalse || c.ObservedGeneration != 7 {
		t.Fatalf("the condition is %+v", c)
	}
	if w := b.store.writes[0]; !strings.Contains(w, `"resourceVersion":"1"`) || !strings.Contains(w, `"uid":"u"`) {
		t.Errorf("the write is not guarded: %s", w)
	}
	if again := b.pass(t, outcome.Wait(time.Hour, "CatchingUp", "3 bytes")); again != time.Hour {
		t.Errorf("again after %s", again)
	}
	c = meta.FindStatusCondition(b.store.obj.Status.Conditions, condition.TypeProgressing)
	if c.Reason != "CatchingUp" || c.Status != metav1.ConditionTrue || len(b.store.writes) != 2 || !strings.HasPrefix(b.told.events[3], "Revived: ") {
		t.Errorf("the condition is %+v after %d writes, Events %v", c, len(b.store.writes), b.told.events)
	}
	b.pass(t, outcome.Done())
	if len(b.store.writes) != 2 {
		t.Errorf("a pass without news writes %s", b.store.writes[2])
	}
}

// A fault that cannot be written is written again after a retry.
func TestReportingIsRetried(t *testing.T) {
	b := newFixture(t, 0)
	b.store.err = apierrors.NewConflict(schema.GroupResource{}, "a", errors.New("changed"))
	for i := range 3 {
		if again := b.pass(t, outcome.Fail(errors.New("boom"))); again != firstRetry<<i || len(b.given) != 0 {
			t.Fatalf("again after %s, given up %v", again, b.given)
		}
	}
	b.store.err = nil
	if again := b.pass(t, outcome.Fail(errors.New("boom"))); again != 0 || len(b.given) != 1 {
		t.Fatalf("again after %s, given up %v", again, b.given)
	}
	b.store.err = fault.APIUnavailable.Errorf("away")
	if again := b.pass(t, outcome.Done()); again == 0 {
		t.Error("a success that could not be reported is not repeated")
	}
	b.store.err = nil
	if again := b.pass(t, outcome.Done()); again != 0 || b.store.obj.Status.Conditions[0].Reason != "Done" {
		t.Errorf("again after %s, condition %+v", again, b.store.obj.Status.Conditions)
	}
}

// The fault of an object is not written into a newer object of the same name.
func TestAnotherObjectOfTheNameGetsNoFault(t *testing.T) {
	b := newFixture(t, 0)
	live := &store{obj: b.store.obj.DeepCopyObject().(*demo)}
	live.obj.UID = "another"
	b.live = live
	if again := b.pass(t, outcome.Fail(errors.New("boom"))); again != 0 || len(b.store.writes)+len(live.writes) != 0 {
		t.Errorf("again after %s, writes %v", again, b.store.writes)
	}
}

// A pass that the stop of the manager cancels is not charged.
func TestACancelledPassIsNotCharged(t *testing.T) {
	b := newFixture(t, 0)
	ctx, cancel := context.WithCancelCause(t.Context())
	b.passes = ctx
	b.answer = func(ctx context.Context) outcome.Outcome {
		cancel(control.ErrStopped)
		if context.Cause(ctx) != control.ErrStopped {
			t.Errorf("the cause is %v", context.Cause(ctx))
		}
		return outcome.Fail(ctx.Err())
	}
	if result, err := b.Reconcile(t.Context(), key("a")); err != nil || result.RequeueAfter != 0 || b.retries.len() != 0 || len(b.given) != 0 {
		t.Errorf("%v %v %v", result, err, b.given)
	}
}

// A pass may outlive the context of its controller, and has the values of both contexts.
func TestThePassesContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type named string
		values, stop := context.WithCancel(context.WithValue(t.Context(), named("log"), "l"))
		passes, cancel := context.WithCancelCause(context.WithValue(t.Context(), named("own"), "o"))
		ctx := passContext{passes, values}
		child, done := context.WithTimeout(ctx, time.Hour)
		defer done()
		stop()
		synctest.Wait()
		if ctx.Err() != nil || child.Err() != nil || fmt.Sprintf("%v %v %v %v", ctx.Value(named("log")), ctx.Value(named("own")), child.Value(named("log")), ctx.Value(named("x"))) != "l o l <nil>" {
			t.Errorf("%v %v", ctx.Err(), child.Err())
		}
		cancel(control.ErrStopped)
		synctest.Wait()
		if context.Cause(child) != control.ErrStopped || child.Err() == nil {
			t.Errorf("the child ends with %v", context.Cause(child))
		}
	})
}
