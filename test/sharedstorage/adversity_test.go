package sharedstorage_test

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
)

// The operator is killed repeatedly while it creates a cluster, and another one continues;
// then the writer's pod is deleted: a reader takes over or the writer returns with its
// data, and no answered row is lost.
func TestKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test-long runs it")
	}
	t.Parallel()
	w := newFixture(t)
	w.kubectl("apply", "-f", "../../examples/sharedstorage/classes.yaml", "-f", "../../examples/sharedstorage/cluster.yaml")
	for kill := range 3 {
		time.Sleep(time.Duration(1+2*kill) * time.Second)
		w.end(syscall.SIGKILL)
		w.start()
	}
	c := w.awaitRunning("orders", 2, nil)
	w.checkReplication(c)
	var pods corev1.PodList
	if err := w.client.List(t.Context(), &pods, client.InNamespace(w.namespace), client.MatchingLabels{"pawl.dev/component": "instance"}); err != nil || len(pods.Items) != 3 {
		t.Errorf("%d pods of instances: %v", len(pods.Items), err)
	}

	f := w.write("orders")
	w.await(4*time.Minute, "the manager may fail over without loss", func(ctx context.Context) error {
		kept := &corev1.ConfigMap{}
		err := w.client.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: "orders-manager"}, kept)
		if err == nil && !strings.Contains(kept.Data["state.json"], `"safe":true`) {
			err = fmt.Errorf("%s", kept.Data["state.json"])
		}
		return err
	})
	old := c.Status.Instances[c.Status.Writer]
	f.MaxPause()
	err := w.client.Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: old.Name}}, client.GracePeriodSeconds(0))
	if err != nil {
		t.Fatal(err)
	}
	c = w.awaitRunning("orders", 2, func(c *v1alpha1.SharedStorageCluster) error {
		if now := c.Status.Instances[c.Status.Writer]; now.Name == old.Name && now.Address == old.Address {
			return fmt.Errorf("%s is the writer still", old.Name)
		}
		return nil
	})
	w.checkReplication(c)
	w.await(4*time.Minute, "the client writes again", func(context.Context) error {
		if silent := f.Silence(); silent > time.Second {
			return fmt.Errorf("the last row was answered %s ago", silent)
		}
		return nil
	})
	rows, pause := f.end(c)
	t.Logf("the writer's pod was deleted: %d rows were committed and are on all instances; longest write pause: %s", rows, pause.Round(time.Millisecond))
}
