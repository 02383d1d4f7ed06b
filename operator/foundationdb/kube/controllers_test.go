package kube

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/outcome"
)

type reconciler func(ctx context.Context, ref control.Ref) outcome.Outcome

func (r reconciler) Reconcile(ctx context.Context, ref control.Ref) outcome.Outcome {
	return r(ctx, ref)
}

var blue = control.Ref{Kind: "FoundationDBCluster", Namespace: "n", Name: "blue"}

// Whatever a pass says, the next one comes within a look; a failure has the retries of its controller.
func TestLookAgain(t *testing.T) {
	for name, c := range map[string]struct {
		out, want outcome.Outcome
	}{
		"settled":        {outcome.Done(), outcome.Later(time.Minute, "Settled", "it is as it should be")},
		"soon":           {outcome.Wait(time.Second, "A", "a"), outcome.Wait(time.Second, "A", "a")},
		"soon, later":    {outcome.Later(time.Second, "A", "a"), outcome.Later(time.Second, "A", "a")},
		"in a while":     {outcome.Wait(time.Hour, "A", "50%s"), outcome.Wait(time.Minute, "A", "50%s")},
		"a while, later": {outcome.Later(time.Hour, "A", "50%s"), outcome.Later(time.Minute, "A", "50%s")},
		"at an event":    {outcome.Wait(0, "A", "a"), outcome.Wait(time.Minute, "A", "a")},
	} {
		got := lookAgain(c.out, time.Minute)
		if got.After() != c.want.After() || got.String() != c.want.String() || got.IsWait() != c.want.IsWait() {
			t.Errorf("%s: %s after %s", name, got, got.After())
		}
	}
	failed := outcome.Fail(errors.New("x"))
	if got := lookAgain(failed, time.Minute); got.Err() != failed.Err() || got.After() != 0 {
		t.Errorf("a failure: %s after %s", got, got.After())
	}
}

// Each object has its moment: a look after another comes after a whole Look, and those of many objects are spread.
func TestLooksAreSpread(t *testing.T) {
	start := time.Unix(1_700_000_000, 123)
	seconds := map[int]int{}
	for n := range 600 {
		ref := control.Ref{Kind: "FoundationDBCluster", Namespace: "n", Name: fmt.Sprint("c", n)}
		first := untilLook(ref, start, time.Minute)
		if first <= 0 || first > time.Minute+quiet {
			t.Fatalf("%s is looked at after %s", ref, first)
		}
		seconds[int((first%time.Minute)/(10*time.Second))]++
		at := start.Add(first)
		for _, pass := range []time.Duration{0, 200 * time.Millisecond, 5 * time.Second} {
			if next := untilLook(ref, at.Add(pass), time.Minute); next+pass != time.Minute {
				t.Fatalf("%s: after a look that took %s the next one is after %s", ref, pass, next)
			}
		}
		if next := untilLook(ref, at.Add(-time.Millisecond), time.Minute); next != time.Minute+time.Millisecond {
			t.Fatalf("%s: after a timer that was early the next look is after %s", ref, next)
		}
	}
	for part, n := range seconds {
		if n < 60 || n > 140 {
			t.Errorf("in part %d of six are %d of 600", part, n)
		}
	}
	if next := untilLook(blue, start, time.Millisecond); next <= 0 || next > 2*time.Millisecond {
		t.Errorf("with a short look the next one is after %s", next)
	}
}

func TestPassIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		hangs := reconciler(func(ctx context.Context, _ control.Ref) outcome.Outcome {
			<-ctx.Done()
			return outcome.Fail(ctx.Err())
		})
		out := passOf(hangs, time.Minute, time.Now)(t.Context(), blue)
		if took := time.Since(began); took != passLimit || !errors.Is(out.Err(), context.DeadlineExceeded) {
			t.Errorf("it took %s: %s", took, out)
		}
		settled := reconciler(func(context.Context, control.Ref) outcome.Outcome { return outcome.Done() })
		if out := passOf(settled, 0, time.Now)(t.Context(), blue); !out.IsDone() {
			t.Errorf("a restore that has ended: %s", out)
		}
		if out := passOf(settled, time.Minute, time.Now)(t.Context(), blue); out.After() != untilLook(blue, time.Now(), time.Minute) {
			t.Errorf("a settled cluster: %s after %s", out, out.After())
		}
	})
}
