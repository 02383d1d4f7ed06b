package foundationdb_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/fdb/sim"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/test/controlplane/kubelet"
	"github.com/pawl-dev/pawl/test/foundationdb"
)

// The published sample, and our own of the same shape, become databases, and go without a trace.
func TestSampleCluster(t *testing.T) {
	for _, c := range []struct{ what, file, name string }{
		{"published", "samples/cluster.yaml", "test-cluster"},
		{"ours", "../../examples/foundationdb/cluster.yaml", "orders"},
	} {
		t.Run(c.what, func(t *testing.T) {
			file := c.file
			if c.what == "published" {
				file = sample(t, c.file)
			}
			l := newLife(t, foundationdb.Options{})
			l.name = c.name
			l.operate()
			if c.what != "published" {
				l.apply("../../examples/foundationdb/access.yaml")
			}
			l.apply(file)
			l.reconciled("created", 2*time.Minute)
			l.write("7.3.69")
			l.judge(0, 0)
			l.remove()
		})
	}
}

// step is one change in the life of a database.
type step struct {
	name       string
	change     func(*life)
	recoveries int // that the operator causes by it
	orMore     int // how many more, where a pod comes late
	within     time.Duration
	check      func(*life)
	sampled    bool // make test has it too
}

func spec(change func(*v1beta2.FoundationDBClusterSpec)) func(*life) {
	return func(l *life) { l.Helper(); l.change(change) }
}

var steps = []step{
	{name: "two more storage", sampled: true, change: spec(func(s *v1beta2.FoundationDBClusterSpec) { s.ProcessCounts["storage"] = 5 }), check: has("storage", 5)},
	{name: "one log less", sampled: true, change: spec(func(s *v1beta2.FoundationDBClusterSpec) { s.ProcessCounts["log"] = 3 }), check: has("log", 3), recoveries: 1},
	{name: "a knob", sampled: true, change: spec(func(s *v1beta2.FoundationDBClusterSpec) {
		general := s.Processes["general"]
		general.CustomParameters = append(general.CustomParameters, "knob_max_trace_lines=1000000")
		s.Processes["general"] = general
	}), check: commandLines("--knob_max_trace_lines=1000000"), recoveries: 1},
	{name: "7.3.79", change: spec(func(s *v1beta2.FoundationDBClusterSpec) { s.Version = "7.3.79" }), check: running("7.3.79"), recoveries: 1},
	{name: "7.4.6", change: spec(func(s *v1beta2.FoundationDBClusterSpec) { s.Version = "7.4.6" }), check: running("7.4.6"), recoveries: 2},
	{name: "triple", change: spec(func(s *v1beta2.FoundationDBClusterSpec) { s.DatabaseConfiguration.RedundancyMode = "triple" }), check: coordinators(5), recoveries: 2},
	{name: "double", change: spec(func(s *v1beta2.FoundationDBClusterSpec) { s.DatabaseConfiguration.RedundancyMode = "double" }), check: coordinators(3), recoveries: 2},
	{name: "a group removed", change: func(l *life) {
		id := l.roleless()
		l.change(func(s *v1beta2.FoundationDBClusterSpec) { s.ProcessGroupsToRemove = []v1beta2.ProcessGroupID{id} })
	}, check: func(l *life) {
		if id := l.cluster().Spec.ProcessGroupsToRemove[0]; slices.Contains(l.groups("storage"), id) {
			l.Errorf("%s is still there", id)
		}
	}},
	{name: "a node cordoned", change: cordon, check: func(l *life) {
		for _, p := range l.pods() {
			if p.Spec.NodeName == l.cordoned {
				l.Errorf("%s is still on the node", p.Name)
			}
		}
		l.uncordon()
	}},
	{name: "a pod killed", change: func(l *life) {
		p := l.podOf(l.roleless())
		l.must(l.admin.Delete(l.Context(), &p, client.GracePeriodSeconds(0)))
		l.until("made anew", time.Minute, func() error {
			if !slices.ContainsFunc(l.pods(), func(q corev1.Pod) bool {
				return q.Name == p.Name && q.UID != p.UID && q.Status.Phase == corev1.PodRunning
			}) {
				return fmt.Errorf("%s is not there", p.Name)
			}
			return nil
		})
	}, check: func(*life) {}},
	{name: "TLS", change: spec(func(s *v1beta2.FoundationDBClusterSpec) { s.MainContainer.EnableTLS = true }), recoveries: 3, check: func(l *life) {
		l.database(func(d *sim.Cluster) {
			for _, a := range d.Connection().Coordinators {
				if !a.TLS {
					l.Errorf("coordinator %s", a)
				}
			}
		})
	}},
	{name: "names off", change: spec(func(s *v1beta2.FoundationDBClusterSpec) { s.Routing.UseDNSInClusterFile = new(false) }), check: named(false), recoveries: 1},
	{name: "names on", change: spec(func(s *v1beta2.FoundationDBClusterSpec) { s.Routing.UseDNSInClusterFile = new(true) }), check: named(true), recoveries: 1},
	{name: "split", change: spec(func(s *v1beta2.FoundationDBClusterSpec) { s.ImageType = v1beta2.ImageTypeSplit }), check: images("split"), recoveries: 1, orMore: 1},
	{name: "unified", change: spec(func(s *v1beta2.FoundationDBClusterSpec) { s.ImageType = v1beta2.ImageTypeUnified }), check: images("unified"), recoveries: 1, orMore: 1},
}

// One database from its creation to its deletion, and what people do with it in between.
func TestLife(t *testing.T) {
	l := newLife(t, foundationdb.Options{Nodes: 6, Kubelet: func(o *kubelet.Options) { o.FileDelay = time.Second }})
	l.name = "orders"
	l.operate()
	l.apply("../../examples/foundationdb/access.yaml")
	l.apply("../../examples/foundationdb/cluster.yaml")
	l.reconciled("created", 2*time.Minute)
	l.hurry()
	l.reconciled("hurried", time.Minute)
	l.write("7.3.69", "7.4.6")
	whole := l.T
	for _, s := range steps {
		if !s.sampled && os.Getenv("PAWL_TEST_FDB") == "" {
			continue // make test-fdb takes all
		}
		if !whole.Run(s.name, func(t *testing.T) {
			l.T = t
			defer func() { l.T = whole }()
			before := l.caused()
			l.more = 0
			s.change(l)
			l.reconciled(s.name, max(s.within, 3*time.Minute))
			l.until("at rest", time.Minute, l.atRest)
			s.check(l)
			l.judge(before+s.recoveries, l.more+s.orMore)
		}) && l.stuck() {
			break
		}
	}
	if !l.stuck() {
		l.remove()
	}
}

// hurry makes the waits of a cluster a tenth or less of what they are by default.
func (l *life) hurry() {
	l.Helper()
	l.change(func(s *v1beta2.FoundationDBClusterSpec) {
		s.AutomationOptions.WaitBetweenRemovalsSeconds = new(1)
		s.MinimumUptimeSecondsForBounce = 6
		s.AutomationOptions.Replacements.TaintReplacementOptions = []v1beta2.TaintReplacementOption{{Key: "node.kubernetes.io/unschedulable", DurationInSeconds: 1}}
		s.AutomationOptions.Replacements.TaintReplacementTimeSeconds = new(1)
		s.AutomationOptions.Replacements.MaxConcurrentReplacements = new(3)
		s.AutomationOptions.Replacements.MaxFaultDomainsWithTaintedProcessGroups = new(intstr.FromString("50%")) // each pod is one
	})
}

// caused is how many recoveries the operator has caused.
func (l *life) caused() (n int) {
	l.Helper()
	l.database(func(d *sim.Cluster) { n = d.CausedRecoveries() })
	return n
}

// stuck reports whether the database is not as its spec says: what follows would tell nothing.
func (l *life) stuck() bool {
	c := l.cluster()
	return c.Status.Generations.Reconciled != c.Generation
}

func (l *life) groups(class v1beta2.ProcessClass) (ids []v1beta2.ProcessGroupID) {
	l.Helper()
	for _, g := range l.cluster().Status.ProcessGroups {
		if g.ProcessClass == class {
			ids = append(ids, g.ProcessGroupID)
		}
	}
	return ids
}

func (l *life) pods() []corev1.Pod {
	l.Helper()
	list := &corev1.PodList{}
	l.must(l.admin.List(l.Context(), list, client.InNamespace(l.namespace)))
	return list.Items
}

// roleless returns a storage group whose servers do nothing else, so that nothing has to be recruited when it goes.
func (l *life) roleless() (id v1beta2.ProcessGroupID) {
	l.Helper()
	l.status(func(s *fdb.Status) {
		for _, p := range s.Cluster.Processes {
			if p.Class == fdb.ClassStorage && !slices.ContainsFunc(p.Roles, func(r fdb.Role) bool { return r.Role != "storage" }) {
				id = v1beta2.ProcessGroupID(p.Locality[fdb.InstanceLocality])
			}
		}
	})
	if id == "" {
		l.Fatal("each storage server has other roles as well")
	}
	return id
}

// podOf returns the pod of a group.
func (l *life) podOf(id v1beta2.ProcessGroupID) corev1.Pod {
	l.Helper()
	pods := l.pods()
	at := slices.IndexFunc(pods, func(p corev1.Pod) bool { return p.Labels["foundationdb.org/fdb-process-group-id"] == string(id) })
	if at < 0 {
		l.Fatalf("the group %s has no pod", id)
	}
	return pods[at]
}

func has(class v1beta2.ProcessClass, n int) func(*life) {
	return func(l *life) {
		l.Helper()
		if ids := l.groups(class); len(ids) != n {
			l.Errorf("the groups of class %s are %v, want %d", class, ids, n)
		}
	}
}

// commandLines checks that all servers run with an argument.
func commandLines(argument string) func(*life) {
	return func(l *life) {
		l.Helper()
		l.status(func(s *fdb.Status) {
			for _, p := range s.Cluster.Processes {
				if !slices.Contains(strings.Fields(p.CommandLine), argument) {
					l.Errorf("%s runs as %s", p.Address, p.CommandLine)
				}
			}
		})
	}
}

func running(version string) func(*life) {
	return func(l *life) {
		l.Helper()
		if c := l.cluster(); c.Status.RunningVersion != version {
			l.Errorf("it runs %s", c.Status.RunningVersion)
		}
		l.status(func(s *fdb.Status) {
			for _, p := range s.Cluster.Processes {
				if p.Version != version {
					l.Errorf("%s runs %s", p.Address, p.Version)
				}
			}
		})
	}
}

func coordinators(n int) func(*life) {
	return func(l *life) {
		l.Helper()
		l.database(func(d *sim.Cluster) {
			if c := d.Connection(); len(c.Coordinators) != n {
				l.Errorf("the coordinators are %s, want %d", c, n)
			}
		})
	}
}

func named(names bool) func(*life) {
	return func(l *life) {
		l.Helper()
		c, err := fdb.ParseConnection(l.cluster().Status.ConnectionString)
		l.must(err)
		for _, a := range c.Coordinators {
			if byName := slices.ContainsFunc([]rune(a.Host), func(r rune) bool { return r >= 'a' && r <= 'z' }); byName != names {
				l.Errorf("the coordinators are %s", c)
			}
		}
	}
}

func images(image v1beta2.ImageType) func(*life) {
	return func(l *life) {
		l.Helper()
		l.until("images", time.Minute, func() error { // pods may go at the end of a pass
			if types := l.cluster().Status.ImageTypes; !slices.Equal(types, []v1beta2.ImageType{image}) {
				return fmt.Errorf("the images are %v, want %s", types, image)
			}
			return nil
		})
	}
}

// cordon cordons the node of a storage group without other roles. What else runs there goes as well, and costs a recovery
// if it has a role or is a coordinator.
func cordon(l *life) {
	l.Helper()
	l.cordoned = l.podOf(l.roleless()).Spec.NodeName
	busy := map[string]bool{}
	l.status(func(s *fdb.Status) {
		for _, p := range s.Cluster.Processes {
			if slices.ContainsFunc(p.Roles, func(r fdb.Role) bool { return r.Role != "storage" }) {
				busy[p.Locality[fdb.InstanceLocality]] = true
			}
		}
	})
	for _, p := range l.pods() {
		if p.Spec.NodeName == l.cordoned && busy[p.Labels["foundationdb.org/fdb-process-group-id"]] {
			l.more = 1
		}
	}
	l.setUnschedulable(true)
	l.until("replaced", 2*time.Minute, func() error {
		for _, p := range l.pods() {
			if p.Spec.NodeName == l.cordoned {
				return fmt.Errorf("%s is on %s", p.Name, l.cordoned)
			}
		}
		return nil
	})
}

func (l *life) uncordon() { l.setUnschedulable(false) }

func (l *life) setUnschedulable(cordoned bool) {
	l.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: l.cordoned}}
	l.must(l.admin.Patch(context.Background(), node, client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"unschedulable":%t}}`, cordoned))))
}
