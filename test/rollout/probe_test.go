package rollout_test

import (
	"net/http"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/operator/rollout"
)

// TestProbesRest: while a rollout is held, no pod is probed; what the probes showed before counts no
// more when it goes on.
func TestProbesRest(t *testing.T) {
	const period = time.Second
	w := newWorld(t)
	w.statefulSet("db", 3, appsv1.ParallelPodManagement)
	w.plan("db", `
numBatches: 3
batchPartition: 0
probes:
- {name: health, http: {port: 8474}, period: 1s, failureThreshold: 1000}
`)
	w.setImage("db", "r2")
	w.until("the pod is new", func() bool { return w.images("db") == "0=r1 1=r1 2=r2" })
	asked := make(chan struct{}, 1000)
	healthy := make(chan bool, 1)
	healthy <- true
	podServer(w, "db-2", 8474, func(rw http.ResponseWriter, _ *http.Request) {
		asked <- struct{}{}
		is := <-healthy
		healthy <- is
		if !is {
			http.Error(rw, "down", http.StatusServiceUnavailable)
		}
	})
	w.waitsFor("db", "HeldByPartition")
	for len(asked) > 0 {
		<-asked
	}
	for quiet, late := time.After(6*period), 0; quiet != nil; {
		select {
		case <-asked:
			if late++; late > 1 { // one was under way
				t.Fatal("a pod is probed while the rollout is held")
			}
		case <-quiet:
			quiet = nil
		}
	}
	if got := w.now("db").Status.UpgradedReadyReplicas; got != 1 {
		t.Errorf("%d pods are ready while it is held", got)
	}
	<-healthy
	healthy <- false
	w.annotate("db", "approve", "next")
	<-asked
	r := w.waitsFor("db", "BatchNotReady")
	w.expectImages("db", "0=r1 1=r1 2=r2")
	if r.Status.CurrentBatch != 0 {
		t.Errorf("batch %d has begun", r.Status.CurrentBatch)
	}
	<-healthy
	healthy <- true
	w.until("the next batch moves", func() bool { return w.images("db") != "0=r1 1=r1 2=r2" })
	w.annotate("db", "abandon", "true")
	w.is("db", rollout.Stalled, metav1.ConditionTrue)
}

// TestProbesOfAPodThatStarts: what fails before a pod was ready does not count; then it does.
func TestProbesOfAPodThatStarts(t *testing.T) {
	w := newWorld(t)
	w.statefulSet("db", 1, appsv1.ParallelPodManagement)
	w.plan("db", "probes: [{name: health, http: {port: 8475}, period: 1s, failureThreshold: 2}]")
	w.breakImage("r2")
	w.setImage("db", "r2")
	w.until("the pod is new", func() bool { return w.images("db") == "0=r2-" })
	asked := make(chan struct{}, 1000)
	podServer(w, "db-0", 8475, func(rw http.ResponseWriter, _ *http.Request) {
		asked <- struct{}{}
		http.Error(rw, "starting", http.StatusServiceUnavailable)
	})
	for range 4 {
		select {
		case <-asked:
		case <-time.After(10 * time.Second):
			t.Fatalf("the pod is not probed any more: %+v", w.now("db").Status.Pause)
		}
	}
	if p := w.now("db").Status.Pause; p != nil {
		t.Errorf("a pod that starts has stopped the rollout: %+v", p)
	}
	w.mendImage("r2")
	w.until("the pod is ready", func() bool { return w.images("db") == "0=r2" })
	if p := w.is("db", rollout.Paused, metav1.ConditionTrue).Status.Pause; p == nil || p.By != "Probe" {
		t.Errorf("the pause is %+v", p)
	}
}
