package sim_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/bootstrap"
	"github.com/pawl-dev/pawl/provider/sim"
)

// populate creates clusters of VMs as the service does, each in its own network.
func populate(tb testing.TB, cloud *sim.Cloud, clusters, vms int) {
	tb.Helper()
	for i := range clusters {
		uuid := fmt.Sprintf("00000000-0000-4000-8000-%012d", i)
		make1 := func(k cluster.Kind, name string, spec cluster.Spec) string {
			key := "run/" + name
			call, err := cloud.Create(tb.Context(), cluster.DesiredResource{
				Kind: k, Name: name, Key: key, Owner: owner, Spec: spec,
				Tags: map[string]string{cluster.TagInstallation: "pawl", cluster.TagCluster: uuid, cluster.TagKey: key},
			})
			if err != nil {
				tb.Fatal(err)
			}
			return call.Ref.ID
		}
		net := make1(cluster.Network, fmt.Sprintf("c-%d-net", i), cluster.Spec{Zone: "zone-1", Offering: "isolated"})
		for j := range vms {
			name := fmt.Sprintf("cluster-%06d-worker%d", i, j)
			data, err := bootstrap.Data{Home: "http://home", Cluster: uuid, Node: name, Role: cluster.Worker, Token: "t"}.Encode()
			if err != nil {
				tb.Fatal(err)
			}
			make1(cluster.VM, name, cluster.Spec{Zone: "zone-1", Offering: "small", Template: "node-image", Network: net, UserData: data})
		}
	}
}

// BenchmarkPass lists 10,000 clusters of 10 VMs in pages of 500.
func BenchmarkPass(b *testing.B) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	cloud := open(b, sim.Options{Log: -1, ForgetUserData: true})
	populate(b, cloud, 10_000, 10)
	runtime.GC()
	runtime.ReadMemStats(&after)
	for b.Loop() {
		pages, n := 0, 0
		for at := cluster.Cursor(""); ; {
			page, err := cloud.List(b.Context(), cluster.Filter{Zone: "zone-1"}, at)
			if err != nil {
				b.Fatal(err)
			}
			pages, n = pages+1, n+len(page.Items)
			if at = page.Next; at == "" {
				break
			}
		}
		if pages != 200 || n != 100_000 {
			b.Fatalf("%d VMs on %d pages", n, pages)
		}
	}
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/(1<<20), "MiB-held")
	runtime.KeepAlive(cloud)
}

// BenchmarkCreate creates and destroys VMs, a thousand at a time in one cloud.
func BenchmarkCreate(b *testing.B) {
	cloud := open(b, sim.Options{})
	for n := 0; b.Loop(); n++ {
		call, err := cloud.Create(b.Context(), vm(fmt.Sprintf("vm-%d", n)))
		if err != nil {
			b.Fatal(err)
		}
		if n >= 1000 {
			w, _ := cloud.Lookup(cluster.VM, fmt.Sprintf("vm-%d", n-1000))
			if _, err := cloud.Act(b.Context(), w.Ref(), cluster.Destroy); err != nil {
				b.Fatal(err)
			}
		}
		_ = call
	}
}
