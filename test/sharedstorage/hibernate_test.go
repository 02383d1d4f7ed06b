package sharedstorage_test

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
)

// A hibernated cluster has no pod and keeps its claims, its Services without endpoints, and nobody
// brings a pod back. The operator is killed on the way. It wakes with the same writer, all rows and the
// class that was asked for meanwhile.
func TestHibernation(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.kubectl("apply", "-f", "../../examples/sharedstorage/classes.yaml", "-f", "../../examples/sharedstorage/cluster.yaml")
	c := w.awaitRunning("orders", 2, nil)
	claims, copied, writer := w.claims("orders"), w.copies(c), c.Status.Writer
	w.exec(c, "CREATE TABLE cards AS SELECT i FROM generate_series(1, 1000) AS i")

	began := time.Now()
	w.says(0, "the writer last", "pg", "hibernate", "orders", "--dry-run")
	w.kubectl("patch", "ssc", "orders", "--type=merge", "-p", `{"spec":{"hibernated":true}}`)
	w.await(time.Minute, "it has begun", func(ctx context.Context) error {
		c, err := w.cluster(ctx, "orders")
		if err == nil && c.Status.State == "Running" {
			err = fmt.Errorf("it is %s", c.Status.State)
		}
		return err
	})
	w.end(syscall.SIGKILL)
	w.start()
	w.await(4*time.Minute, "it is hibernated", func(ctx context.Context) error {
		c, err := w.cluster(ctx, "orders")
		if err == nil && c.Status.State != "Hibernated" {
			err = fmt.Errorf("it is %s: %s", c.Status.State, c.Status.Message)
		}
		return err
	})
	t.Logf("hibernated in %s\n%s", time.Since(began).Round(100*time.Millisecond), w.kubectl("get", "ssc,pvc,svc,pdb", "-o", "wide"))
	for kind, reason := range map[string]string{"Ready": "Hibernated", "HighAvailability": "Hibernated", "Available": "Hibernated", "StorageReady": "VolumeReady", "Interrupted": "NotInterrupted"} {
		if got := w.kubectl("get", "ssc", "orders", "-o", `jsonpath={.status.conditions[?(@.type=="`+kind+`")].reason}`); got != reason {
			t.Errorf("%s: %s, want %s", kind, got, reason)
		}
	}
	w.kubectl("label", "ssc", "orders", "wake-up=no") // the operator looks at it again
	w.says(0, "Hibernated", "pg", "status", "orders")
	var pods corev1.PodList
	if err := w.client.List(t.Context(), &pods, client.InNamespace(w.namespace), client.MatchingLabels{"pawl.dev/cluster": "orders"}); err != nil || len(pods.Items) > 0 {
		t.Errorf("%d pods are left: %v %+v", len(pods.Items), err, pods.Items)
	}
	if now := w.claims("orders"); !slices.Equal(now, claims) {
		t.Errorf("the claims were %v and are %v", claims, now)
	}
	for _, role := range []string{"rw", "ro"} {
		if pods, err := w.routedPods(t.Context(), "orders", role); err != nil || len(pods) > 0 {
			t.Errorf("Service orders-%s finds %d pods: %v", role, len(pods), err)
		}
	}

	w.kubectl("patch", "ssc", "orders", "--type=merge", "-p", `{"spec":{"class":{"name":"wide"}}}`)
	began = time.Now()
	w.says(0, "is Running", "pg", "wake", "orders", "-y", "--wait=4m")
	c = w.awaitRunning("orders", 2, func(c *v1alpha1.SharedStorageCluster) error {
		if c.Status.Class != "wide" || c.Status.Writer != writer {
			return fmt.Errorf("its class is %q, and instance %s writes", c.Status.Class, c.Status.Writer)
		}
		return nil
	})
	t.Logf("awake in %s", time.Since(began).Round(100*time.Millisecond))
	w.checkReplication(c)
	if now := w.claims("orders"); !slices.Equal(now, claims) || w.copies(c) != copied {
		t.Errorf("the claims were %v and are %v", claims, now)
	}
	for id, i := range c.Status.Instances {
		if n, err := queryRow[int](t.Context(), w, "orders", i, "SELECT count(*) FROM cards"); err != nil || n != 1000 {
			t.Errorf("instance %s has %d rows: %v", id, n, err)
		}
	}
	w.kubectl("delete", "ssc", "orders", "--timeout=3m")
}
