package rollout_test

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/rollout"
)

func timeOf(t *testing.T, at api.RolloutTime) time.Time {
	t.Helper()
	is, err := time.Parse(time.RFC3339Nano, string(at))
	if err != nil {
		t.Fatal(err)
	}
	return is
}

// TestDeadlineOverARestart: the operator is away while the deadline of a batch passes. The one that starts
// then lets it act only when it has worked itself for as long; a deadline that has not passed keeps its
// moment.
func TestDeadlineOverARestart(t *testing.T) {
	const limit = 12 * time.Second
	w := newWorld(t)
	for name, deadline := range map[string]string{"mended": limit.String(), "stuck": limit.String(), "patient": "1h"} {
		w.statefulSet(name, 2, appsv1.ParallelPodManagement)
		w.plan(name, "rolloutBatches: [{replicas: 1}, {}]\nbatchDeadline: "+deadline)
		w.breakImage(name + "-1")
		w.setImage(name, "r2")
	}
	until := map[string]time.Time{}
	for _, name := range []string{"mended", "stuck", "patient"} {
		r := w.waitsFor(name, "PodsNotReady")
		if r.Status.Waiting.Deadline == nil {
			t.Fatalf("%s has no deadline: %+v", name, r.Status.Waiting)
		}
		until[name] = timeOf(t, *r.Status.Waiting.Deadline)
	}
	w.stop()
	w.until("the deadlines have passed", func() bool { return time.Now().After(until["mended"]) && time.Now().After(until["stuck"]) })

	again := time.Now()
	w.start(w.config)
	for _, name := range []string{"mended", "stuck", "patient"} {
		w.see(name)
		r := w.now(name)
		if r.Status.Pause != nil || r.Status.Waiting == nil || r.Status.Waiting.Deadline == nil {
			t.Fatalf("%s: the deadline acts at once: %+v, %+v", name, r.Status.Pause, r.Status.Waiting)
		}
		if is := timeOf(t, *r.Status.Waiting.Deadline); name == "patient" && !is.Equal(until[name]) {
			t.Errorf("the deadline was at %s and is at %s", until[name], is)
		}
	}
	w.mendImage("mended-1")
	w.is("mended", rollout.Succeeded, metav1.ConditionTrue)
	w.expectImages("mended", "0=r2 1=r2")
	r := w.waitsFor("stuck", "BatchDeadline")
	if p := r.Status.Pause; p == nil || p.By != "Deadline" || timeOf(t, p.Since).Before(again.Add(limit)) {
		t.Errorf("it works since %s, and has paused: %+v", again, p)
	}
	w.mendImage("stuck-1")
	w.annotate("stuck", "retry", "by=ann")
	w.is("stuck", rollout.Succeeded, metav1.ConditionTrue)
}
