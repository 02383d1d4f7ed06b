package kube

import (
	"testing"

	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// A drain may evict one of the present instances, however many there are. A deleted cluster leaves
// no budget.
func TestBudgetFollowsTheInstances(t *testing.T) {
	g := newFixture(t)
	demands := func() int {
		t.Helper()
		g.must(g.Revive(t.Context(), blue, nil))
		b := &policyv1.PodDisruptionBudget{}
		g.must(g.o.Client.Get(t.Context(), client.ObjectKey{Namespace: blue.Namespace, Name: blue.Name}, b))
		if b.Spec.MaxUnavailable != nil || b.Spec.Selector.MatchLabels[ClusterLabel] != blue.Name {
			t.Errorf("the budget is %+v", b.Spec)
		}
		return b.Spec.MinAvailable.IntValue()
	}
	g.ensure(port.Volume{Size: gi})
	g.must(g.Revive(t.Context(), blue, nil)) // no instance yet, and no budget
	for n, name := range []string{"a", "b", "c"} {
		kind := port.Reader
		if n == 0 {
			kind = port.Writer
		}
		g.instance(name, kind)
		if got := demands(); got != n {
			t.Errorf("with %d instances %d are demanded", n+1, got)
		}
	}
	g.must(g.Instances().Remove(t.Context(), blue, "c"))
	if got := demands(); got != 1 {
		t.Errorf("with two instances again %d are demanded", got)
	}
	g.must(g.removeClusterObjects(t.Context(), blue))
	var left policyv1.PodDisruptionBudgetList
	if err := g.o.Client.List(t.Context(), &left); err != nil || len(left.Items) > 0 {
		t.Errorf("%d budgets are left: %v", len(left.Items), err)
	}
}
