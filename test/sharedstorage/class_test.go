package sharedstorage_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
)

// A class change to larger and to smaller limits is one run, after which no parameter waits for a
// restart; an edit of work_mem restarts no engine; kubectl scale sets the readers; an unknown class is
// told in REASON.
func TestAClassChangeIsOneRun(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.kubectl("apply", "-f", "../../examples/sharedstorage/classes.yaml", "-f", "../../examples/sharedstorage/cluster.yaml")
	w.awaitRunning("orders", 2, nil)
	w.kubectl("scale", "ssc", "orders", "--replicas=1")
	w.awaitRunning("orders", 1, nil)
	f := w.write("orders")
	flows := func() string {
		return w.kubectl("get", "runs", "--sort-by=.metadata.creationTimestamp", "-o", "jsonpath={.items[*].spec.flow}")
	}
	hasClass := func(class string) func(*v1alpha1.SharedStorageCluster) error {
		return func(c *v1alpha1.SharedStorageCluster) error {
			if c.Status.Class != class {
				return fmt.Errorf("its class is %s", c.Status.Class)
			}
			return nil
		}
	}
	settled := func(when string, c *v1alpha1.SharedStorageCluster, connections string) {
		t.Helper()
		for id, i := range c.Status.Instances {
			w.await(time.Minute, when+": nothing waits for a restart on "+id, func(ctx context.Context) error {
				pending, err := queryRow[string](ctx, w, "orders", i, "SELECT coalesce(string_agg(name, ' '), '') || current_setting('max_connections') FROM pg_settings WHERE pending_restart")
				if err == nil && !strings.HasSuffix(pending, connections) || strings.TrimRight(pending, "0123456789") != "" {
					err = fmt.Errorf("%q", pending)
				}
				return err
			})
		}
	}
	for _, c := range []struct{ class, connections string }{{"wide", "150"}, {"small", ""}} {
		before := flows()
		f.MaxPause()
		w.kubectl("patch", "ssc", "orders", "--type=merge", "-p", `{"spec":{"class":{"name":"`+c.class+`"}}}`)
		cluster := w.awaitRunning("orders", 1, hasClass(c.class))
		settled("class "+c.class, cluster, c.connections)
		t.Logf("class %s: longest write pause %s; runs before %q, after %q", c.class, f.MaxPause().Round(time.Millisecond), before, flows())
	}
	c := w.awaitRunning("orders", 1, nil)
	started := func() string {
		t.Helper()
		all := ""
		for _, id := range []string{c.Status.Writer} {
			at, err := queryRow[string](t.Context(), w, "orders", c.Status.Instances[id], "SELECT pg_postmaster_start_time()::text")
			if err != nil {
				t.Fatal(err)
			}
			all += at
		}
		return all
	}
	before := started()
	w.kubectl("patch", "ssc", "orders", "--type=merge", "-p", `{"spec":{"parameters":{"work_mem":"8MB"}}}`)
	w.await(2*time.Minute, "work_mem is set", func(ctx context.Context) error {
		got, err := queryRow[string](ctx, w, "orders", c.Status.Instances[c.Status.Writer], "SHOW work_mem")
		if err == nil && got != "8MB" {
			err = fmt.Errorf("%s", got)
		}
		return err
	})
	c = w.awaitRunning("orders", 1, nil)
	if now := started(); now != before {
		t.Errorf("the writer was restarted at %s", now)
	}
	if n := strings.Count(flows(), "FlushParameters"); n != 1 {
		t.Errorf("parameters were flushed %d times: %s", n, flows())
	}
	w.kubectl("patch", "ssc", "orders", "--type=merge", "-p", `{"spec":{"class":{"name":"huge"}}}`)
	w.await(time.Minute, "REASON names the unknown class", func(context.Context) error {
		if out := w.kubectl("get", "ssc", "orders"); !strings.Contains(out, "ClassUnknown") {
			return fmt.Errorf("%s", out)
		}
		return nil
	})
	w.kubectl("patch", "ssc", "orders", "--type=merge", "-p", `{"spec":{"class":{"name":"small"}}}`)
	c = w.awaitRunning("orders", 1, nil)
	f.end(c)
}
