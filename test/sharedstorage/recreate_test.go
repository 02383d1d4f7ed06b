package sharedstorage_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
)

// claims returns the claims of a cluster with their UIDs: another UID is another copy of the database.
func (w *fixture) claims(name string) []string {
	w.t.Helper()
	var list corev1.PersistentVolumeClaimList
	if err := w.client.List(w.t.Context(), &list, client.InNamespace(w.namespace), client.MatchingLabels{"pawl.dev/cluster": name}); err != nil {
		w.t.Fatal(err)
	}
	var all []string
	for i := range list.Items {
		all = append(all, list.Items[i].Name+" "+string(list.Items[i].UID))
	}
	slices.Sort(all)
	return all
}

// copies returns when the data directory of each instance was made: pg_basebackup and pg_rewind write
// this file anew.
func (w *fixture) copies(c *v1alpha1.SharedStorageCluster) string {
	w.t.Helper()
	all := ""
	for _, id := range slices.Sorted(maps.Keys(c.Status.Instances)) {
		made, err := queryRow[string](w.t.Context(), w, c.Name, c.Status.Instances[id], "SELECT modification::text FROM pg_stat_file('PG_VERSION')")
		if err != nil {
			w.t.Fatal(err)
		}
		all += id + " " + made + "\n"
	}
	return all
}

// A change of class, an edit of the class under its name and an edit of the placement recreate each pod
// on its own claim, while a client writes: no claim is made, nothing is copied, no answered row is lost
// and there is one writer. How long it takes does not depend on the size of the data.
func TestClassChangesKeepTheClaims(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test-long runs it")
	}
	t.Parallel()
	w := newFixture(t)
	w.kubectl("apply", "-f", "../../examples/sharedstorage/classes.yaml", "-f", "../../examples/sharedstorage/cluster.yaml")
	c := w.awaitRunning("orders", 2, nil)
	if got := w.kubectl("get", "ssc", "orders", "-o", "jsonpath={.status.storage.mode}"); got != "copies" {
		t.Errorf("the mode is %q", got)
	}
	f := w.write("orders")
	claims, copied := w.claims("orders"), w.copies(c)
	memory := func(want string) func(*v1alpha1.SharedStorageCluster) error {
		return func(c *v1alpha1.SharedStorageCluster) error {
			for id, i := range c.Status.Instances {
				var pod corev1.Pod
				if err := w.client.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: i.Name}, &pod); err != nil {
					return err
				}
				if got := pod.Spec.Containers[0].Resources.Requests.Memory().String(); got != want {
					return fmt.Errorf("instance %s has %s of memory, want %s", id, got, want)
				}
			}
			return nil
		}
	}
	took := map[string]time.Duration{}
	roll := func(what string, edit func(), holds func(*v1alpha1.SharedStorageCluster) error) {
		t.Helper()
		writer := c.Status.Writer
		f.MaxPause()
		began := time.Now()
		edit()
		c = w.awaitRunning("orders", 2, holds)
		took[what] = time.Since(began)
		t.Logf("%-34s %6s, longest write pause %s", what, took[what].Round(100*time.Millisecond), f.MaxPause().Round(time.Millisecond))
		if now := w.claims("orders"); !slices.Equal(now, claims) {
			t.Errorf("%s: the claims were %v and are %v", what, claims, now)
		}
		if now := w.copies(c); now != copied {
			t.Errorf("%s: the data are from\n%sand were from\n%s", what, now, copied)
		}
		if c.Status.Writer == writer {
			t.Errorf("%s: the writer is still %s", what, writer)
		}
		w.checkReplication(c)
	}
	ofClass := func(class string) func(*v1alpha1.SharedStorageCluster) error {
		return func(c *v1alpha1.SharedStorageCluster) error {
			if c.Status.Class != class {
				return fmt.Errorf("its class is %q", c.Status.Class)
			}
			return nil
		}
	}
	class := func(name string) func() {
		return func() {
			w.kubectl("patch", "ssc", "orders", "--type=merge", "-p", `{"spec":{"class":{"name":"`+name+`"}}}`)
		}
	}
	roll("a class", class("wide"), ofClass("wide"))
	roll("the memory of the class", func() {
		w.kubectl("patch", "configmap", "pawl-classes", "--type=merge", "-p", `{"data":{"wide":"{cpu: 100m, memory: 320Mi, parameters: {shared_buffers: 32MB, max_connections: \"150\"}}"}}`)
	}, memory("320Mi"))
	roll("the placement", func() {
		w.kubectl("patch", "ssc", "orders", "--type=merge", "-p", `{"spec":{"scheduling":{"whenUnsatisfiable":"ScheduleAnyway"}}}`)
	}, func(c *v1alpha1.SharedStorageCluster) error {
		for id, i := range c.Status.Instances {
			if out, err := w.try("get", "pod", i.Name, "-o", `jsonpath={.metadata.annotations.pawl\.dev/instance}`); err != nil || !strings.Contains(out, `"spreadAnyway":true`) {
				return fmt.Errorf("instance %s is not recreated: %s %v", id, out, err)
			}
		}
		return nil
	})
	roll("a version", func() {
		w.kubectl("patch", "ssc", "orders", "--type=merge", "-p", `{"spec":{"engine":{"version":"15.99"},"images":{"15.99":"postgres:15"}}}`)
	}, func(c *v1alpha1.SharedStorageCluster) error {
		if c.Status.Version != "15.99" {
			return fmt.Errorf("its version is %q", c.Status.Version)
		}
		return nil
	})

	w.exec(c, "CREATE TABLE ballast AS SELECT i, repeat(md5(i::text), 30) FROM generate_series(1, 60000) AS i")
	size, err := queryRow[string](t.Context(), w, "orders", c.Status.Instances[c.Status.Writer], "SELECT pg_size_pretty(sum(pg_database_size(oid))) FROM pg_database")
	if err != nil {
		t.Fatal(err)
	}
	w.checkReplication(c)
	roll("a class, with "+size, class("small"), ofClass("small"))
	rows, _ := f.end(c)
	t.Logf("%d rows were committed and are on all instances", rows)
	if events := w.kubectl("get", "events"); strings.Contains(events, "PodRestored") {
		t.Errorf("a pod that the operator has deleted is told as lost:\n%s", events)
	}
}

// An image that cannot be pulled costs no reader for long: the first pod gets back what it had, and the
// run says so. When the edit is taken back, everything is as before, on the same claims and pods.
func TestAnImageThatCannotBePulled(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test-long runs it")
	}
	t.Parallel()
	w := newFixture(t)
	w.kubectl("apply", "-f", "../../examples/sharedstorage/classes.yaml", "-f", "../../examples/sharedstorage/cluster.yaml")
	c := w.awaitRunning("orders", 2, nil)
	f := w.write("orders")
	claims, copied := w.claims("orders"), w.copies(c)
	w.kubectl("patch", "ssc", "orders", "--type=merge", "-p", `{"spec":{"images":{"15":"postgres:nowhere"}}}`)
	w.turns(4*time.Minute, "orders", "Interrupted", "True RecreateFailed")
	w.awaitHealthy("orders", 2)
	t.Log(w.kubectl("get", "ssc", "orders", "-o", `jsonpath={.status.message}`))
	w.kubectl("patch", "ssc", "orders", "--type=merge", "-p", `{"spec":{"images":null}}`)
	c = w.awaitRunning("orders", 2, nil)
	w.checkReplication(c)
	if now := w.claims("orders"); !slices.Equal(now, claims) || w.copies(c) != copied {
		t.Errorf("the claims were %v and are %v", claims, now)
	}
	rows, pause := f.end(c)
	t.Logf("%d rows were committed and are on all instances; longest write pause %s", rows, pause.Round(time.Millisecond))
}

// awaitHealthy waits until all instances of a cluster are healthy, whatever its state is.
func (w *fixture) awaitHealthy(name string, readers int32) *v1alpha1.SharedStorageCluster {
	w.t.Helper()
	var c *v1alpha1.SharedStorageCluster
	w.await(4*time.Minute, "all instances are healthy", func(ctx context.Context) (err error) {
		if c, err = w.cluster(ctx, name); err != nil {
			return err
		}
		for id, i := range c.Status.Instances {
			if i.Health != "Healthy" {
				return fmt.Errorf("instance %s is %s: %s", id, i.Health, i.Message)
			}
		}
		if c.Status.Readers != readers {
			return fmt.Errorf("%d readers", c.Status.Readers)
		}
		return nil
	})
	return c
}

// exec runs a statement on the writer.
func (w *fixture) exec(c *v1alpha1.SharedStorageCluster, sql string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 2*time.Minute)
	defer cancel()
	password, err := w.password(ctx, c.Name)
	if err != nil {
		w.t.Fatal(err)
	}
	conn, err := pgx.Connect(ctx, connString(password, c.Status.Instances[c.Status.Writer]))
	if err != nil {
		w.t.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, sql); err != nil {
		w.t.Fatal(err)
	}
}
