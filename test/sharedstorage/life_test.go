package sharedstorage_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
)

// `kubectl apply` of the sample creates one writer and two readers that stream and answer
// SQL; a change of the spec and a request are carried out while a client writes, and no
// answered row is lost; a delete leaves nothing.
func TestLife(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	began := time.Now()
	w.kubectl("apply", "-f", "../../examples/sharedstorage/classes.yaml", "-f", "../../examples/sharedstorage/cluster.yaml")
	w.kubectl("wait", "--for=condition=Ready", "ssc/orders", "--timeout=8m")
	t.Logf("Ready %s after kubectl apply", time.Since(began).Round(100*time.Millisecond))
	c := w.awaitRunning("orders", 2, nil)
	t.Logf("Running with two readers %s after kubectl apply\n%s", time.Since(began).Round(100*time.Millisecond), w.kubectl("get", "ssc,pods", "-o", "wide"))
	w.checkReplication(c)

	w.await(time.Minute, "a drain may take one instance", func(context.Context) error {
		out, err := w.try("get", "pdb", "orders", "-o", "jsonpath={.status.expectedPods} {.status.disruptionsAllowed}")
		if err == nil && out != "3 1" {
			err = fmt.Errorf("of %s", out)
		}
		return err
	})

	f := w.write("orders")

	step(t, "scale out", func() {
		w.kubectl("patch", "ssc", "orders", "--type=merge", "-p", `{"spec":{"readers":3}}`)
		c = w.awaitRunning("orders", 3, nil)
		w.checkReplication(c)
	})
	t.Logf("longest write pause: %s", f.MaxPause().Round(time.Millisecond))

	old := c.Status.Writer
	target := reader(c)
	step(t, "switch the writer", func() {
		w.kubectl("annotate", "ssc", "orders", "pawl.dev/switch-writer="+target)
		c = w.awaitRunning("orders", 3, func(c *v1alpha1.SharedStorageCluster) error {
			if c.Status.Writer != target {
				return fmt.Errorf("the writer is %s, not %s", c.Status.Writer, target)
			}
			return nil
		})
		w.checkReplication(c)
	})
	t.Logf("the writer was %s and is %s; longest write pause: %s", old, c.Status.Writer, f.MaxPause().Round(time.Millisecond))

	step(t, "restart", func() {
		w.kubectl("annotate", "ssc", "orders", "pawl.dev/restart=cluster")
		c = w.awaitRunning("orders", 3, carriedOut("restart"))
		w.checkReplication(c)
	})
	t.Logf("longest write pause: %s", f.MaxPause().Round(time.Millisecond))

	step(t, "change the class", func() {
		w.kubectl("patch", "ssc", "orders", "--type=merge", "-p", `{"spec":{"class":{"name":"wide"}}}`)
		c = w.awaitRunning("orders", 3, func(c *v1alpha1.SharedStorageCluster) error {
			for id, i := range c.Status.Instances {
				if i.Class != "wide" {
					return fmt.Errorf("instance %s is of class %s", id, i.Class)
				}
			}
			return nil
		})
		w.checkReplication(c)
		got, err := queryRow[string](t.Context(), w, "orders", c.Status.Instances[c.Status.Writer], "SHOW max_connections")
		if err != nil || got != "150" {
			t.Errorf("max_connections of the writer: %q, %v", got, err)
		}
	})
	t.Logf("longest write pause: %s", f.MaxPause().Round(time.Millisecond))

	rows, _ := f.end(c)
	t.Logf("%d rows were committed and are on all instances", rows)
	t.Log(w.kubectl("describe", "ssc", "orders"))

	step(t, "delete", func() {
		w.kubectl("delete", "ssc", "orders", "--timeout=5m")
		w.await(4*time.Minute, "nothing is left", func(context.Context) error {
			left, err := w.try("get", "pods,pvc,svc,deploy,pdb,roles,rolebindings,serviceaccounts,secrets,leases,configmaps", "-l", "pawl.dev/cluster=orders", "-o", "name")
			if err != nil || strings.Contains(left, "/") {
				return fmt.Errorf("%v %s", err, left)
			}
			return nil
		})
		w.await(4*time.Minute, "no run and no slot is left", func(context.Context) error {
			left, err := w.try("get", "runs,runhistories,leases", "-o", "name")
			for name := range strings.Lines(left) {
				if strings.Contains(name, "/") && !strings.HasPrefix(name, "lease.") || strings.Contains(name, "/pawl-slot-") { // the operator's own stay
					err = errors.Join(err, errors.New(strings.TrimSpace(name)))
				}
			}
			return err
		})
	})
}

func step(t *testing.T, what string, do func()) {
	t.Helper()
	began := time.Now()
	do()
	t.Logf("%s: %s", what, time.Since(began).Round(100*time.Millisecond))
}

// carriedOut returns a check that a request of a kind was carried out.
func carriedOut(kind string) func(*v1alpha1.SharedStorageCluster) error {
	return func(c *v1alpha1.SharedStorageCluster) error {
		for _, r := range c.Status.Requests {
			if r.Kind == kind && r.State == "Done" {
				return nil
			}
		}
		return fmt.Errorf("the requests are %+v", c.Status.Requests)
	}
}

// reader returns the id of an instance that is not the writer.
func reader(c *v1alpha1.SharedStorageCluster) string {
	var ids []string
	for id := range c.Status.Instances {
		if id != c.Status.Writer {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids[0]
}

// checkReplication checks the engines: one writer, all others in recovery and streaming
// from it, and correct Services.
func (w *fixture) checkReplication(c *v1alpha1.SharedStorageCluster) {
	w.t.Helper()
	w.await(4*time.Minute, "the engines are what status says", func(ctx context.Context) error {
		for id, i := range c.Status.Instances {
			recovers, err := queryRow[bool](ctx, w, c.Name, i, "SELECT pg_is_in_recovery()")
			if err != nil {
				return fmt.Errorf("instance %s: %w", id, err)
			}
			if recovers != (id != c.Status.Writer) {
				return fmt.Errorf("instance %s: in recovery is %t, the writer is %s", id, recovers, c.Status.Writer)
			}
		}
		n, err := queryRow[int](ctx, w, c.Name, c.Status.Instances[c.Status.Writer], "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'")
		if err != nil || n != int(c.Status.Readers) {
			return fmt.Errorf("%d readers stream, %d are there: %v", n, c.Status.Readers, err)
		}
		for role, want := range map[string]int{"rw": 1, "ro": int(c.Status.Readers)} {
			pods, err := w.routedPods(ctx, c.Name, role)
			if err != nil || len(pods) != want {
				return fmt.Errorf("Service %s-%s finds %d pods, want %d: %v", c.Name, role, len(pods), want, err)
			}
		}
		return nil
	})
}
