package faults_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/test/controlplane"
)

// onRequest calls a function, once, at the first chosen request of the operator.
func (o *operator) onRequest(chosen func(*controlplane.Call) bool) (reached chan struct{}) {
	reached = make(chan struct{})
	once := false
	o.proxy.Intercept(func(c *controlplane.Call) controlplane.Reaction {
		if !once && chosen(c) {
			once = true
			close(reached)
		}
		return controlplane.Reaction{}
	})
	return reached
}

func (w *fixture) awaitReached(what string, reached chan struct{}) {
	w.t.Helper()
	select {
	case <-reached:
	case <-time.After(patience):
		w.t.Fatalf("%s: that moment did not come", what)
	}
}

// remove deletes an object at once.
func (w *fixture) remove(obj client.Object) {
	w.t.Helper()
	if err := w.client.Delete(w.t.Context(), obj, client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
		w.t.Fatal(err)
	}
}

func named(w *fixture, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: w.namespace, Name: name}
}

// deleteRun deletes the active run.
func (w *fixture) deleteRun() {
	w.t.Helper()
	runs, err := w.runs(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	for _, r := range runs {
		if !w.old[r.UID] && r.Status.Phase != "Succeeded" {
			w.remove(&r)
			return
		}
	}
	w.t.Fatalf("no run is under way: %+v", runs)
}

// A run is deleted while it creates the cluster, and one while it switches the writer; the
// old writer's pod is deleted in the middle of a switch. The requests are completed all
// the same.
func TestRunsAndPodsAreDeleted(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test-long runs it")
	}
	t.Parallel()
	undisturbedBaseline(t)
	w := newFixture(t)
	o := w.operator(alone(15 * time.Second)...)
	o.start()

	begun := o.onRequest(writes("create", "pods", ""))
	w.create()
	w.awaitReached("the first pod", begun)
	w.deleteRun()
	w.awaitAtRest(nil)
	w.awaitTwoInstances()
	w.writers.rows()

	for _, m := range []struct {
		what string
		at   func(*controlplane.Call) bool
		do   func(c *v1alpha1.SharedStorageCluster)
	}{
		{"the run, behind the grant", writes("update", "leases", clusterName+"-grant"), func(*v1alpha1.SharedStorageCluster) { w.deleteRun() }},
		{"the old writer's pod", writes("update", "leases", clusterName+"-grant"), func(c *v1alpha1.SharedStorageCluster) {
			w.remove(&corev1.Pod{ObjectMeta: named(w, c.Status.Instances[c.Status.Writer].Name)})
		}},
	} {
		quiet(o, time.Second)
		w.ignoreRuns()
		c := w.awaitAtRest(nil)
		reached := o.onRequest(m.at)
		began := time.Now()
		id := w.switchWriter()
		w.awaitReached(m.what, reached)
		m.do(c)
		c = w.awaitAtRest(nil)
		if c.Status.Writer != id && !rejected(c) {
			t.Errorf("%s was deleted: the writer is %s, not %s, and nothing says why: %+v", m.what, c.Status.Writer, id, c.Status.Requests)
		}
		w.awaitTwoInstances()
		w.writers.rows()
		t.Logf("%s was deleted in the middle of a switch: at rest after %s", m.what, time.Since(began).Round(100*time.Millisecond))
	}
}

// rejected reports that the newest request was refused.
func rejected(c *v1alpha1.SharedStorageCluster) bool {
	return len(c.Status.Requests) > 0 && c.Status.Requests[len(c.Status.Requests)-1].State == "Rejected"
}

// other returns the id of the instance that is not the writer.
func other(c *v1alpha1.SharedStorageCluster) string {
	for id := range c.Status.Instances {
		if id != c.Status.Writer {
			return id
		}
	}
	return ""
}

// awaitTwoInstances waits until there are exactly two instances: one pod and one claim
// each, one writer.
func (w *fixture) awaitTwoInstances() {
	w.t.Helper()
	w.await(patience, "there are two instances and nothing more", func(ctx context.Context) error {
		pods, err := w.pods(ctx)
		if err != nil {
			return err
		}
		var claims corev1.PersistentVolumeClaimList
		if err := w.client.List(ctx, &claims, client.InNamespace(w.namespace)); err != nil {
			return err
		}
		var roles []string
		for _, p := range pods {
			roles = append(roles, p.Labels["pawl.dev/type"]+p.Labels["pawl.dev/role"])
		}
		slices.Sort(roles)
		if len(claims.Items) != 2 || !slices.Equal(roles, []string{"roro", "rwrw"}) {
			return fmt.Errorf("pods %v, %d claims", roles, len(claims.Items))
		}
		return nil
	})
}

// The claim of the reader is deleted with its pod, then that of the writer: their data are
// gone. A new reader is created from the writer; for the writer, the reader takes over. No
// answered row is lost.
func TestClaimsAreDeleted(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test-long runs it")
	}
	t.Parallel()
	undisturbedBaseline(t)
	w := newFixture(t)
	o := w.operator("--no-leader-election", "--lease", "15s", "--writer-lease", "6s")
	o.start()
	w.create()
	for _, role := range []string{"reader", "writer"} {
		c := w.awaitAtRest(nil)
		w.awaitFailoverSafe()
		id := c.Status.Writer
		if role == "reader" {
			id = other(c)
		}
		gone := c.Status.Instances[id].Name
		began := time.Now()
		w.remove(&corev1.PersistentVolumeClaim{ObjectMeta: named(w, gone)})
		w.remove(&corev1.Pod{ObjectMeta: named(w, gone)})
		w.awaitAtRest(func(c *v1alpha1.SharedStorageCluster) error {
			for id, i := range c.Status.Instances {
				if i.Name == gone {
					return fmt.Errorf("%s is still instance %s", gone, id)
				}
			}
			return nil
		})
		w.awaitTwoInstances()
		rows := w.writers.rows()
		t.Logf("the claim and the pod of the %s were deleted: at rest after %s, %d rows", role, time.Since(began).Round(100*time.Millisecond), rows)
	}
}

// awaitFailoverSafe waits until a failover would lose nothing: the manager knows that a
// running instance has each answered commit.
func (w *fixture) awaitFailoverSafe() {
	w.t.Helper()
	w.await(patience, "the manager may fail over without loss", func(ctx context.Context) error {
		kept := &corev1.ConfigMap{}
		if err := w.client.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: clusterName + "-manager"}, kept); err != nil {
			return err
		}
		var state struct {
			Sync struct {
				Names []string `json:"names"`
				Safe  bool     `json:"safe"`
			} `json:"sync"`
		}
		if err := json.Unmarshal([]byte(kept.Data["state.json"]), &state); err != nil {
			return err
		}
		pods, err := w.pods(ctx)
		if err != nil {
			return err
		}
		for _, name := range state.Sync.Names {
			if !slices.ContainsFunc(pods, func(p corev1.Pod) bool { return p.Name == name }) {
				return fmt.Errorf("%s is counted on still, and is gone", name)
			}
		}
		if !state.Sync.Safe || len(state.Sync.Names) == 0 {
			return fmt.Errorf("%+v", state)
		}
		return nil
	})
}

// A person, and a tool that edits continuously, change the object while the operator works
// on it; then the object is deleted in the middle of a switch.
func TestEditedInTheMiddle(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test-long runs it")
	}
	t.Parallel()
	undisturbedBaseline(t)
	w := newFixture(t)
	o := w.operator(alone(15 * time.Second)...)
	o.start()

	begun := o.onRequest(writes("create", "pods", ""))
	w.create()
	ctx, stop := context.WithCancel(t.Context())
	var tool sync.WaitGroup
	edits := 0
	tool.Go(func() {
		c := &v1alpha1.SharedStorageCluster{ObjectMeta: named(w, clusterName)}
		for ; ctx.Err() == nil; pause(ctx, 250*time.Millisecond) {
			patch := fmt.Sprintf(`{"metadata":{"annotations":{"example.com/touched":"%d"}}}`, edits)
			if err := w.client.Patch(ctx, c, client.RawPatch("application/merge-patch+json", []byte(patch))); err == nil {
				edits++
			}
		}
	})
	defer tool.Wait()
	defer stop()

	w.awaitReached("the first pod", begun)
	w.patch(tree{"spec": tree{"readers": 2}}) // while a reader is being created
	w.awaitAtRest(nil)

	promoting := o.onRequest(writes("update", "leases", clusterName+"-grant"))
	id := w.switchWriter()
	w.awaitReached("the grant of the switch", promoting)
	w.patch(tree{"spec": tree{"readers": 1, "parameters": tree{"work_mem": "8MB"}}}) // two changes in the middle of a switch
	c := w.awaitAtRest(func(c *v1alpha1.SharedStorageCluster) error {
		if c.Status.ParametersHash == "" || len(c.Status.Instances) != 2 {
			return fmt.Errorf("%d instances, parameters %q", len(c.Status.Instances), c.Status.ParametersHash)
		}
		return nil
	})
	switched := slices.ContainsFunc(c.Status.Requests, func(r v1alpha1.RequestStatus) bool { return r.Kind == "switch-writer" && r.State == "Done" })
	if !switched || c.Status.Writer != id {
		t.Errorf("the writer is %s, not %s: %+v", c.Status.Writer, id, c.Status.Requests)
	}
	w.awaitTwoInstances()
	for _, name := range []string{c.Status.Instances[id].Name, c.Status.Instances[other(c)].Name} {
		w.checkSetting(name, "work_mem", "8MB")
	}
	w.writers.rows()
	stop()
	tool.Wait()
	t.Logf("%d edits by a tool meanwhile", edits)
	if edits < 10 {
		t.Errorf("the tool edited %d times", edits)
	}

	promoting = o.onRequest(writes("update", "leases", clusterName+"-grant"))
	w.switchWriter()
	w.awaitReached("the grant of the next switch", promoting)
	w.remove(&v1alpha1.SharedStorageCluster{ObjectMeta: named(w, clusterName)})
	w.await(patience, "nothing is left", func(ctx context.Context) error {
		if _, err := w.cluster(ctx); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the cluster is there still: %w", err)
		}
		pods, err := w.pods(ctx)
		if err == nil && len(pods) > 0 {
			err = fmt.Errorf("%d pods are there still", len(pods))
		}
		return err
	})
}

// checkSetting checks a parameter of an instance.
func (w *fixture) checkSetting(pod, name, want string) {
	w.t.Helper()
	w.await(patience, pod+" runs with "+name+" "+want, func(ctx context.Context) error {
		p := &corev1.Pod{}
		if err := w.client.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: pod}, p); err != nil {
			return err
		}
		conn, err := w.writers.connect(ctx, p.Status.PodIP)
		if err != nil {
			return err
		}
		defer conn.Close(ctx)
		got := ""
		if err := conn.QueryRow(ctx, "SHOW "+name).Scan(&got); err != nil || got == want {
			return err
		}
		return fmt.Errorf("it is %s", got)
	})
}
