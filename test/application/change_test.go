package application_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/application"
	"github.com/pawl-dev/pawl/operator/rollout"
	"github.com/pawl-dev/pawl/test/rollouttest"
)

// held is a plan that lets the first batch run and no more.
func held(sizes ...int) *api.RolloutPlan {
	p := rollouttest.Plan(sizes...)
	p.BatchPartition = new(int32(0))
	return p
}

// TestPauseAndPartition: the plan of the Application pauses, goes on, and holds earlier.
func TestPauseAndPartition(t *testing.T) {
	w := newWorld(t)
	w.Apply("shop", nil, stateful("db", "r1", 4))
	w.Reaches("shop", "shop-v1")
	plan := held(1, 1, 1)
	w.Apply("shop", plan, stateful("db", "r2", 4))
	w.Holds("shop", "shop-v2", 0)

	plan.BatchPartition, plan.Paused = new(int32(2)), true
	w.Apply("shop", plan, stateful("db", "r2", 4))
	w.Until("it is paused", func() bool {
		s := w.Now("shop").Status
		return s.Pause != nil && s.Pause.By == "User"
	})
	w.NotReadyFor("shop", "PausedByUser")
	w.ExpectPods("db", "0=r1 1=r1 2=r1 3=r2")

	plan.BatchPartition, plan.Paused = new(int32(1)), false // down, before it was reached
	w.Apply("shop", plan, stateful("db", "r2", 4))
	w.Holds("shop", "shop-v2", 1)
	w.ExpectPods("db", "0=r1 1=r1 2=r2 3=r2")
	plan.BatchPartition = nil
	w.Apply("shop", plan, stateful("db", "r2", 4))
	w.Reaches("shop", "shop-v2")
	w.ExpectPods("db", "0=r2 1=r2 2=r2 3=r2")
}

// TestModifyMidWay: a third revision while the second one is rolled out goes on from what is there.
func TestModifyMidWay(t *testing.T) {
	w := newWorld(t)
	w.Apply("shop", rollouttest.Plan(), stateful("db", "r1", 3))
	w.Reaches("shop", "shop-v1")
	w.Apply("shop", held(1, 1), stateful("db", "r2", 3))
	w.Holds("shop", "shop-v2", 0)
	w.Apply("shop", held(1, 1), stateful("db", "r3", 3))
	r := w.Holds("shop", "shop-v3", 0)
	w.ExpectPods("db", "0=r1 1=r1 2=r3")
	if r.Spec.Application.SourceRevision != "shop-v2" {
		t.Errorf("the source is %s", r.Spec.Application.SourceRevision)
	}
	// A rollback goes to what the pods had, not to the source that was never reached.
	w.Patch(r, "shop", `{"metadata":{"annotations":{"pawl.dev/rollback":"true"}}}`)
	w.Until("it is rolled back", func() bool {
		return meta.IsStatusConditionTrue(w.Now("shop").Status.Conditions, rollout.RolledBack)
	})
	w.ExpectPods("db", "0=r1 1=r1 2=r1")
	a := w.ApplicationIs("shop", application.RolloutComplete, metav1.ConditionFalse)
	if a.Status.ReachedRevision != "shop-v1" || a.Status.LatestRevision != "shop-v3" {
		t.Errorf("the status is %+v", a.Status)
	}
	w.Apply("shop", rollouttest.Plan(1, 1), stateful("db", "r4", 3))
	w.Reaches("shop", "shop-v4")
	w.ExpectPods("db", "0=r4 1=r4 2=r4")
}

// TestRevertWhileRolling: the earlier content makes a new revision with the same hash, and the pods go back.
func TestRevertWhileRolling(t *testing.T) {
	w := newWorld(t)
	w.Apply("shop", rollouttest.Plan(), stateful("db", "r1", 3))
	w.Reaches("shop", "shop-v1")
	w.Apply("shop", held(2), stateful("db", "r2", 3))
	w.Holds("shop", "shop-v2", 0)
	w.Apply("shop", held(2), stateful("db", "r1", 3))
	w.Reaches("shop", "shop-v3")
	w.ExpectPods("db", "0=r1 1=r1 2=r1")
	if events := w.History("shop"); !strings.Contains(events, "RollbackRequested") || strings.Count(events, "RollingModified") != 1 {
		t.Errorf("the history is %s", events)
	}
	if r := w.Now("shop"); !meta.IsStatusConditionTrue(r.Status.Conditions, rollout.RolledBack) {
		t.Errorf("the Rollout is %+v", r.Status)
	}
	first, third := &api.ApplicationRevision{}, &api.ApplicationRevision{}
	w.Read("shop-v1", first)
	w.Read("shop-v3", third)
	if first.Spec.Hash != third.Spec.Hash {
		t.Errorf("the hashes are %s and %s", first.Spec.Hash, third.Spec.Hash)
	}
	w.Apply("shop", rollouttest.Plan(1), stateful("db", "r4", 3))
	w.Reaches("shop", "shop-v4")
	w.ExpectPods("db", "0=r4 1=r4 2=r4")
}

// TestRevertOfHalfARollout: a rollout that was abandoned half way is taken back by a revision with the
// content that was reached.
func TestRevertOfHalfARollout(t *testing.T) {
	w := newWorld(t)
	w.Apply("shop", rollouttest.Plan(), stateful("db", "r1", 3))
	w.Reaches("shop", "shop-v1")
	w.Apply("shop", held(2), stateful("db", "r2", 3))
	r := w.Holds("shop", "shop-v2", 0)
	w.Patch(r, "shop", `{"metadata":{"annotations":{"pawl.dev/abandon":"true"}}}`)
	w.Until("it has failed", func() bool { return w.Now("shop").Status.RollingState == "rolloutFailed" })
	w.ExpectPods("db", "0=r1 1=r2 2=r2")
	w.Apply("shop", rollouttest.Plan(2), stateful("db", "r1", 3))
	w.Reaches("shop", "shop-v3")
	w.ExpectPods("db", "0=r1 1=r1 2=r1")
}

// TestAutomaticRollback: a broken version goes back by itself, and the Application says so until there is a
// better one.
func TestAutomaticRollback(t *testing.T) {
	w := newWorld(t)
	w.Break("broken")
	plan := rollouttest.Plan(1)
	plan.BatchDeadline, plan.OnFailure = new(api.RolloutDeadline("2s")), "rollback"
	w.Apply("shop", rollouttest.Plan(1), stateful("db", "r1", 3))
	w.Reaches("shop", "shop-v1")
	w.Apply("shop", plan, stateful("db", "broken", 3))
	a := &api.Application{}
	w.Until("the Application says what has failed", func() bool {
		w.Read("shop", a)
		c := meta.FindStatusCondition(a.Status.Conditions, application.RolloutComplete)
		return c.Status == metav1.ConditionFalse && c.Reason == "BatchDeadline" && w.PodImages("db") == "0=r1 1=r1 2=r1"
	})
	if a.Status.ReachedRevision != "shop-v1" || meta.IsStatusConditionTrue(a.Status.Conditions, application.Ready) {
		t.Errorf("the status is %+v", a.Status)
	}
	w.Apply("shop", rollouttest.Plan(1), stateful("db", "r3", 3))
	w.Reaches("shop", "shop-v3")
	w.ExpectPods("db", "0=r3 1=r3 2=r3")
}

// TestSizeAndTemplate: both changed is a rollout, then a scale; the size alone is a scale; what changes
// nothing for the pods is no rollout.
func TestSizeAndTemplate(t *testing.T) {
	w := newWorld(t)
	w.Apply("shop", rollouttest.Plan(1), stateful("db", "r1", 2))
	w.Reaches("shop", "shop-v1")
	w.Apply("shop", held(1), stateful("db", "r2", 4))
	w.Holds("shop", "shop-v2", 0)
	w.ExpectPods("db", "0=r1 1=r2")
	w.Apply("shop", rollouttest.Plan(1), stateful("db", "r2", 4))
	a := w.Reaches("shop", "shop-v2")
	w.ExpectPods("db", "0=r2 1=r2 2=r2 3=r2")
	if r := w.Now("shop"); r.Status.Mode != "Scale" || r.Status.Number != 3 || a.Status.ReachedReplicas["db"] != 4 {
		t.Errorf("the Rollout is %+v, the Application %+v", r.Status, a.Status)
	}
	w.Apply("shop", rollouttest.Plan(1), stateful("db", "r2", 1))
	w.Reaches("shop", "shop-v3")
	w.ExpectPods("db", "0=r2")
	if r := w.Now("shop"); r.Status.Mode != "Scale" || r.Status.Number != 4 || r.Spec.Application.SourceRevision != "" {
		t.Errorf("the Rollout is %+v", r.Status)
	}

	labelled := stateful("db", "r2", 1)
	labelled.Workload.Metadata.Labels = map[string]string{"team": "a"}
	w.Apply("shop", rollouttest.Plan(1), labelled)
	w.Reaches("shop", "shop-v4")
	if r := w.Now("shop"); r.Status.Number != 4 {
		t.Errorf("the Rollout is %+v", r.Status)
	}
	// The size of the plan wins, and needs no revision.
	plan := rollouttest.Plan(1)
	plan.TargetSize = new(int32(3))
	w.Apply("shop", plan, labelled)
	w.Until("the size of the plan is reached", func() bool {
		a := w.Reaches("shop", "shop-v4")
		return a.Status.ReachedReplicas["db"] == 3
	})
	w.ExpectPods("db", "0=r2 1=r2 2=r2")
}

// TestAnotherDefault: a field that is written out with its default is another content, and moves no pod.
func TestAnotherDefault(t *testing.T) {
	w := newWorld(t)
	w.Apply("shop", rollouttest.Plan(1), stateful("db", "r1", 2))
	w.Reaches("shop", "shop-v1")
	explicit := stateful("db", "r1", 2)
	explicit.Workload.Spec.Raw = []byte(strings.Replace(string(explicit.Workload.Spec.Raw), `"terminationGracePeriodSeconds"`, `"restartPolicy":"Always","terminationGracePeriodSeconds"`, 1))
	w.Apply("shop", rollouttest.Plan(1), explicit)
	w.Reaches("shop", "shop-v2")
	if events := w.History("shop"); strings.Count(events, "OneBatchAvailable") != 2 {
		t.Errorf("the history is %s", events)
	}
}
