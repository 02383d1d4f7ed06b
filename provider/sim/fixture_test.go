package sim_test

import (
	"errors"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/provider/sim"
)

var owner = cluster.Owner{AccountID: "a1", DomainID: "d1"}

// clock is a clock that a test sets.
type clock struct{ at time.Time }

func newClock() *clock { return &clock{time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)} }

func (c *clock) now() time.Time { return c.at }

func vm(name string) cluster.DesiredResource {
	return want(cluster.VM, name, cluster.Spec{Zone: "zone-1", Offering: "small", Template: "node-image"})
}

func want(k cluster.Kind, name string, spec cluster.Spec) cluster.DesiredResource {
	return cluster.DesiredResource{
		Kind: k, Name: name, Key: "key/" + name, CallID: "call-" + name, Owner: owner, Spec: spec,
		Tags: map[string]string{cluster.TagInstallation: "pawl", cluster.TagCluster: "c1", cluster.TagKey: "key/" + name},
	}
}

func mustMake(t *testing.T, p cluster.Provider, w cluster.DesiredResource) cluster.Resource {
	t.Helper()
	call, err := p.Create(t.Context(), w)
	if err != nil || !call.Done {
		t.Fatalf("create %s: %+v, %v", w.Name, call, err)
	}
	return mustGet(t, p, call.Ref)
}

func mustGet(t *testing.T, p cluster.Provider, ref cluster.Ref) cluster.Resource {
	t.Helper()
	got, err := p.Get(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// newClusterNetwork creates a network with an address, two VMs and the rules of a cluster.
func newClusterNetwork(t *testing.T, cloud *sim.Cloud) map[string]cluster.Resource {
	t.Helper()
	resources := map[string]cluster.Resource{}
	put := func(k cluster.Kind, name string, spec cluster.Spec) {
		spec.Zone = "zone-1"
		resources[name] = mustMake(t, cloud, want(k, name, spec))
	}
	put(cluster.Network, "net", cluster.Spec{Offering: "isolated"})
	net := resources["net"].ID
	put(cluster.Address, "ip", cluster.Spec{Network: net})
	for _, name := range []string{"one", "two"} {
		put(cluster.VM, name, cluster.Spec{Network: net, Offering: "small", Template: "node-image"})
	}
	ip := resources["ip"].ID
	put(cluster.Firewall, "fw", cluster.Spec{Address: ip, Protocol: "tcp", Port: 6443, CIDRs: []string{"0.0.0.0/0"}})
	put(cluster.Forward, "pf", cluster.Spec{Address: ip, Protocol: "tcp", Port: 6443, VM: resources["one"].ID})
	put(cluster.Balancer, "lb", cluster.Spec{Address: ip, Protocol: "tcp", Port: 443, VMs: []string{resources["one"].ID, resources["two"].ID}})
	return resources
}

func isGone(t *testing.T, p cluster.Provider, r cluster.Resource) {
	t.Helper()
	if got, err := p.Get(t.Context(), r.Ref()); !errors.Is(err, cluster.ErrGone) {
		t.Errorf("%s is there: %s, %v", r.Name, got.State, err)
	}
}

func ids(resources []cluster.Resource) []string {
	all := make([]string, len(resources))
	for i, r := range resources {
		all[i] = r.ID
	}
	return all
}
