package foundationdb_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/fdb/sim"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/test/foundationdb"
)

// The published cluster over three zones: each launcher reads its data hall from the labels of its node.
func TestThreeDataHall(t *testing.T) {
	whole(t)
	files := []string{sample(t, "three_data_hall/cluster.yaml"), sample(t, "three_data_hall/unified_image_role.yaml")}
	l := newLife(t, foundationdb.Options{Nodes: 9, Node: zones(3)})
	l.name = "test-cluster"
	l.operate()
	l.kustomize(files...)
	l.reconciled("created", 3*time.Minute)
	l.write("7.3.69")
	l.spread(fdb.DataHallLocality, 3)
	l.judge(1, 0) // the first coordinators are not spread over the halls
	l.change(func(s *v1beta2.FoundationDBClusterSpec) { s.DatabaseConfiguration.Storage = 10 })
	l.reconciled("one more storage", 2*time.Minute)
	has("storage", 10)(l)
	l.judge(1, 0)
	l.remove()
}

// whole skips what make test does not take.
func whole(t *testing.T) {
	t.Helper()
	if os.Getenv("PAWL_TEST_FDB") == "" {
		t.Skip("make test-fdb has it")
	}
}

// zones distributes nodes over zones.
func zones(n int) func(int, *corev1.Node) {
	return func(node int, o *corev1.Node) {
		o.Labels[corev1.LabelTopologyZone] = fmt.Sprintf("zone-%d", (node-1)%n+1)
	}
}

// kustomize applies manifests as they are, in the namespace of the test also where they refer to their own accounts.
func (l *life) kustomize(files ...string) {
	l.Helper()
	folder := l.TempDir()
	text := "namespace: " + l.namespace + "\nresources:\n"
	for _, file := range files {
		content, err := os.ReadFile(file)
		l.must(err)
		l.must(os.WriteFile(filepath.Join(folder, filepath.Base(file)), content, 0o644))
		text += "- " + filepath.Base(file) + "\n"
	}
	l.must(os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte(text), 0o644))
	if out, err := kubectl(l.T, l.namespace, "", "apply", "-k", folder); err != nil {
		l.Fatalf("kubectl apply -k: %v\n%s", err, out)
	}
}

// spread checks that servers, and coordinators, are in so many values of a locality.
func (l *life) spread(field string, want int) {
	l.Helper()
	l.status(func(s *fdb.Status) {
		servers, coordinators := map[string]int{}, map[string]int{}
		for _, p := range s.Cluster.Processes {
			servers[p.Locality[field]]++
			for _, r := range p.Roles {
				if r.Role == "coordinator" {
					coordinators[p.Locality[field]]++
				}
			}
		}
		if len(servers) != want || len(coordinators) != want || servers[""] > 0 {
			l.Errorf("by %s the servers are %v and the coordinators %v, want %d", field, servers, coordinators, want)
		}
	})
}

// One database over three Kubernetes clusters, which are namespaces here: three objects, each a fault domain, which share
// locks. One operator acts for all of them, so the world cannot judge who has the lock.
func TestKubernetesClusters(t *testing.T) {
	whole(t)
	first := newLife(t, foundationdb.Options{Nodes: 6})
	lives := []*life{first}
	for range 2 {
		l := *first
		l.namespace = l.plane.Namespace(t)
		lives = append(lives, &l)
	}
	first.name = "events"
	first.operate("--namespaces", lives[1].namespace, "--namespaces", lives[2].namespace)
	for n, l := range lives {
		l.name, l.operator = first.name, first.operator
		l.apply("../../examples/foundationdb/access.yaml")
		c := l.example("kubernetes-clusters.yaml", n)
		c.Namespace = l.namespace
		c.Spec.MinimumUptimeSecondsForBounce = 6
		c.Spec.AutomationOptions.WaitBetweenRemovalsSeconds = new(1)
		if n > 0 {
			c.Spec.SeedConnectionString = first.cluster().Status.ConnectionString
		}
		l.must(l.admin.Create(t.Context(), c))
		if n == 0 {
			first.until("made", 2*time.Minute, func() (err error) { // it is available when the others have come
				if first.cluster().Status.ConnectionString == "" {
					return errors.New("there is no connection string")
				}
				first.database(func(d *sim.Cluster) {
					if !strings.Contains(strings.Join(d.Transcript(), "\n"), "the database is created") {
						err = errors.New("there is no database")
					}
				})
				return err
			})
		}
	}
	for _, l := range lives {
		l.reconciled("created", 3*time.Minute)
	}
	first.spread(fdb.ZoneLocality, 3)
	first.write("7.3.69")
	first.judge(first.caused(), 0)
	for _, l := range lives {
		l.change(func(s *v1beta2.FoundationDBClusterSpec) { s.DatabaseConfiguration.Storage = 6 })
	}
	for _, l := range lives {
		l.reconciled("three more storage", 2*time.Minute)
		has("storage", 2)(l)
	}
	first.judge(first.caused(), 0)
	for _, l := range lives {
		l.remove()
	}
}

// example reads one object of an example.
func (l *life) example(file string, n int) *v1beta2.FoundationDBCluster {
	l.Helper()
	text, err := os.ReadFile(filepath.Join("../../examples/foundationdb", file))
	l.must(err)
	c := &v1beta2.FoundationDBCluster{}
	l.must(yaml.UnmarshalStrict([]byte(strings.Split(string(text), "\n---\n")[n]), c))
	return c
}
