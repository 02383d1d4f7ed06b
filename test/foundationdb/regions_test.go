package foundationdb_test

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/fdb/sim"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters"
	"github.com/pawl-dev/pawl/test/foundationdb"
)

// A database over two regions of two data centers each, all with TLS and certificates: created with the one of dc1, given
// its whole configuration in stages, failed over to dc3, and shrunk to the region of dc3. Roles are fewer than in the
// example, so that two cores can run all pods.
func TestRegions(t *testing.T) {
	whole(t)
	first := newLife(t, foundationdb.Options{Nodes: 12, Node: zones(4)})
	first.secret(newAuthority(t))
	first.operate()
	first.apply("../../examples/foundationdb/access.yaml")
	var both v1beta2.DatabaseConfiguration
	var lives []*life
	var before int
	for n := 1; n <= 4; n++ {
		l := *first
		l.name = "billing-dc" + strconv.Itoa(n)
		c := l.region(n)
		if n == 1 {
			both = *c.Spec.DatabaseConfiguration.DeepCopy()
			c.Spec.DatabaseConfiguration.UsableRegions = 1
			c.Spec.DatabaseConfiguration.Regions = []v1beta2.Region{{Datacenters: []v1beta2.Datacenter{{ID: "dc1", Priority: 1}}}}
		} else {
			c.Spec.SeedConnectionString = lives[0].cluster().Status.ConnectionString
		}
		l.must(l.admin.Create(t.Context(), c))
		lives = append(lives, &l)
		if n == 1 {
			l.reconciled("one region", 3*time.Minute)
			l.write("7.3.69")
			before = l.caused()
			l.change(func(s *v1beta2.FoundationDBClusterSpec) { s.DatabaseConfiguration = *both.DeepCopy() })
		}
	}
	all := func(what string, lives []*life, change func(*v1beta2.FoundationDBClusterSpec)) {
		t.Helper()
		if change != nil {
			for _, l := range lives {
				l.change(change)
			}
		}
		for _, l := range lives {
			l.reconciled(what, 6*time.Minute)
		}
		for _, l := range lives {
			l.until("at rest", 2*time.Minute, l.atRest)
		}
	}
	dc1, dc3 := lives[0], lives[2]
	all("two regions", lives, nil)
	dc1.stages("1 dc1:1 dc3:-1", "2 dc1:1 dc3:-1", "2 dc1:1 dc3:0")
	dc1.coordinatorsBy(fdb.DatacenterLocality, 9, 3)
	for n, want := range []int{3, 0, 3, 0} {
		has("storage", want)(lives[n])
	}
	dc1.judge(before+4, 0) // three stages, and coordinators in all data centers

	all("failed over", lives, func(s *v1beta2.FoundationDBClusterSpec) {
		s.DatabaseConfiguration.Regions[0].Datacenters[0].Priority, s.DatabaseConfiguration.Regions[1].Datacenters[0].Priority = 0, 1
	})
	dc1.stages("2 dc1:0 dc3:1")
	dc1.until("the primary", time.Minute, func() (err error) {
		dc1.status(func(s *fdb.Status) {
			if s.Cluster.ActivePrimaryDC != "dc3" {
				err = fmt.Errorf("it is %s", s.Cluster.ActivePrimaryDC)
			}
		})
		return err
	})
	dc1.judge(before+5, 0)

	for _, l := range lives[:2] {
		l.change(func(s *v1beta2.FoundationDBClusterSpec) {
			s.ProcessCounts = map[v1beta2.ProcessClass]int{"storage": -1, "log": -1, "stateless": -1}
		})
	}
	all("one region again", lives, func(s *v1beta2.FoundationDBClusterSpec) {
		s.LockOptions.DisableLocks = new(false) // with one region there would be none by default
		s.DatabaseConfiguration.UsableRegions = 1
		s.DatabaseConfiguration.Regions = s.DatabaseConfiguration.Regions[1:]
		s.DatabaseConfiguration.Regions[0].Datacenters = s.DatabaseConfiguration.Regions[0].Datacenters[:2]
	})
	dc1.stages("2 dc3:1 dc1:-1", "1 dc3:1 dc1:-1", "1 dc3:1")
	has("storage", 0)(dc1)
	has("log", 0)(lives[1])
	has("storage", 3)(dc3)
	dc1.judge(before+10, 1) // three stages, coordinators, and servers that leave
	for _, l := range lives {
		l.deleted()
	}
	first.name = dc3.name
	first.gone()
}

// region is the object of a data center, on the nodes of its zone: the example, with fewer roles.
func (l *life) region(n int) *v1beta2.FoundationDBCluster {
	l.Helper()
	c := l.example("regions.yaml", 0)
	dc := "dc" + strconv.Itoa(n)
	c.Namespace, c.Name = l.namespace, l.name
	c.Spec.ProcessGroupIDPrefix, c.Spec.DataCenter = dc, dc
	c.Spec.FaultDomain.Key = "foundationdb.org/none"
	c.Spec.MinimumUptimeSecondsForBounce = 6
	c.Spec.AutomationOptions.WaitBetweenRemovalsSeconds = new(1)
	c.Spec.DatabaseConfiguration.RedundancyMode = "double"
	if n%2 == 1 {
		c.Spec.ProcessCounts = map[v1beta2.ProcessClass]int{"stateless": 3}
	}
	c.Spec.TrustedCAs = nil
	general := c.Spec.Processes["general"]
	general.PodTemplate.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: "zone-" + strconv.Itoa(n)}
	for i := range general.PodTemplate.Spec.Containers {
		for j := range general.PodTemplate.Spec.Containers[i].Env {
			if e := &general.PodTemplate.Spec.Containers[i].Env[j]; e.Name == "FDB_TLS_CA_FILE" {
				e.Value = "/tmp/fdb-certs/ca.crt"
			}
		}
	}
	c.Spec.Processes["general"] = general
	return c
}

var (
	configured = regexp.MustCompile(`: configured: .*(usable_regions=\d).*`)
	mainDC     = regexp.MustCompile(`"id":"(dc[13])"(?:,"priority":(-?\d))?}`)
)

// stages checks the configurations that were set since it was asked last: usable_regions, and each main data center with
// its priority.
func (l *life) stages(want ...string) {
	l.Helper()
	var have []string
	l.database(func(d *sim.Cluster) {
		lines := d.Transcript()
		for _, line := range lines[min(l.told, len(lines)):] {
			if m := configured.FindStringSubmatch(line); m != nil {
				text := strings.TrimPrefix(m[1], "usable_regions=")
				for _, dc := range mainDC.FindAllStringSubmatch(strings.ReplaceAll(line, `\`, ""), -1) {
					text += " " + dc[1] + ":" + cmp.Or(dc[2], "0")
				}
				have = append(have, text)
			}
		}
	})
	if !slices.Equal(have, want) {
		l.Errorf("the stages were %q, want %q", have, want)
	}
}

// coordinatorsBy checks how many coordinators there are, and how many in one value of a locality at most.
func (l *life) coordinatorsBy(field string, count, most int) {
	l.Helper()
	l.status(func(s *fdb.Status) {
		by, n := map[string]int{}, 0
		for _, p := range s.Cluster.Processes {
			if slices.ContainsFunc(p.Roles, func(r fdb.Role) bool { return r.Role == "coordinator" }) {
				by[p.Locality[field]]++
				n++
			}
		}
		for _, n := range by {
			if n > most {
				l.Errorf("by %s the coordinators are %v", field, by)
			}
		}
		if n != count {
			l.Errorf("%d coordinators, want %d: %v", n, count, by)
		}
	})
}

// An object that joins the database of another one under its prefix is refused, with its field, and makes no pod; with a
// prefix of its own it joins.
func TestTwoObjectsWithOnePrefix(t *testing.T) {
	whole(t)
	l := newLife(t, foundationdb.Options{})
	l.name = "one"
	l.operate()
	l.apply("../../examples/foundationdb/access.yaml")
	object := func(name string) *v1beta2.FoundationDBCluster {
		c := l.example("cluster.yaml", 0)
		c.Namespace, c.Name = l.namespace, name
		c.Spec.Labels = v1beta2.LabelConfig{}
		c.Spec.ProcessGroupIDPrefix = "aa"
		c.Spec.LockOptions.DisableLocks = new(false)
		c.Spec.MinimumUptimeSecondsForBounce = 6
		return c
	}
	l.must(l.admin.Create(t.Context(), object("one")))
	l.reconciled("created", 2*time.Minute)
	l.write("7.3.69")
	c := object("two")
	c.Spec.SeedConnectionString = l.cluster().Status.ConnectionString
	l.must(l.admin.Create(t.Context(), c))
	two := *l
	two.name = "two"
	two.until("refused", time.Minute, func() error {
		c := meta.FindStatusCondition(two.cluster().Status.Conditions, clusters.TypeReconciled)
		if c == nil || c.Reason != "FdbSpecInvalid" || !strings.Contains(c.Message, "spec.processGroupIDPrefix: cluster "+l.namespace+"/one of the same database") {
			return fmt.Errorf("%+v", c)
		}
		return nil
	})
	if n := len(two.cluster().Status.ProcessGroups); n > 0 {
		t.Errorf("it has %d groups", n)
	}
	two.change(func(s *v1beta2.FoundationDBClusterSpec) { s.ProcessGroupIDPrefix = "bb" })
	two.reconciled("joined", 2*time.Minute)
	l.reconciled("still there", time.Minute)
	l.judge(l.caused(), 0)
	two.deleted()
	l.remove()
}
