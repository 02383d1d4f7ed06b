package sharedstorage_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
)

// outage is longer than the lease of a writer, 10 s.
const outage = 30 * time.Second

// grantOf returns the grant annotation of a cluster.
func (w *fixture) grantOf(ctx context.Context, name string) (string, error) {
	record := &coordinationv1.Lease{}
	err := w.client.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: name + "-grant"}, record)
	return record.Annotations["pawl.dev/grant"], err
}

// awaitFailsafe waits until the writer has recorded whom it would ask.
func (w *fixture) awaitFailsafe(name string, members int) {
	w.t.Helper()
	w.await(time.Minute, "the writer has recorded whom it would ask", func(ctx context.Context) error {
		text, err := w.grantOf(ctx, name)
		if err == nil && strings.Count(text, "@") != members {
			err = fmt.Errorf("the grant is %s", text)
		}
		return err
	})
}

// The API server is away for 30 s, and the writer does not stop: all members confirm that none of
// them takes its place. No other test runs meanwhile.
func TestAPIServerIsAway(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test-long runs it")
	}
	w := newFixture(t)
	w.kubectl("apply", "-f", "../../examples/sharedstorage/classes.yaml", "-f", "../../examples/sharedstorage/cluster.yaml")
	c := w.awaitRunning("orders", 2, nil)
	f := w.write("orders")
	w.awaitFailsafe("orders", 3)
	before, err := w.grantOf(t.Context(), "orders")
	if err != nil {
		t.Fatal(err)
	}
	f.MaxPause()
	if err := w.plane.RestartAPIServer(outage); err != nil {
		t.Fatal(err)
	}
	pause := f.MaxPause()
	if pause > 3*time.Second {
		t.Errorf("the writer paused for %s", pause)
	}
	c = w.awaitRunning("orders", 2, func(now *v1alpha1.SharedStorageCluster) error {
		if now.Status.Writer != c.Status.Writer {
			return fmt.Errorf("%s is the writer, it was %s", now.Status.Writer, c.Status.Writer)
		}
		return nil
	})
	if after, err := w.grantOf(t.Context(), "orders"); err != nil || after != before {
		t.Errorf("the grant was %s and is %s: %v", before, after, err)
	}
	rows, later := f.end(c)
	t.Logf("the API server was away for %s: longest write pause %s, and %s while it came back; %d rows are on all instances", outage, pause.Round(time.Millisecond), later.Round(time.Millisecond), rows)
}
