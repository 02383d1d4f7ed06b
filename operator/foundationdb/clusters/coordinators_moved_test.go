package clusters_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/repair"
	"github.com/pawl-dev/pawl/operator/foundationdb/sim"
)

// alone is one object on a database of its own, with names or IPs in its connection string.
func alone(t *testing.T, names bool) (*fleet, *unit) {
	t.Helper()
	f := newFleet(t, sim.Options{Nodes: 12})
	c := &v1beta2.FoundationDBCluster{}
	c.Namespace, c.Name = namespace, "main"
	c.Spec.Version = "7.3.69"
	c.Spec.Routing.UseDNSInClusterFile = &names
	u := f.add(c)
	f.settle(time.Hour)
	f.writes()
	return f, u
}

// coordinators are the pods with a coordinator.
func (u *unit) coordinators() []string {
	u.f.t.Helper()
	s := u.status()
	var pods []string
	for _, c := range s.Client.Coordinators.Coordinators {
		for _, p := range s.Cluster.Processes {
			here := func(a fdb.Address) bool { return a.Host == c.Address.Host && a.Port == c.Address.Port }
			if strings.EqualFold(p.DNSName(), c.Address.Host) || slices.ContainsFunc(p.Addresses(), here) {
				pods = append(pods, u.name+"-"+p.Locality[fdb.InstanceLocality])
			}
		}
	}
	return pods
}

// fixes lets the operator write the new addresses of coordinators itself.
func (u *unit) fixes() {
	u.options.WriteClusterFile = func(_ context.Context, pod *corev1.Pod, c fdb.Connection) error {
		return u.f.WriteClusterFile(pod.Namespace, pod.Name, c)
	}
	u.restart()
}

// TestFlaw16: with a majority of the coordinators' pods gone at once they come back, though the database is silent.
// With names the database comes back with them.
func TestFlaw16(t *testing.T) {
	t.Parallel()
	f, u := alone(t, true)
	for _, pod := range u.coordinators() {
		f.DeletePod(u.namespace, pod)
	}
	f.until("the database is back", 10*time.Minute, f.Cluster().Available)
	f.settle(time.Hour)
	f.settled()
	f.kept()
}

// TestCoordinatorsMoved: with IPs the pods come back with other addresses. The plan says so, with the command, and
// nothing is done; a majority that is left is enough.
func TestCoordinatorsMoved(t *testing.T) {
	t.Parallel()
	f, u := alone(t, false)
	f.DeletePod(u.namespace, u.coordinators()[0])
	f.settle(time.Hour)
	if n := len(u.coordinators()); n != 3 {
		f.fail("%d coordinators", n)
	}

	before := u.object().Status.ConnectionString
	for _, pod := range u.coordinators()[:2] {
		f.DeletePod(u.namespace, pod)
	}
	f.goOn(10 * time.Minute)
	told := false
	for _, e := range u.object().Status.Plan {
		told = told || e.Link == "ChangeCoordinators" && e.Reason == "CoordinatorsMoved" && strings.Contains(e.Message, "pawl fdb fix-coordinator-ips main --namespace test")
	}
	if !told || f.Cluster().Available() || u.object().Status.ConnectionString != before {
		f.fail("told %t, available %t", told, f.Cluster().Available())
	}

	u.fixes() // as a person does who allows it
	f.until("the database is back", 10*time.Minute, f.Cluster().Available)
	f.settle(time.Hour)
	old, now := connection(t, before), connection(t, u.object().Status.ConnectionString)
	if len(now.Coordinators) != len(old.Coordinators) {
		f.fail("%s became %s", old, now)
	}
	f.settled()
	f.kept()
}

func connection(t *testing.T, text string) fdb.Connection {
	t.Helper()
	c, err := fdb.ParseConnection(text)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestCoordinatorsMovedWithTrouble: the operator dies after it has written some pods, and one pod is not reached at
// first; all are written in the end.
func TestCoordinatorsMovedWithTrouble(t *testing.T) {
	t.Parallel()
	f, u := alone(t, false)
	u.fixes()
	u.dies = true
	write, calls := u.options.WriteClusterFile, 0
	u.options.WriteClusterFile = func(ctx context.Context, pod *corev1.Pod, c fdb.Connection) error {
		switch calls++; {
		case calls == 3:
			panic("the operator dies")
		case calls < 30 && strings.Contains(pod.Name, "storage"):
			return context.DeadlineExceeded
		}
		return write(ctx, pod, c)
	}
	u.restart()
	for _, pod := range u.coordinators() {
		f.DeletePod(u.namespace, pod)
	}
	f.until("the database is back", 30*time.Minute, func() bool { return f.Cluster().Available() && calls > 30 })
	f.settle(time.Hour)
	f.settled()
	f.kept()
}

// TestCoordinatorsMovedOfSeveral: where others hold parts of the database the operator only says so, even if it is
// allowed to do more.
func TestCoordinatorsMovedOfSeveral(t *testing.T) {
	t.Parallel()
	f := newFleet(t, sim.Options{Nodes: 12})
	c := &v1beta2.FoundationDBCluster{}
	c.Namespace, c.Name = namespace, "main"
	c.Spec.Version = "7.3.69"
	c.Spec.DataCenter = "dc1"
	c.Spec.Routing.UseDNSInClusterFile = new(false)
	c.Spec.DatabaseConfiguration.Regions = []v1beta2.Region{{Datacenters: []v1beta2.Datacenter{{ID: "dc1", Priority: 1}}}, {Datacenters: []v1beta2.Datacenter{{ID: "dc2", Priority: -1}}}}
	u := f.add(c)
	u.fixes()
	f.until("the database is there", time.Hour, func() bool { return f.Cluster().Available() && u.object().Status.Health.Available })
	f.goOn(10 * time.Minute)
	for _, pod := range u.coordinators() {
		f.DeletePod(u.namespace, pod)
	}
	f.goOn(10 * time.Minute)
	if f.Cluster().Available() || u.last.Reason() == "" {
		f.fail("it was repaired: %s", u.last)
	}
	if !slices.ContainsFunc(u.object().Status.Plan, func(e v1beta2.PlanEntry) bool { return e.Reason == "CoordinatorsMoved" }) {
		f.fail("the plan does not say so")
	}
}

// TestConnectionStringByHand: a person writes the new addresses into the pods and the status, as pawl fdb
// fix-coordinator-ips does. That is no other operator, and the config map follows.
func TestConnectionStringByHand(t *testing.T) {
	t.Parallel()
	f, u := alone(t, false)
	for _, pod := range u.coordinators() {
		f.DeletePod(u.namespace, pod)
	}
	f.goOn(10 * time.Minute)

	c := u.object()
	pods := map[v1beta2.ProcessGroupID]*corev1.Pod{}
	var list corev1.PodList
	if err := f.As("").Objects.List(t.Context(), &list, namespace, nil); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		pod := &list.Items[i]
		if id, ok := foundationdb.GroupIDOf(pod.Labels, foundationdb.Effective(c.Spec)); ok {
			pods[id] = pod
		}
	}
	moved, err := repair.MovedCoordinators(c, func(id v1beta2.ProcessGroupID) *corev1.Pod { return pods[id] })
	if err != nil || !moved.Majority() || len(moved.Elsewhere()) != 3 {
		t.Fatalf("%+v, %v", moved, err)
	}
	for _, pod := range pods {
		if err := f.WriteClusterFile(pod.Namespace, pod.Name, moved.To); err != nil {
			t.Fatal(err)
		}
	}
	c.Status.ConnectionString = moved.To.String()
	if err := f.As("").Objects.SaveStatus(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	f.until("the database is back", 10*time.Minute, f.Cluster().Available)
	f.settle(time.Hour)
	f.settled()
	f.kept()
	if now := connection(t, u.object().Status.ConnectionString); now.ID != moved.To.ID {
		f.fail("%s, and %s was written", now, moved.To)
	}
}
