package foundationdb_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/pawl-dev/pawl/fdb"
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
	l.judge(0)
	l.change(func(s *v1beta2.FoundationDBClusterSpec) { s.DatabaseConfiguration.Storage = 10 })
	l.reconciled("one more storage", 2*time.Minute)
	has("storage", 10)(l)
	l.judge(0)
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
