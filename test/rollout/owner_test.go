package rollout_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/rollout"
)

// TestGitOpsAllTheTime: a tool applies its manifest with partition 0 before, during and after a rollout,
// and takes something away each time: labels, claim, anchor or finalizer. It releases nothing, the
// rollout ends, and the workload survives the deletion of the Rollout.
func TestGitOpsAllTheTime(t *testing.T) {
	for _, takes := range []string{"labels", "claim", "anchor", "finalizer"} {
		t.Run(takes, func(t *testing.T) {
			w := newWorld(t)
			w.statefulSet("db", 3, appsv1.ParallelPodManagement)
			var image atomic.Value
			image.Store("r1")
			stop := w.every(500*time.Millisecond, func(c client.Client) { w.applyAndTake(c, takes, image.Load().(string)) })
			w.rollout("db", api.RolloutSpec{RolloutPlan: api.RolloutPlan{RolloutBatches: batches(1), BatchPartition: new(int32(0))}})
			w.is("db", "Ready", metav1.ConditionTrue)
			w.until("the set is held", func() bool {
				set := &appsv1.StatefulSet{}
				w.get("db", set)
				return set.Labels["pawl.dev/held"] == "true"
			})
			image.Store("r2")
			w.waitsFor("db", "HeldByPartition")
			w.expectImages("db", "0=r1 1=r1 2=r2")
			w.annotate("db", "approve", "all")
			w.is("db", rollout.Succeeded, metav1.ConditionTrue)
			w.expectImages("db", "0=r2 1=r2 2=r2")
			image.Store("r3")
			w.waitsFor("db", "HeldByPartition")
			w.expectImages("db", "0=r2 1=r2 2=r3")
			stop()
			before := w.uids("db")
			w.until("the claim is whole", func() bool {
				set := &appsv1.StatefulSet{}
				w.get("db", set)
				return len(set.OwnerReferences) == 2 && len(w.now("db").Finalizers) == 1
			})
			if err := w.client.Delete(t.Context(), w.now("db"), client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
				t.Fatal(err)
			}
			w.until("the Rollout is gone", func() bool { return w.gone("db") })
			w.collected()
			w.survived("db", before)
		})
	}
}

// applyAndTake applies a manifest as a tool does, and takes something away. Conflicts are for the next time.
func (w *world) applyAndTake(c client.Client, takes, image string) {
	meta := map[string]string{"labels": `"labels":{"pawl.dev/held":null,"pawl.dev/rollout":null}`, "claim": `"ownerReferences":null`}[takes]
	text := fmt.Sprintf(`{"metadata":{%s},"spec":{"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"partition":0}},"template":{"spec":{"containers":[{"name":"main","image":%q}]}}}}`, meta, image)
	_ = c.Patch(w.t.Context(), &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "db"}}, client.RawPatch("application/merge-patch+json", []byte(text)))
	switch takes {
	case "anchor":
		_ = c.Delete(w.t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "pawl-anchor"}})
	case "finalizer":
		_ = c.Patch(w.t.Context(), &api.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "db"}}, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))
	}
}

// every does something again and again, until the test ends or stop is called.
func (w *world) every(d time.Duration, do func(client.Client)) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(d)
		defer tick.Stop()
		for {
			do(w.client)
			select {
			case <-done:
				return
			case <-tick.C:
			}
		}
	}()
	stop = sync.OnceFunc(func() { close(done); <-ended })
	w.t.Cleanup(stop)
	return stop
}

// TestAnchorDeleted: the anchor of the namespace is deleted in the middle. It is made again, and the
// workload survives a deletion of the Rollout in the foreground.
func TestAnchorDeleted(t *testing.T) {
	w := canary(t, "")
	before := w.uids("db")
	anchor := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "pawl-anchor"}}
	if err := w.client.Delete(t.Context(), anchor); err != nil {
		t.Fatal(err)
	}
	w.until("the anchor is there again, and keeps the set", func() bool {
		set, again := &appsv1.StatefulSet{}, &corev1.ConfigMap{}
		w.get("db", set)
		if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(anchor), again); err != nil {
			return false
		}
		return len(set.OwnerReferences) == 2 && set.OwnerReferences[1].UID == again.UID
	})
	if err := w.client.Delete(t.Context(), w.now("db"), client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
		t.Fatal(err)
	}
	w.until("the Rollout is gone", func() bool { return w.gone("db") })
	w.collected()
	w.survived("db", before)
}

// TestAnchorWithoutGarbageCollector: a deleted anchor wakes the operator by itself. The garbage collector
// stands still, which otherwise takes the reference to it from the set and so wakes the operator: in a large
// cluster it is late, and a deletion in the foreground meanwhile would take the set along. Not parallel:
// the controllers of the plane stand still.
func TestAnchorWithoutGarbageCollector(t *testing.T) {
	w := newQuietWorld(t)
	w.start(w.config)
	w.holdAfterFirst("")
	w.see("db")
	resume := w.plane.Suspend(t)
	anchor := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "pawl-anchor"}}
	if err := w.client.Delete(t.Context(), anchor); err != nil {
		t.Fatal(err)
	}
	w.until("the anchor is there again, and keeps the set", func() bool {
		set, again := &appsv1.StatefulSet{}, &corev1.ConfigMap{}
		w.get("db", set)
		if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(anchor), again); err != nil {
			return false
		}
		return len(set.OwnerReferences) == 2 && set.OwnerReferences[1].UID == again.UID
	})
	resume()
}

// TestUninstalledInTheMiddle: the operator is gone and the Rollout is deleted: it waits. With its
// finalizer removed by hand it goes, and workload and pods stay. Pawl that is installed again takes the
// workload over where it was left.
func TestUninstalledInTheMiddle(t *testing.T) {
	w := canary(t, "")
	before := w.uids("db")
	w.stop()
	if err := w.client.Delete(t.Context(), w.now("db"), client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
		t.Fatal(err)
	}
	w.patch(&api.Rollout{}, "db", `{"metadata":{"finalizers":["foregroundDeletion"]}}`)
	w.until("the Rollout is gone", func() bool { return w.gone("db") })
	w.collected()
	if after := w.uids("db"); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("the pods were %v and are %v", before, after)
	}
	w.start(w.config)
	w.rollout("db", api.RolloutSpec{})
	w.is("db", rollout.Succeeded, metav1.ConditionTrue)
	w.expectImages("db", "0=r2 1=r2 2=r2")
	if after := w.uids("db"); after["db-2"] != before["db-2"] {
		t.Error("the pod that was new already was moved again")
	}
}

// TestTwoRollouts: of two Rollouts for one workload the older works; the other takes over when it goes.
func TestTwoRollouts(t *testing.T) {
	w := newWorld(t)
	w.statefulSet("db", 2, appsv1.ParallelPodManagement)
	w.rollout("db", api.RolloutSpec{RolloutPlan: api.RolloutPlan{RolloutBatches: batches(1), BatchPartition: new(int32(0))}})
	w.is("db", "Ready", metav1.ConditionTrue)
	w.rollout("late", api.RolloutSpec{TargetRef: api.WorkloadRef{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "db"}})
	w.waitsFor("late", "ClaimedByOther")
	w.setImage("db", "r2")
	w.waitsFor("db", "HeldByPartition")
	w.see("late")
	w.expectImages("db", "0=r1 1=r2")
	if w.now("late").Status.Number != 0 {
		t.Error("the younger one has begun")
	}
	if err := w.client.Delete(t.Context(), w.now("db")); err != nil {
		t.Fatal(err)
	}
	w.is("late", rollout.Succeeded, metav1.ConditionTrue)
	w.expectImages("db", "0=r2 1=r2")
}

// TestForeignController: a workload that another controller owns is left alone.
func TestForeignController(t *testing.T) {
	w := newWorld(t)
	w.statefulSet("db", 2, appsv1.ParallelPodManagement)
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "owner"}}
	if err := w.client.Create(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	w.patch(&appsv1.StatefulSet{}, "db", fmt.Sprintf(`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"owner","uid":%q,"controller":true}]}}`, owner.UID))
	w.rollout("db", api.RolloutSpec{})
	w.until("it was looked at", func() bool { return w.now("db").Status.Waiting != nil })
	w.patch(&appsv1.StatefulSet{}, "db", `{"spec":{"updateStrategy":{"rollingUpdate":{"partition":1}}}}`)
	w.setImage("db", "r2")
	w.until("it is refused", func() bool {
		s := w.now("db").Status
		return s.RollingState == "rolloutFailed" && s.Failure != nil && s.Failure.Reason == "ClaimedByOther"
	})
	set := &appsv1.StatefulSet{}
	w.get("db", set)
	if len(set.OwnerReferences) != 1 || *set.Spec.UpdateStrategy.RollingUpdate.Partition != 1 || set.Labels["pawl.dev/held"] != "" {
		t.Errorf("the set has %+v, %+v, %v", set.OwnerReferences, set.Spec.UpdateStrategy.RollingUpdate, set.Labels)
	}
}

// TestTwoOperators: each serves the Rollouts that name it, and no others.
func TestTwoOperators(t *testing.T) {
	t.Parallel()
	w := newQuietWorld(t)
	w.Options.Name = "one"
	w.start(w.config)
	w.Options.Name = "two"
	w.start(w.config)
	for _, name := range []string{"one", "two", "three"} {
		w.statefulSet(name, 2, appsv1.ParallelPodManagement)
		w.rollout(name, api.RolloutSpec{OperatorName: name})
	}
	for _, name := range []string{"one", "two"} {
		w.is(name, "Ready", metav1.ConditionTrue)
	}
	w.stop() // two
	w.setImage("one", "r2")
	w.setImage("two", "r2")
	w.is("one", rollout.Succeeded, metav1.ConditionTrue)
	w.expectImages("two", "0=r1 1=r1")
	if r := w.now("three"); r.Status.ObservedGeneration > 0 || len(r.Finalizers) > 0 {
		t.Errorf("the third was served: %+v", r.Status)
	}
	w.start(w.config)
	w.is("two", rollout.Succeeded, metav1.ConditionTrue)
}

// TestNewerVersion: a state that a newer version wrote is shown, and nothing is written to the workload
// until something else is asked for.
func TestNewerVersion(t *testing.T) {
	w := canary(t, "")
	set := &appsv1.StatefulSet{}
	w.get("db", set)
	r := &api.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "db"}}
	if err := w.client.Status().Patch(t.Context(), r, client.RawPatch("application/merge-patch+json", []byte(`{"status":{"rollingState":"shadowing"}}`))); err != nil {
		t.Fatal(err)
	}
	w.annotate("db", "approve", "all")
	w.until("it is shown", func() bool {
		for _, c := range w.now("db").Status.Conditions {
			if c.Reason == "RolloutStateUnknown" {
				return true
			}
		}
		return false
	})
	after := &appsv1.StatefulSet{}
	w.get("db", after)
	if after.Generation != set.Generation || w.now("db").Status.RollingState != "shadowing" {
		t.Errorf("generation %d became %d, the state is %s", set.Generation, after.Generation, w.now("db").Status.RollingState)
	}
	w.expectImages("db", "0=r1 1=r1 2=r2")
	w.setImage("db", "r3")
	w.waitsFor("db", "HeldByPartition")
	w.annotate("db", "approve", "all")
	w.is("db", rollout.Succeeded, metav1.ConditionTrue)
	w.expectImages("db", "0=r3 1=r3 2=r3")
}

// TestHookThatKillsItsCaller: the operator dies when it calls a hook; the next one asks again, under the
// same key, and the rollout ends.
func TestHookThatKillsItsCaller(t *testing.T) {
	w := newWorld(t)
	l := listen(t)
	kill := sync.OnceFunc(func() {
		w.stop()
		w.start(w.config)
	})
	l.answer = func(n int, _ heard) int {
		if n == 1 {
			go kill()
			<-t.Context().Done() // its caller is dead by then
		}
		return http.StatusOK
	}
	w.statefulSet("db", 2, appsv1.ParallelPodManagement)
	w.plan("db", fmt.Sprintf("rolloutWebhooks: [{name: kill, type: pre-batch-rollout, url: %q, timeout: 60s}]", l.URL))
	w.setImage("db", "r2")
	w.is("db", rollout.Succeeded, metav1.ConditionTrue)
	calls := l.on("")
	if len(calls) != 2 || calls[0].key != calls[1].key || fmt.Sprint(calls[0].body) != fmt.Sprint(calls[1].body) {
		t.Errorf("the calls were %+v", calls)
	}
}

// TestWitness: what a witness is for is seen by it.
func TestWitness(t *testing.T) {
	w := newQuietWorld(t)
	w.statefulSet("db", 3, appsv1.ParallelPodManagement)
	w.patch(&appsv1.StatefulSet{}, "db", `{"spec":{"updateStrategy":{"rollingUpdate":{"partition":3}}}}`)
	x := w.Witness
	rolloutOf := &api.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "db"}, Spec: api.RolloutSpec{
		TargetRef: api.WorkloadRef{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "db"},
	}}
	w.plainRollout(rolloutOf, "numBatches: 3\n"+majority+"\n")
	status := `{"status":{"rollingState":"rollingInBatches","batchRollingState":"batchInRolling","currentBatch":0,"upgradedReplicas":0,"upgradedReadyReplicas":0,"rolloutTargetSize":3,"batches":{"0":{"size":1,"target":1}}}}`
	if err := w.client.Status().Patch(t.Context(), rolloutOf, client.RawPatch("application/merge-patch+json", []byte(status))); err != nil {
		t.Fatal(err)
	}
	w.patch(&appsv1.StatefulSet{}, "db", fmt.Sprintf(`{"metadata":{"ownerReferences":[{"apiVersion":"pawl.dev/v1alpha1","kind":"Rollout","name":"db","uid":%q,"controller":true}]}}`, rolloutOf.UID))
	w.setImage("db", "r2")
	w.until("there is another revision", func() bool {
		set := &appsv1.StatefulSet{}
		w.get("db", set)
		return set.Status.UpdateRevision != set.Status.CurrentRevision
	})
	for _, partition := range []int{1, 2} { // two pods at once; a partition that rises
		w.patch(&appsv1.StatefulSet{}, "db", fmt.Sprintf(`{"spec":{"updateStrategy":{"rollingUpdate":{"partition":%d}}}}`, partition))
	}
	w.until("the witness has seen it", x.CaughtUp)
	found := strings.Join(x.Take(), "\n")
	for _, want := range []string{"a forward partition rises", "batch 0 ends at 1 pods", "1 of 3 members would be healthy, 2 must be"} {
		if !strings.Contains(found, want) {
			t.Errorf("it has not seen: %s\n%s", want, found)
		}
	}
}

// TestClaimOfARolloutThatIsGone: a claim whose Rollout does not exist any more is taken over.
func TestClaimOfARolloutThatIsGone(t *testing.T) {
	w := newWorld(t)
	w.statefulSet("db", 2, appsv1.ParallelPodManagement)
	w.patch(&appsv1.StatefulSet{}, "db", `{"spec":{"updateStrategy":{"rollingUpdate":{"partition":2}}}}`)
	w.setImage("db", "r2")
	anchor := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "pawl-anchor"}}
	if err := w.client.Create(t.Context(), anchor); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	w.patch(&appsv1.StatefulSet{}, "db", fmt.Sprintf(`{"metadata":{"ownerReferences":[
		{"apiVersion":"pawl.dev/v1alpha1","kind":"Rollout","name":"db","uid":"11111111-1111-1111-1111-111111111111","controller":true,"blockOwnerDeletion":false},
		{"apiVersion":"v1","kind":"ConfigMap","name":"pawl-anchor","uid":%q}]}}`, anchor.UID))
	w.rollout("db", api.RolloutSpec{})
	w.is("db", rollout.Succeeded, metav1.ConditionTrue)
	w.expectImages("db", "0=r2 1=r2")
}
