package clusters_test

import (
	"cmp"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/pawl-dev/pawl/fdb"
	fdbsim "github.com/pawl-dev/pawl/fdb/sim"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/sim"
)

// shared are the options of a world in which several instances act on one database.
func shared(nodes, zones int) sim.Options {
	return sim.Options{Nodes: nodes, Zones: zones, Database: fdbsim.Options{Rules: fdbsim.Rules{Locks: true}}}
}

// TestThreeDataHallByNodeLabels: one object over the zones of a Kubernetes cluster; the launcher reads the hall
// from the labels of its node. It is our example, and the published sample where that is there.
func TestThreeDataHallByNodeLabels(t *testing.T) {
	t.Parallel()
	for name, read := range map[string]func(*testing.T) *v1beta2.FoundationDBCluster{
		"example": func(t *testing.T) *v1beta2.FoundationDBCluster {
			t.Helper()
			return example(t, "three-data-hall.yaml")[0]
		},
		"sample": published,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, sim.Options{Nodes: 36, Zones: 3})
			u := f.add(read(t))
			f.settle(time.Hour)
			f.writes()
			f.spread(fdb.DataHallLocality, 9, 3)
			f.settled()
			f.costs("grow", 0, time.Hour, func() { f.edit(`{"spec":{"databaseConfiguration":{"storage":12}}}`) })
			u.has("storage", 12)
			f.costs("knob", 1, time.Hour, func() {
				f.edit(`{"spec":{"processes":{"general":{"customParameters":["locality_data_hall=$NODE_LABEL_TOPOLOGY_KUBERNETES_IO_ZONE","knob_max_trace_lines=1000000"]}}}}`)
			})
			f.upgraded("7.4.6", 1)
			f.spread(fdb.DataHallLocality, 9, 3)
			f.kept()
		})
	}
}

// published is the sample of three data halls as the published operator ships it.
func published(t *testing.T) *v1beta2.FoundationDBCluster {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "shared", "data", "fdb-samples", "v2.33.0", "three_data_hall", "cluster.yaml"))
	if err != nil {
		t.Skip("the published samples are not there")
	}
	c := &v1beta2.FoundationDBCluster{}
	if err := yaml.Unmarshal(text, c); err != nil {
		t.Fatal(err)
	}
	c.Namespace = namespace
	return c
}

// TestKubernetesClusters: one database over three Kubernetes clusters, each a fault domain.
func TestKubernetesClusters(t *testing.T) {
	t.Parallel()
	f := kubernetesClusters(t, shared(24, 3), nil)
	f.spread(fdb.ZoneLocality, 3, 1)
	f.settled()
	f.costs("grow", 0, time.Hour, func() { f.edit(`{"spec":{"databaseConfiguration":{"storage":6}}}`) })
	for _, u := range f.units {
		u.has("storage", 2)
	}
	f.costs("knob", 3, 2*time.Hour, func() { f.edit(knob) })

	kills := f.kills // an upgrade that one object does not know of has not begun
	for _, u := range f.units[:2] {
		u.edit(`{"spec":{"version":"7.4.6"}}`)
	}
	f.goOn(30 * time.Minute)
	if last := f.units[0].last; f.kills != kills || last.Reason() != "UpgradeWaitsForOthers" && last.Reason() != "LockNotHeld" {
		f.fail("%d kills, %s", f.kills-kills, last)
	}
	f.upgraded("7.4.6", len(f.units))
	f.kept()
}

// knob is a merge patch that adds a knob for all servers.
const knob = `{"spec":{"processes":{"general":{"customParameters":["knob_max_trace_lines=1000000"]}}}}`

// upgraded checks that an incompatible upgrade of all objects restarts the database once: with one kill, and exactly
// one recovery. Afterwards pods are made anew, and each object, or all together, replaces its servers of the
// transaction system at once: at most so many more recoveries, since some of them may have no role then.
func (f *fleet) upgraded(version string, more int) {
	f.t.Helper()
	kills, before := f.kills, f.Cluster().CausedRecoveries()
	f.edit(`{"spec":{"version":"` + version + `"}}`)
	f.until("the restart", 2*time.Hour, func() bool { return f.kills > kills })
	f.goOn(time.Minute)
	if n := f.Cluster().CausedRecoveries() - before; n != 1 {
		f.fail("%d recoveries at the restart", n)
	}
	for _, p := range f.units[0].status().Cluster.Processes {
		if p.Version != version {
			f.fail("%s runs %s after the restart", p.Locality[fdb.InstanceLocality], p.Version)
		}
	}
	f.settle(12 * time.Hour)
	n := f.Cluster().CausedRecoveries() - before - 1
	f.t.Logf("upgrade: 1 recovery, and %d afterwards", n)
	if n > more {
		f.fail("%d recoveries after the restart, at most %d", n, more)
	}
	f.settled()
	if f.kills != kills+1 {
		f.fail("%d kills", f.kills-kills)
	}
	f.runs(version)
}

// join adds an object once the first one has made the database.
func (f *fleet) join(c *v1beta2.FoundationDBCluster) *unit {
	f.t.Helper()
	c.Spec.SeedConnectionString = f.units[0].object().Status.ConnectionString
	if c.Spec.SeedConnectionString == "" {
		f.fail("the first object has no connection string")
	}
	return f.add(c)
}

// halls are objects that make one database, each of them a data hall in a zone of its own.
func halls() []*v1beta2.FoundationDBCluster {
	var made []*v1beta2.FoundationDBCluster
	for n, hall := range []string{"a", "b", "c"} {
		c := &v1beta2.FoundationDBCluster{}
		c.Namespace, c.Name = namespace, "ledger-"+hall
		c.Spec.Version = "7.3.69"
		c.Spec.ProcessGroupIDPrefix, c.Spec.DataHall = hall, hall
		c.Spec.DatabaseConfiguration.RedundancyMode = "three_data_hall"
		c.Spec.ProcessCounts = map[v1beta2.ProcessClass]int{"storage": 3, "log": 4, "stateless": 3}
		c.Spec.Processes = map[v1beta2.ProcessClass]v1beta2.ProcessSettings{"general": {PodTemplate: &corev1.PodTemplateSpec{
			Spec: corev1.PodSpec{NodeSelector: map[string]string{"topology.kubernetes.io/zone": "zone-" + strconv.Itoa(n+1)}},
		}}}
		made = append(made, c)
	}
	return made
}

// TestThreeDataHallsAsObjects: three objects, one a data hall; a hall is lost and comes back.
func TestThreeDataHallsAsObjects(t *testing.T) {
	t.Parallel()
	f := newFleet(t, shared(36, 3))
	objects := halls()
	f.add(objects[0])
	f.goOn(3 * time.Minute)
	f.join(objects[1])
	f.join(objects[2])
	f.settle(2 * time.Hour)
	f.writes()
	f.spread(fdb.DataHallLocality, 9, 3)
	f.settled()
	f.costs("grow", 0, time.Hour, func() { f.edit(`{"spec":{"processCounts":{"storage":4}}}`) })
	f.costs("knob", 3, 2*time.Hour, func() { f.edit(knob) })
	f.costs("a hall is lost and comes back", 0, 4*time.Hour, func() {
		for _, node := range f.nodesOf(f.units[2]) {
			f.LoseNode(node)
		}
		f.goOn(20 * time.Minute)
		if !f.Cluster().Available() {
			f.fail("not available without a hall")
		}
		for _, node := range f.nodesOf(f.units[2]) {
			f.ReturnNode(node)
		}
	})
	f.upgraded("7.4.6", len(f.units))
	f.spread(fdb.DataHallLocality, 9, 3)
	f.kept()
}

// nodesOf are the nodes on which the pods of an object run.
func (f *fleet) nodesOf(u *unit) []string {
	var nodes []string
	for _, g := range u.object().Status.ProcessGroups {
		if g.FaultDomain != "" && !slices.Contains(nodes, g.FaultDomain) {
			nodes = append(nodes, g.FaultDomain)
		}
	}
	return nodes
}

// regions are the objects of a database over two regions, made from the example: main data centers dc1 and dc3,
// satellites dc2 and dc4, each on nodes of its own.
func regions(t tester) []*v1beta2.FoundationDBCluster {
	t.Helper()
	first := example(t, "regions.yaml")[0]
	first.Spec.StorageServersPerPod = 1
	var made []*v1beta2.FoundationDBCluster
	for n := 1; n <= 4; n++ {
		c := first.DeepCopy()
		dc := "dc" + strconv.Itoa(n)
		c.Name = "billing-" + dc
		c.Spec.ProcessGroupIDPrefix, c.Spec.DataCenter = dc, dc
		settings := c.Spec.Processes["general"]
		settings.PodTemplate.Spec.NodeSelector = map[string]string{"topology.kubernetes.io/zone": "zone-" + strconv.Itoa(n)}
		made = append(made, c)
	}
	return made
}

// stages checks the regions of the configurations that were asked for since a number of them: usable_regions, and
// each main data center with its priority.
func (f *fleet) stages(since int, want ...string) {
	f.t.Helper()
	var have []string
	for _, text := range f.configures[since:] {
		usable := regexp.MustCompile(`usable_regions=\d`).FindString(text)
		for _, m := range regexp.MustCompile(`"id":"(dc[13])"(?:,"priority":(-?\d))?}`).FindAllStringSubmatch(strings.ReplaceAll(text, `\`, ""), -1) {
			usable += " " + m[1] + ":" + cmp.Or(m[2], "0")
		}
		have = append(have, strings.TrimPrefix(usable, "usable_regions="))
	}
	if !slices.Equal(have, want) {
		f.fail("the stages were %q, expected %q: %s", have, want, f.configures[since:])
	}
}

// TestRegions: two regions with satellites, created in stages from one, failed over, and shrunk to one.
func TestRegions(t *testing.T) {
	whole(t)
	t.Parallel()
	f := newFleet(t, shared(48, 4))
	objects := regions(t)
	both := objects[0].Spec.DatabaseConfiguration.DeepCopy()
	first := &objects[0].Spec.DatabaseConfiguration
	first.UsableRegions = 1
	first.Regions = []v1beta2.Region{{Datacenters: []v1beta2.Datacenter{{ID: "dc1", Priority: 1}}}}
	f.add(objects[0])
	f.settle(time.Hour)
	f.writes()
	f.stages(0, "1 dc1:1")
	f.costs("two regions", 4, 4*time.Hour, func() {
		f.edit(configuration(both))
		for _, c := range objects[1:] {
			f.join(c)
		}
	})
	f.stages(1, "1 dc1:1 dc3:-1", "2 dc1:1 dc3:-1", "2 dc1:1 dc3:0")
	f.spread(fdb.DatacenterLocality, 9, 3)
	for n, counts := range []map[v1beta2.ProcessClass]int{{"storage": 5, "log": 5}, {"storage": 0, "log": 4}, {"storage": 5, "log": 5}, {"storage": 0, "log": 4}} {
		for class, count := range counts {
			f.units[n].has(class, count)
		}
	}
	dc1, dc3 := f.units[0], f.units[2]
	f.costs("grow", 0, 4*time.Hour, func() { f.edit(`{"spec":{"databaseConfiguration":{"storage":7}}}`) })
	dc3.has("storage", 7)
	f.costs("knob", 3, 4*time.Hour, func() { f.edit(knob) })

	mark := len(f.configures)
	f.costs("fail over", 1, 4*time.Hour, func() {
		both.Storage = 7
		both.Regions[0].Datacenters[0].Priority, both.Regions[1].Datacenters[0].Priority = 0, 1
		f.edit(configuration(both))
	})
	f.stages(mark, "2 dc1:0 dc3:1")
	if primary := dc1.status().Cluster.ActivePrimaryDC; primary != "dc3" {
		f.fail("the primary is %s", primary)
	}
	f.upgraded("7.4.6", len(f.units))

	f.spread(fdb.DatacenterLocality, 9, 3)
	f.kept()
}

// coordinatorsCrash upgrades to 7.4.6, and has a majority of the coordinators crash before the restart: those of the first
// objects. Each object makes its pods anew.
func (f *fleet) coordinatorsCrash() {
	f.t.Helper()
	kills := f.kills
	f.edit(`{"spec":{"version":"7.4.6","minimumUptimeSecondsForBounce":100000}}`)
	f.until("the gate", 2*time.Hour, func() bool {
		return !slices.ContainsFunc(f.units, func(u *unit) bool {
			return slices.ContainsFunc(u.object().Status.ProcessGroups, func(g v1beta2.ProcessGroupStatus) bool {
				return g.Has(v1beta2.IncorrectConfigMap) || g.Has(v1beta2.IncorrectSidecarImage) || !g.Has(v1beta2.IncorrectCommandLine)
			})
		})
	})
	coordinators := f.Cluster().Connection().Coordinators
	left := len(coordinators)/2 + 1
	for _, u := range f.units {
		c := u.object()
		for _, g := range c.Status.ProcessGroups {
			id, err := fdb.ParseGroupID(string(g.ProcessGroupID))
			if err != nil {
				f.t.Fatal(err)
			}
			pod := foundationdb.PodName(c, id)
			for _, a := range coordinators {
				if left > 0 && (strings.HasPrefix(a.Host, pod+".") || slices.Contains(g.Addresses, a.Host)) {
					f.Crash(u.namespace, pod, 1)
					left--
				}
			}
		}
	}
	f.Advance(5 * time.Second)
	if f.Cluster().Protocol().Short() != "7.4" || f.Cluster().Available() || f.kills != kills {
		f.fail("the coordinators speak %s", f.Cluster().Protocol())
	}
	f.goOn(5 * time.Minute)
	if !f.Cluster().Available() {
		f.fail("the database is not available: %s", f.Cluster().Unhealthy())
	}
	f.settle(12 * time.Hour)
	f.settled()
	f.runs("7.4.6")
	f.kept()
}

// TestCrashesOfCoordinatorsOfSeveralObjects: a majority of the coordinators start with the new version before the restart of an
// upgrade, where several objects hold a database. In a data center without one of them no server reports any more.
func TestCrashesOfCoordinatorsOfSeveralObjects(t *testing.T) {
	t.Parallel()
	t.Run("Kubernetes clusters", func(t *testing.T) {
		t.Parallel()
		kubernetesClusters(t, shared(24, 3), nil).coordinatorsCrash()
	})
	t.Run("regions", func(t *testing.T) {
		t.Parallel()
		whole(t)
		f := newFleet(t, shared(48, 4))
		objects := regions(t)
		for _, c := range objects { // else servers are replaced at once, and their successors report
			c.Spec.AutomationOptions.PodUpdateStrategy = v1beta2.PodUpdateDelete
		}
		both := configuration(&objects[0].Spec.DatabaseConfiguration)
		first := &objects[0].Spec.DatabaseConfiguration
		first.UsableRegions = 1
		first.Regions = []v1beta2.Region{{Datacenters: []v1beta2.Datacenter{{ID: "dc1", Priority: 1}}}}
		f.add(objects[0])
		f.settle(time.Hour)
		f.edit(both)
		for _, c := range objects[1:] {
			f.join(c)
		}
		f.settle(4 * time.Hour)
		f.writes()
		f.coordinatorsCrash()
	})
}

// TestRegionsShrink: of two regions the former primary is given up, and its objects are deleted at the end.
func TestRegionsShrink(t *testing.T) {
	whole(t)
	t.Parallel()
	f := newFleet(t, shared(48, 4))
	objects := regions(t)
	both := objects[0].Spec.DatabaseConfiguration.DeepCopy()
	both.Regions[0].Datacenters[0].Priority, both.Regions[1].Datacenters[0].Priority = 0, 1
	for n, c := range objects {
		if n == 0 {
			first := &c.Spec.DatabaseConfiguration
			first.UsableRegions = 1
			first.Regions = []v1beta2.Region{{Datacenters: []v1beta2.Datacenter{{ID: "dc1", Priority: 1}}}}
			f.add(c)
			f.settle(time.Hour)
			f.writes()
			continue
		}
		c.Spec.DatabaseConfiguration = *both
		f.join(c)
	}
	dc1, dc2, dc3, dc4 := f.units[0], f.units[1], f.units[2], f.units[3]
	f.costs("two regions and fail over", 4, 4*time.Hour, func() { dc1.edit(configuration(both)) })
	f.stages(1, "1 dc1:1 dc3:-1", "2 dc1:1 dc3:-1", "2 dc1:0 dc3:1")
	mark := len(f.configures)
	f.costs("shrink", 5, 12*time.Hour, func() {
		one := both.DeepCopy()
		one.UsableRegions, one.Regions = 1, one.Regions[1:]
		one.Regions[0].Datacenters = one.Regions[0].Datacenters[:2]
		f.edit(configuration(one))
		f.edit(`{"spec":{"lockOptions":{"disableLocks":false}}}`) // with one region there would be none by default
		for _, u := range []*unit{dc1, dc2} {
			u.edit(`{"spec":{"processCounts":{"storage":-1,"log":-1,"stateless":-1}}}`)
		}
	})
	f.stages(mark, "2 dc3:1 dc1:-1", "1 dc3:1 dc1:-1", "1 dc3:1")
	dc1.has("storage", 0)
	dc2.has("log", 0)
	dc3.has("storage", 5)
	dc4.has("log", 4)
	f.spread(fdb.DatacenterLocality, 5, 5)
	f.units = []*unit{dc3, dc4}
	for _, u := range []*unit{dc1, dc2} {
		if err := f.As("").Objects.Delete(context.Background(), u.object()); err != nil {
			t.Fatal(err)
		}
	}
	f.settle(time.Hour)
	f.settled()
	f.kept()
}

// configuration is a merge patch that sets the configuration of the database.
func configuration(c *v1beta2.DatabaseConfiguration) string {
	text, err := json.Marshal(map[string]any{"spec": map[string]any{"databaseConfiguration": c}})
	if err != nil {
		panic(err)
	}
	return string(text)
}
