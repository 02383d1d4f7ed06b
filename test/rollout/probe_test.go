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
	<-asked
	w.waitsFor("db", "HeldByPartition")
	for quiet := false; !quiet; { // what was under way ends
		select {
		case <-asked:
		case <-time.After(2 * period):
			quiet = true
		}
	}
	select {
	case <-asked:
		t.Error("a pod was probed while the rollout was held")
	case <-time.After(5 * period):
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
