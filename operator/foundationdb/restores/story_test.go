package restores_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb/backups"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters"
	"github.com/pawl-dev/pawl/operator/foundationdb/port"
	"github.com/pawl-dev/pawl/operator/foundationdb/restores"
	"github.com/pawl-dev/pawl/operator/foundationdb/sim"
	"github.com/pawl-dev/pawl/outcome"
)

// story is a world in which all three operators work.
type story struct {
	t testing.TB
	*sim.World
	reconcile map[string]func(context.Context, control.Ref) outcome.Outcome
	objects   []port.Object
}

func newStory(t testing.TB) *story {
	s := &story{t: t, World: sim.New(sim.Options{Seed: 3})}
	o, d := s.Objects(), s.Database()
	s.reconcile = map[string]func(context.Context, control.Ref) outcome.Outcome{
		"FoundationDBCluster": clusters.New(o, d, s.Sidecars(), clusters.Options{Now: s.Now, Parallel: 1}).Reconcile,
		"FoundationDBBackup":  backups.New(o, d, backups.Options{Now: s.Now}).Reconcile,
		"FoundationDBRestore": restores.New(o, d, restores.Options{Now: s.Now}).Reconcile,
	}
	return s
}

func (s *story) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// apply makes an object of examples/foundationdb, byte for byte but for what change does.
func apply[T port.Object](s *story, file string, o T, change func(T)) T {
	s.t.Helper()
	text, err := os.ReadFile("../../../examples/foundationdb/" + file)
	s.must(err)
	s.must(yaml.UnmarshalStrict(text, o))
	o.SetNamespace("default")
	if change != nil {
		change(o)
	}
	s.must(s.As("").Objects.Create(context.Background(), o))
	s.objects = append(s.objects, o)
	return o
}

// until has the operators make passes until an object has a condition.
func (s *story) until(about port.Object, conditions func() []metav1.Condition, kind string) {
	s.t.Helper()
	for range 400 {
		for _, o := range s.objects {
			ref := control.Ref{Kind: o.GetObjectKind().GroupVersionKind().Kind, Namespace: o.GetNamespace(), Name: o.GetName()}
			if out := s.reconcile[ref.Kind](context.Background(), ref); out.IsFail() {
				s.t.Fatalf("%s: %v", ref, out.Err())
			}
		}
		s.Advance(5 * time.Second)
		kindAndVersion := about.GetObjectKind().GroupVersionKind()
		found, err := s.As("").Objects.Get(context.Background(), about)
		about.GetObjectKind().SetGroupVersionKind(kindAndVersion)
		if s.must(err); found && meta.IsStatusConditionTrue(conditions(), kind) {
			return
		}
	}
	s.t.Fatalf("%s %s: %+v", about.GetName(), kind, conditions())
}

// restorable is the last version of the backup that can be restored.
func (s *story) restorable() int64 {
	s.t.Helper()
	call := fdb.ReadBackupStatus("default")
	call.ClusterFile = "/tmp/fdb.cluster"
	v, err := fdb.ParseVersion("7.3.69")
	s.must(err)
	status, err := fdb.ParseBackupStatus([]byte(s.Cluster().Call(call, v, s.Cluster().Connection()).Stdout))
	s.must(err)
	return int64(status.RestorableVersion) //nolint:gosec // far below the limit
}

// TestExamples: the example cluster is made, its backup runs, and what was wiped is restored twice.
func TestExamples(t *testing.T) {
	s := newStory(t)
	c := apply(s, "cluster.yaml", &v1beta2.FoundationDBCluster{}, nil)
	s.until(c, func() []metav1.Condition { return c.Status.Conditions }, "Ready")
	write := func(w fdb.Write) {
		t.Helper()
		tx := s.Cluster().Transaction()
		tx.Write(w)
		s.must(tx.Commit())
	}
	for n := range 30 {
		write(fdb.Set(fmt.Sprintf("key/%02d", n), []byte("value")))
	}
	b := apply(s, "backup.yaml", &v1beta2.FoundationDBBackup{}, nil)
	s.until(b, func() []metav1.Condition { return b.Status.Conditions }, "Ready")
	for !b.Status.BackupDetails.Restorable {
		s.until(b, func() []metav1.Condition { return b.Status.Conditions }, "Ready")
	}
	s.Advance(time.Minute) // what was written last is in the backup

	version := s.restorable() // later states of the backup have no keys any more
	for _, name := range []string{"first", "second"} {
		write(fdb.Clear(fdb.Range{Begin: "a", End: "z"}))
		r := apply(s, "restore.yaml", &v1beta2.FoundationDBRestore{}, func(r *v1beta2.FoundationDBRestore) {
			r.Name, r.Spec.BackupVersion = name, &version
		})
		s.until(r, func() []metav1.Condition { return r.Status.Conditions }, "Ready")
		tx := s.Cluster().Transaction()
		got, err := tx.GetRange(fdb.Range{Begin: "a", End: "z"}, 0)
		s.must(err)
		if len(got) != 30 {
			t.Errorf("%s restore: %d keys", name, len(got))
		}
	}
	for _, v := range s.Cluster().Violations() {
		t.Error(v)
	}
}
