package kube

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/lease"
)

var blue = port.Ref{Namespace: "default", Name: "blue", UID: "1"}

// records returns an API server with the grant record of a cluster.
func records(t *testing.T) client.Client {
	t.Helper()
	scheme, err := Scheme()
	if err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: blue.Namespace, Name: grantName(blue)}}).Build()
}

// Only a newer epoch takes the grant, and the next writer waits until the lease of the earlier one
// has ended, counted from when it was first seen.
func TestGrantInALease(t *testing.T) {
	c := records(t)
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		operator, old, next := &Grants{Client: c, Cluster: blue}, &Grants{Client: c, Cluster: blue}, &Grants{Client: c, Cluster: blue}
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		refused := func(err error) {
			t.Helper()
			if !errors.Is(err, port.SwitchRefused) {
				t.Fatalf("got %v, want SWITCH_REFUSED", err)
			}
		}
		must(operator.Grant(ctx, "a", 1))
		_, err := old.Renew(ctx, lease.Renewal{Writer: "a", Epoch: 1, TTL: 10 * time.Second})
		must(err)
		refused(operator.Grant(ctx, "b", 1))
		must(operator.Grant(ctx, "b", 2))
		_, err = old.Renew(ctx, lease.Renewal{Writer: "a", Epoch: 1, TTL: 10 * time.Second})
		refused(err)
		_, err = next.Renew(ctx, lease.Renewal{Writer: "b", Epoch: 2, TTL: 10 * time.Second})
		refused(err) // b counts a's lease from now
		time.Sleep(9 * time.Second)
		_, err = next.Renew(ctx, lease.Renewal{Writer: "b", Epoch: 2, TTL: 10 * time.Second})
		refused(err)
		time.Sleep(2 * time.Second)
		_, err = next.Renew(ctx, lease.Renewal{Writer: "b", Epoch: 2, TTL: 10 * time.Second})
		must(err)
		_, err = old.Renew(ctx, lease.Renewal{Writer: "a", Epoch: 1, TTL: 0}) // a cannot release b's lease
		must(err)
		g, err := operator.Read(ctx)
		must(err)
		if g.Writer != "b" || g.Epoch != 2 || g.Lease.Holder != "b" || g.Lease.Epoch != 2 {
			t.Errorf("the record is %+v", g)
		}
		_, err = next.Renew(ctx, lease.Renewal{Writer: "b", Epoch: 2, TTL: 0})
		must(err)
		if g, err = operator.Read(ctx); err != nil || g.Lease != (lease.Lease{}) {
			t.Errorf("after it was given back: %+v, %v", g, err)
		}
	})
}

// Of many concurrent grants of one epoch exactly one succeeds.
func TestGrantIsGuarded(t *testing.T) {
	c := records(t)
	var all sync.WaitGroup
	won := make(chan string, 6)
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		all.Go(func() {
			if (&Grants{Client: c, Cluster: blue}).Grant(context.Background(), name, 1) == nil {
				won <- name
			}
		})
	}
	all.Wait()
	close(won)
	var names []string
	for name := range won {
		names = append(names, name)
	}
	g, err := (&Grants{Client: c, Cluster: blue}).Read(t.Context())
	if err != nil || len(names) != 1 || g.Writer != names[0] {
		t.Errorf("%v were told that they have it, the record says %q: %v", names, g.Writer, err)
	}
}
