package foundationdb

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

func TestRoles(t *testing.T) {
	for text, want := range map[string]RoleCounts{
		``: {Storage: 3, Logs: 3, Proxies: 3, Resolvers: 1, LogRouters: -1, RemoteLogs: -1},
		`databaseConfiguration: {redundancy_mode: single}`:                                        {Storage: 1, Logs: 3, Proxies: 3, Resolvers: 1, LogRouters: -1, RemoteLogs: -1},
		`databaseConfiguration: {redundancy_mode: triple}`:                                        {Storage: 5, Logs: 3, Proxies: 3, Resolvers: 1, LogRouters: -1, RemoteLogs: -1},
		`databaseConfiguration: {redundancy_mode: three_data_hall}`:                               {Storage: 5, Logs: 4, Proxies: 3, Resolvers: 1, LogRouters: -1, RemoteLogs: -1},
		`databaseConfiguration: {redundancy_mode: three_data_hall, logs: 9}`:                      {Storage: 5, Logs: 9, Proxies: 3, Resolvers: 1, LogRouters: -1, RemoteLogs: -1},
		`databaseConfiguration: {usable_regions: 2, logs: 4}`:                                     {Storage: 3, Logs: 4, Proxies: 3, Resolvers: 1, LogRouters: 4, RemoteLogs: 4},
		`databaseConfiguration: {usable_regions: 2, log_routers: 6, remote_logs: -1}`:             {Storage: 3, Logs: 3, Proxies: 3, Resolvers: 1, LogRouters: 6, RemoteLogs: -1},
		`databaseConfiguration: {grv_proxies: 4}`:                                                 {Storage: 3, Logs: 3, GRVProxies: 4, CommitProxies: 2, Resolvers: 1, LogRouters: -1, RemoteLogs: -1},
		`databaseConfiguration: {commit_proxies: 5, proxies: 7}`:                                  {Storage: 3, Logs: 3, GRVProxies: 1, CommitProxies: 5, Resolvers: 1, LogRouters: -1, RemoteLogs: -1},
		`databaseConfiguration: {storage: 9, logs: 8, proxies: 7, resolvers: 2, remote_logs: 10}`: {Storage: 9, Logs: 8, Proxies: 7, Resolvers: 2, LogRouters: -1, RemoteLogs: 10},
	} {
		equal(t, text, Roles(specOf(t, text)), want)
	}
}

func TestGroups(t *testing.T) {
	type counts = map[fdb.Class]int
	const satellites = `
databaseConfiguration:
  redundancy_mode: triple
  usable_regions: 2
  regions:
  - {datacenters: [{id: dc1, priority: 1}, {id: dc2, satellite: 1}, {id: dc4, satellite: 1}], satellite_logs: 4}
  - {datacenters: [{id: dc3}, {id: dc4, satellite: 1}, {id: dc1, satellite: 1}], satellite_logs: 5}
`
	for text, want := range map[string]counts{
		// 3 proxies, 1 resolver, master, cluster controller, ratekeeper, data distributor = 8, and one spare
		``: {"storage": 3, "log": 4, "stateless": 9},
		`databaseConfiguration: {redundancy_mode: single}`:          {"storage": 1, "log": 3, "stateless": 8},
		`databaseConfiguration: {redundancy_mode: triple}`:          {"storage": 5, "log": 5, "stateless": 10},
		`databaseConfiguration: {redundancy_mode: three_data_hall}`: {"storage": 5, "log": 6, "stateless": 10},
		`databaseConfiguration: {remote_logs: 6}`:                   {"storage": 3, "log": 7, "stateless": 9},
		`databaseConfiguration: {log_routers: 8}`:                   {"storage": 3, "log": 4, "stateless": 9},
		`databaseConfiguration: {log_routers: 9}`:                   {"storage": 3, "log": 4, "stateless": 10},
		`databaseConfiguration: {grv_proxies: 3}`:                   {"storage": 3, "log": 4, "stateless": 11},
		`databaseConfiguration: {resolvers: -1}`:                    {"storage": 3, "log": 4, "stateless": 8},

		// the sample: what has a class of its own needs no stateless process, and -1 means none
		`processCounts: {cluster_controller: 1, stateless: -1}`:              {"storage": 3, "log": 4, "stateless": -1, "cluster_controller": 1},
		`processCounts: {cluster_controller: 1}`:                             {"storage": 3, "log": 4, "stateless": 8, "cluster_controller": 1},
		`processCounts: {cluster_controller: -3}`:                            {"storage": 3, "log": 4, "stateless": 9, "cluster_controller": -1},
		`processCounts: {proxy: 2, master: 1, resolution: 1, ratekeeper: 1}`: {"storage": 3, "log": 4, "stateless": 3, "proxy": 2, "master": 1, "resolution": 1, "ratekeeper": 1},
		`processCounts: {proxy: 2, master: 1, cluster_controller: 1, resolution: 1, ratekeeper: 1, data_distributor: 1}`: {"storage": 3, "log": 4, "stateless": -1,
			"proxy": 2, "master": 1, "cluster_controller": 1, "resolution": 1, "ratekeeper": 1, "data_distributor": 1},
		`processCounts: {storage: 12, log: 6, stateless: 5, test: 1, coordinator: 0}`: {"storage": 12, "log": 6, "stateless": 5, "test": 1},

		// a data center of the regions; the largest number of satellite logs counts
		"dataCenter: dc1" + satellites:                                      {"storage": 5, "log": 3 + 5 + 2, "stateless": 10},
		"dataCenter: dc3" + satellites:                                      {"storage": 5, "log": 5, "stateless": 10},
		"dataCenter: dc2" + satellites:                                      {"storage": -1, "log": 1 + 4, "stateless": -1},
		"dataCenter: dc4" + satellites:                                      {"storage": -1, "log": 1 + 5, "stateless": -1},
		"dataCenter: dc9" + satellites:                                      {"storage": 5, "log": 5, "stateless": 10},
		"dataCenter: dc2\nprocessCounts: {storage: 2, log: 9}" + satellites: {"storage": 2, "log": 9, "stateless": -1},

		// several Kubernetes clusters; by default as many as coordinators
		`faultDomain: {key: foundationdb.org/kubernetes-cluster, zoneIndex: 0}`:                                {"storage": 1, "log": 2, "stateless": 3},
		`faultDomain: {key: foundationdb.org/kubernetes-cluster, zoneIndex: 2}`:                                {"storage": 1, "log": 1, "stateless": 3},
		`faultDomain: {key: foundationdb.org/kubernetes-cluster, zoneCount: 4, zoneIndex: 0}`:                  {"storage": 1, "log": 1, "stateless": 3},
		`faultDomain: {key: foundationdb.org/kubernetes-cluster, zoneCount: 4, zoneIndex: 2}`:                  {"storage": 1, "log": 1, "stateless": 2},
		`faultDomain: {key: foundationdb.org/kubernetes-cluster, zoneCount: 4, zoneIndex: 3}`:                  {"storage": -1, "log": 1, "stateless": 2},
		`faultDomain: {key: foundationdb.org/kubernetes-cluster, zoneIndex: -1}`:                               {"storage": -1, "log": -1, "stateless": -1},
		`{faultDomain: {key: foundationdb.org/kubernetes-cluster, zoneIndex: 1}, processCounts: {storage: 7}}`: {"storage": 7, "log": 1, "stateless": 3},
	} {
		equal(t, text, Groups(specOf(t, text)), want)
	}
}

// TestShares: the Kubernetes clusters of a database together run what one would run, and no one runs two more
// than another.
func TestShares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := v1beta2.DatabaseConfiguration{RedundancyMode: rapid.SampledFrom([]string{"single", "double", "triple", "three_data_hall"}).Draw(t, "mode")}
		d.Storage, d.Logs = rapid.IntRange(0, 50).Draw(t, "storage"), rapid.IntRange(0, 50).Draw(t, "logs")
		whole := Groups(v1beta2.FoundationDBClusterSpec{DatabaseConfiguration: d})
		zones := rapid.IntRange(1, 9).Draw(t, "zones")
		sum, least, most := map[fdb.Class]int{}, map[fdb.Class]int{}, map[fdb.Class]int{}
		for i := range zones {
			part := Groups(v1beta2.FoundationDBClusterSpec{DatabaseConfiguration: d,
				FaultDomain: v1beta2.FaultDomainSpec{Key: kubernetesClusterDomain, ZoneCount: zones, ZoneIndex: i}})
			for class, n := range part {
				n = max(0, n)
				if i == 0 {
					least[class] = n
				}
				sum[class], least[class], most[class] = sum[class]+n, min(least[class], n), max(most[class], n)
			}
		}
		for class, n := range whole {
			if sum[class] != n || most[class]-least[class] > 1 {
				t.Fatalf("%s: %d of %d, between %d and %d", class, sum[class], n, least[class], most[class])
			}
		}
	})
}

func TestServersPerPod(t *testing.T) {
	s := specOf(t, `{storageServersPerPod: 3, logServersPerPod: 2}`)
	got := map[fdb.Class]int{}
	for _, class := range []fdb.Class{fdb.ClassStorage, fdb.ClassLog, fdb.ClassTransaction, fdb.ClassStateless, fdb.ClassCoordinator} {
		got[class] = ServersPerPod(s, class)
	}
	if want := "map[coordinator:1 log:2 stateless:1 storage:3 transaction:2]"; fmt.Sprint(got) != want {
		t.Errorf("%v, expected %v", got, want)
	}
	if n := ServersPerPod(specOf(t, ``), fdb.ClassStorage); n != 1 {
		t.Errorf("%d servers by default", n)
	}
}

// TestCountable: the classes of the published schema, but tester, which is no class of FoundationDB.
func TestCountable(t *testing.T) {
	names := strings.Fields("backup cluster_controller commit_proxy coordinator data_distributor fast_restore grv_proxy log master proxy ratekeeper resolution router " +
		"stateless storage storage_cache test transaction unset")
	s := v1beta2.FoundationDBClusterSpec{ProcessCounts: map[v1beta2.ProcessClass]int{"tester": 2, "general": 2}}
	want := map[fdb.Class]int{}
	for _, name := range names {
		s.ProcessCounts[v1beta2.ProcessClass(name)], want[fdb.Class(name)] = 2, 2
	}
	equal(t, "all classes", Groups(s), want)
}
