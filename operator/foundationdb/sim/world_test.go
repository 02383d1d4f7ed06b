package sim_test

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl/fdb"
	fdbsim "github.com/pawl-dev/pawl/fdb/sim"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb/sim"
)

// TestSeed: a seed repeats a run, another one does not.
func TestSeed(t *testing.T) {
	run := func(seed uint64) string {
		f := newFixture(t, sim.Options{Seed: seed}, v1beta2.ImageTypeUnified)
		f.create(5, 3, 4)
		f.LoseNode(f.get("sample-storage-4").Spec.NodeName)
		f.Advance(10 * time.Minute)
		return strings.Join(f.Transcript(), "\n")
	}
	first := run(7)
	for range 5 {
		if diff := cmp.Diff(first, run(7)); diff != "" {
			t.Fatalf("one seed, two runs:\n%s", diff)
		}
	}
	if first == run(8) {
		t.Error("two seeds, one run")
	}
}

// TestInstances: what an instance does is judged as its own.
func TestInstances(t *testing.T) {
	f := newFixture(t, sim.Options{Seed: 1, Database: fdbsim.Options{Rules: fdbsim.Rules{Locks: true}}}, v1beta2.ImageTypeUnified)
	f.saveConfigMap()
	f.add(fdb.ClassStorage, 1)
	f.cluster.Status.ConnectionString = "sample:first@10.1.0.2:4501"
	f.Advance(10 * time.Second)
	f.saveConfigMap()
	f.wake()
	f.Advance(10 * time.Second)
	configure := fdb.Configure(fdb.Configuration{RedundancyMode: "single", StorageEngine: "ssd-2"}, true)
	a := f.As("a").Database.Run(t.Context(), f.at(), configure)
	if a.Outcome != fdb.Ok {
		t.Fatal(a.Result)
	}
	if got := f.Cluster().Violations(); len(got) > 0 { // nobody can hold the lock of a database that is not there yet
		t.Fatal(got)
	}
	f.Advance(10 * time.Second)
	f.As("a").Database.Run(t.Context(), f.at(), fdb.Exclude([]string{"locality_instance_id:storage-7"}, true))
	violations := f.Cluster().Violations()
	if len(violations) == 0 || violations[0].Invariant != 6 || !strings.Contains(violations[0].Text, "a acts without the lock") {
		t.Errorf("an act without a lock is judged %v", violations)
	}
	f.As("").Database.Run(t.Context(), f.at(), fdb.Exclude([]string{"locality_instance_id:storage-1"}, true))
	if got := f.Cluster().Violations(); len(got) != len(violations) {
		t.Errorf("what a person does is judged %v", got[len(violations):])
	}
}

// TestDeployment: backup agents run in the pods of a deployment, and the database knows how many.
func TestDeployment(t *testing.T) {
	f := unified(t)
	labels := map[string]string{"foundationdb.org/backup-for": "b"}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "b-backup-agents", OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "apps.foundationdb.org/v1beta2", Kind: "FoundationDBCluster", Name: f.cluster.Name, UID: f.cluster.UID,
		}}},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(3)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				Containers: []corev1.Container{{
					Name: "foundationdb", Image: "foundationdb/foundationdb:7.3.69", Command: []string{"backup_agent"}, Args: []string{"--log", "--logdir", "/var/log/fdb-trace-logs"},
				}},
			}},
		},
	}
	agents := func() int {
		f.t.Helper()
		var pods corev1.PodList
		f.must(f.Objects().List(t.Context(), &pods, namespace, labels))
		n := 0
		for _, p := range pods.Items {
			if p.DeletionTimestamp == nil && ready(&p) {
				n++
			}
		}
		if f.Agents() != n {
			t.Errorf("%d pods are ready, and %d agents run", n, f.Agents())
		}
		return n
	}
	f.must(f.Objects().Create(t.Context(), d))
	f.Advance(20 * time.Second)
	if n := agents(); n != 3 {
		t.Errorf("of 3 agents %d run", n)
	}
	f.patch(d, map[string]any{"spec": map[string]any{"replicas": 1}})
	f.Advance(20 * time.Second)
	if n := agents(); n != 1 {
		t.Errorf("of 1 agent %d run", n)
	}
	f.patch(d, map[string]any{"spec": map[string]any{"replicas": 2, "template": map[string]any{"metadata": map[string]any{"annotations": map[string]any{"x": "y"}}}}})
	for range 60 {
		f.Advance(time.Second)
		if agents() == 0 {
			t.Fatal("a new template ends all agents at once")
		}
	}
	if n := agents(); n != 2 {
		t.Errorf("of 2 agents %d run", n)
	}
	if d = lookup(f, d, d.Name); d.Status.ReadyReplicas != 2 || d.Status.ObservedGeneration != d.Generation || d.Generation != 3 {
		t.Errorf("the deployment of generation %d is %+v", d.Generation, d.Status)
	}
	f.DeletePod(namespace, func() string {
		var pods corev1.PodList
		f.must(f.Objects().List(t.Context(), &pods, namespace, labels))
		return pods.Items[0].Name
	}())
	f.Advance(20 * time.Second)
	if n := agents(); n != 2 {
		t.Errorf("after a deleted pod %d agents run", n)
	}
	f.must(f.Objects().Delete(t.Context(), d))
	f.Advance(20 * time.Second)
	if n := agents(); n != 0 {
		t.Errorf("without a deployment %d agents run", n)
	}
}
