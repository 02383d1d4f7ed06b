package rollout_test

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/rollout"
	"github.com/pawl-dev/pawl/test/rollouttest"
)

func timeOf(at api.RolloutTime) time.Time {
	is, _ := time.Parse(time.RFC3339Nano, string(at)) // what is no time is the zero time
	return is
}

// TestDeadlineOverARestart: the operator is away while the deadline of a batch passes. The one that starts
// then lets it act only when it has worked itself for half a minute; a deadline that has not passed keeps
// its moment.
func TestDeadlineOverARestart(t *testing.T) {
	t.Parallel()
	w := newQuietWorld(t)
	clock := &rollouttest.Clock{}
	w.Options.Now = clock.Now
	w.start(w.config)
	until := map[string]time.Time{}
	for name, deadline := range map[string]string{"patient": "100h", "stuck": "1h"} {
		w.statefulSet(name, 2, appsv1.ParallelPodManagement)
		w.plan(name, "rolloutBatches: [{replicas: 1}, {}]\nbatchDeadline: "+deadline)
		w.breakImage(name + "-1")
		w.setImage(name, "r2")
		until[name] = deadlineOf(w.waitsFor(name, "PodsNotReady"))
	}
	w.stop()
	clock.Forward(2 * time.Hour)

	again := clock.Now()
	w.start(w.config)
	w.see("stuck")
	if r := w.now("stuck"); r.Status.Pause != nil {
		t.Fatalf("the deadline acts at once: %+v", r.Status.Pause)
	}
	clock.Forward(time.Minute)
	w.see("stuck")
	r := w.waitsFor("stuck", "BatchDeadline")
	if p := r.Status.Pause; p == nil || p.By != "Deadline" || timeOf(p.Since).Before(again.Add(30*time.Second)) {
		t.Errorf("it works since %s, and has paused: %+v", again, p)
	}
	w.see("patient")
	if is := deadlineOf(w.now("patient")); until["patient"].IsZero() || !is.Equal(until["patient"]) {
		t.Errorf("the deadline was at %s and is at %s", until["patient"], is)
	}
	w.mendImage("stuck-1")
	w.annotate("stuck", "retry", "by=ann")
	w.is("stuck", rollout.Succeeded, metav1.ConditionTrue)
}

// deadlineOf is until when what a Rollout waits for must be done; zero: there is no such moment.
func deadlineOf(r *api.Rollout) time.Time {
	if r.Status.Waiting == nil || r.Status.Waiting.Deadline == nil {
		return time.Time{}
	}
	return timeOf(*r.Status.Waiting.Deadline)
}
