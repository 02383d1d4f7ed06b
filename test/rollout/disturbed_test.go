package rollout_test

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/rollout"
	"github.com/pawl-dev/pawl/test/controlplane"
	"github.com/pawl-dev/pawl/test/rollouttest"
)

// proxied is a namespace whose operator speaks to the API server through a proxy.
func proxied(t *testing.T) (*world, *controlplane.Proxy) {
	t.Helper()
	w := newQuietWorld(t)
	proxy, err := w.plane.NewProxyAs(w.config)
	if err != nil {
		t.Fatal(err)
	}
	return w, proxy
}

func (w *world) startBehind(proxy *controlplane.Proxy) {
	w.t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", proxy.Kubeconfig())
	if err != nil {
		w.t.Fatal(err)
	}
	w.start(config)
}

// TestDisturbed: an API server that is away, answers that are lost and watches that lag change neither
// the end nor what is moved.
func TestDisturbed(t *testing.T) {
	for what, disturb := range rollouttest.Disturbances {
		for _, name := range []string{"rollout", "deletion that rolls back", "scale down"} {
			t.Run(what+"/"+name, func(t *testing.T) {
				t.Parallel()
				l := lives[name]
				w, proxy := proxied(t)
				made := w.countPods()
				l.begin(w)
				w.startBehind(proxy)
				disturb(w.World, proxy)
				l.live(w)
				proxy.Intercept(nil)
				l.check(w)
				if got := made(); fmt.Sprint(got) != fmt.Sprint(l.moved) {
					t.Errorf("pods were made %v, expected %v", got, l.moved)
				}
			})
		}
	}
}

// TestRestCostsNothing: rollouts at rest send no request, and what changes in the status of a workload
// without anything to do sends none either.
func TestRestCostsNothing(t *testing.T) {
	t.Parallel()
	w, proxy := proxied(t)
	for _, name := range []string{"a", "b", "c"} {
		w.statefulSet(name, 2, appsv1.ParallelPodManagement)
		w.rollout(name, api.RolloutSpec{})
	}
	w.startBehind(proxy)
	for _, name := range []string{"a", "b", "c"} {
		w.is(name, "Ready", metav1.ConditionTrue)
	}
	w.setImage("a", "r2")
	w.is("a", rollout.Succeeded, metav1.ConditionTrue)
	var calls atomic.Int32
	proxy.Intercept(func(c *controlplane.Call) controlplane.Reaction {
		if c.Verb != "watch" {
			calls.Add(1)
			t.Logf("a call at rest: %s", *c)
		}
		return controlplane.Reaction{}
	})
	w.until("it rests", func() bool { // Events are written, and kinds that are not there have been asked for
		calls.Store(0)
		time.Sleep(2 * time.Second)
		return calls.Load() == 0
	})
	w.breakImage("r2") // the pods of a fall: nothing that a rollout would do
	time.Sleep(3 * time.Second)
	if n := calls.Load(); n > 0 {
		t.Errorf("%d calls at rest", n)
	}
	proxy.Intercept(nil)
}

// TestRequestsOfABatch: a batch with one release costs two requests, a write of the status and one of the
// workload, one more where its pods take longer than a moment, and now and then one that archives history. Their
// bodies have at most 16 KB in both directions, at any number of pods. On a machine that is busy the pods of a
// batch become ready in more than one moment: the best of three rollouts counts.
func TestRequestsOfABatch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ pods, batches int }{{3, 3}, {24, 8}} {
		w, proxy := proxied(t)
		w.statefulSet("db", c.pods, appsv1.ParallelPodManagement)
		w.rollout("db", api.RolloutSpec{RolloutPlan: api.RolloutPlan{NumBatches: new(int32(c.batches))}})
		w.startBehind(proxy)
		w.is("db", "Ready", metav1.ConditionTrue)
		for attempt := 1; ; attempt++ {
			calls, size, between := requestsOfABatch(w, proxy, "r"+strconv.Itoa(attempt+1), c.batches)
			t.Logf("%d pods: %.1f requests and %.0f bytes for each batch: %v", c.pods, calls, size, between)
			if delays := releaseDelays(t, w); delays != uint64(c.batches*attempt) {
				t.Errorf("%d pods in %d batches: %d release delays were observed", c.pods, c.batches, delays)
			}
			if calls >= 2 && calls <= 3.5 && size <= 16<<10 {
				break
			}
			if calls < 2 || attempt == 3 {
				t.Errorf("%d pods: %.1f requests and %.0f bytes for each batch: %v", c.pods, calls, size, between)
				break
			}
		}
	}
}

// requestsOfABatch rolls db out, and counts requests and bytes for each batch, from behind the release of the
// first one to that of the last.
func requestsOfABatch(w *world, proxy *controlplane.Proxy, image string, batches int) (calls, size float64, between []controlplane.Call) {
	w.Helper()
	before := len(proxy.Calls())
	w.setImage("db", image)
	w.until("the pods have "+image, func() bool { return !strings.Contains(strings.ReplaceAll(w.images("db"), "="+image, ""), "=") })
	w.is("db", rollout.Succeeded, metav1.ConditionTrue)
	released := 0
	var bytes int64
	for _, call := range proxy.Calls()[before:] {
		if released > 0 && released < batches && call.Verb != "watch" && call.Resource != "events" && call.Resource != "" { // discovery has none
			between = append(between, call)
			bytes += int64(len(call.Body)) + call.Received
		}
		if body := string(call.Body); call.Resource == "statefulsets" && strings.Contains(body, "updateStrategy") && !strings.Contains(body, "ownerReferences") {
			released++
		}
	}
	if released != batches {
		w.Fatalf("%d releases for %d batches", released, batches)
	}
	more := float64(batches - 1)
	return float64(len(between)) / more, float64(bytes) / more, between
}

// releaseDelays is how many the operator of a world has observed.
func releaseDelays(t *testing.T, w *world) uint64 {
	t.Helper()
	families, err := w.Options.Manager.Metrics().Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "pawl_rollout_release_delay_seconds" {
			return f.GetMetric()[0].GetHistogram().GetSampleCount()
		}
	}
	t.Fatal("there is no metric of release delays")
	return 0
}
