package foundationdb_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb/kube"
)

// controllers is a fixture with all three controllers, whose looks are far away.
type controllers struct {
	*fixture
	clusters, backups, restores passes
}

func newControllers(t *testing.T, options kube.ObjectsOptions) *controllers {
	t.Helper()
	c := &controllers{fixture: newFixture(t, options)}
	c.must(kube.Controllers{Manager: c.manager, Objects: c.objects, Clusters: &c.clusters, Backups: &c.backups, Restores: &c.restores, Look: 100 * time.Hour}.Setup())
	return c
}

func (c *controllers) ref(kind, name string) control.Ref {
	return control.Ref{Kind: kind, Namespace: c.namespace, Name: name}
}

func (c *controllers) patch(object client.Object, patch string) {
	c.Helper()
	c.must(c.admin.Patch(c.Context(), object, client.RawPatch("application/merge-patch+json", []byte(patch))))
}

// settle waits until a pass was made, and the ones of events that were on their way.
func (c *controllers) settle(p *passes, ref control.Ref) int {
	c.Helper()
	c.until("a pass over "+ref.String(), p.atLeast(ref, 1))
	last, since := p.of(ref), time.Now()
	c.until("rest", func() error {
		if now := p.of(ref); now != last {
			last, since = now, time.Now()
		}
		if time.Since(since) < 2*time.Second {
			return fmt.Errorf("%d passes", last)
		}
		return nil
	})
	return last
}

// Changes of the object wake it at once, those of its children once a second, and noise not at all.
func TestWhatWakesACluster(t *testing.T) {
	c := newControllers(t, kube.ObjectsOptions{})
	blue := c.cluster("blue", nil)
	p := pod(c.child(blue, "FoundationDBCluster", "blue-storage-1"))
	c.must(c.admin.Create(t.Context(), p))
	c.start()
	ref := c.ref("FoundationDBCluster", "blue")
	c.settle(&c.clusters, ref)

	for what, wake := range map[string]func(){
		"its spec":           func() { c.patch(blue, `{"spec":{"skip":true}}`) },
		"an annotation":      func() { c.patch(blue, `{"metadata":{"annotations":{"pawl.dev/hold":"*"}}}`) },
		"a label":            func() { c.patch(blue, `{"metadata":{"labels":{"a":"b"}}}`) },
		"a pod's annotation": func() { c.patch(p, `{"metadata":{"annotations":{"foundationdb.org/launcher-environment":"{}"}}}`) },
		"a claim":            func() { c.must(c.admin.Create(t.Context(), claim(c.child(blue, "FoundationDBCluster", "c")))) },
		"a service":          func() { c.must(c.admin.Create(t.Context(), service(c.child(blue, "FoundationDBCluster", "s")))) },
	} {
		before := c.clusters.of(ref)
		wake()
		c.until("the pass after "+what, c.clusters.atLeast(ref, before+1))
		c.settle(&c.clusters, ref)
	}

	before := c.clusters.of(ref)
	c.must(c.admin.Create(t.Context(), pod(c.meta("foreign"))))
	c.patch(p, `{"metadata":{"annotations":{"cni.example.com/address":"10.0.0.1"}}}`)
	c.patch(blue, `{"metadata":{"annotations":{"example.com/note":"x"}}}`)
	blue.Status.RunningVersion = "7.3.69"
	c.must(c.admin.Status().Update(t.Context(), blue))
	began := time.Now()
	for n := range 20 {
		c.patch(p, fmt.Sprintf(`{"metadata":{"labels":{"n":"%d"}}}`, n))
	}
	bursts := int(time.Since(began)/time.Second) + 1 // a busy machine makes a long burst
	c.until("the pass after the burst", c.clusters.atLeast(ref, before+1))
	if took := time.Since(began); took < time.Second {
		t.Errorf("the pass came after %s", took)
	}
	if got := c.settle(&c.clusters, ref); got > before+bursts {
		t.Errorf("%d passes for noise and a burst of 20 changes, want %d", got-before, bursts)
	}
	if c.clusters.of(c.ref("FoundationDBCluster", "")) > 0 {
		t.Error("a pod without an owner has woken something")
	}

	before = c.clusters.of(ref)
	c.must(c.admin.Delete(t.Context(), p, client.GracePeriodSeconds(0)))
	c.until("the pass after a pod was deleted", c.clusters.atLeast(ref, before+1))
	c.settle(&c.clusters, ref)
	before = c.clusters.of(ref)
	c.must(c.admin.Delete(t.Context(), blue))
	c.until("the pass after the cluster was deleted", c.clusters.atLeast(ref, before+1))
}

// Backups and restores are woken by what they need of their cluster, and a backup by its agents.
func TestWhatWakesBackupsAndRestores(t *testing.T) {
	c := newControllers(t, kube.ObjectsOptions{})
	ctx := t.Context()
	blue, red := c.cluster("blue", nil), c.cluster("red", nil)
	backup := &v1beta2.FoundationDBBackup{ObjectMeta: c.meta("b"), Spec: v1beta2.FoundationDBBackupSpec{Version: "7.3.69", ClusterName: "blue"}}
	restore := &v1beta2.FoundationDBRestore{ObjectMeta: c.meta("r"), Spec: v1beta2.FoundationDBRestoreSpec{DestinationClusterName: "blue"}}
	c.must(c.admin.Create(ctx, backup))
	c.must(c.admin.Create(ctx, restore))
	c.start()
	b, r := c.ref("FoundationDBBackup", "b"), c.ref("FoundationDBRestore", "r")
	backups, restores := c.settle(&c.backups, b), c.settle(&c.restores, r)

	red.Status.ConnectionString = "red:1@10.0.0.1:4501"
	c.must(c.admin.Status().Update(ctx, red))
	blue.Status.ProcessGroups = []v1beta2.ProcessGroupStatus{{ProcessGroupID: "storage-1"}}
	c.must(c.admin.Status().Update(ctx, blue))
	if b, r := c.settle(&c.backups, b), c.settle(&c.restores, r); b != backups || r != restores {
		t.Errorf("%d and %d passes for another cluster and a group", b-backups, r-restores)
	}
	blue.Status.ConnectionString = "blue:1@10.0.0.1:4501"
	c.must(c.admin.Status().Update(ctx, blue))
	c.until("a pass over the backup", c.backups.atLeast(b, backups+1))
	c.until("a pass over the restore", c.restores.atLeast(r, restores+1))

	backups = c.settle(&c.backups, b)
	agents := deployment(c.child(backup, "FoundationDBBackup", "b-backup-agents"))
	c.must(c.admin.Create(ctx, agents))
	c.until("a pass after agents were made", c.backups.atLeast(b, backups+1))
	if got := c.settle(&c.restores, r); got != restores+1 {
		t.Errorf("%d passes over the restore for the agents of a backup", got-restores-1)
	}
}

// Nodes wake the clusters that look at taints, once somebody has read nodes.
func TestTaintsWakeClusters(t *testing.T) {
	c := newControllers(t, kube.ObjectsOptions{})
	c.cluster("careless", nil)
	c.cluster("careful", func(c *v1beta2.FoundationDBCluster) {
		c.Spec.AutomationOptions.Replacements.TaintReplacementOptions = []v1beta2.TaintReplacementOption{{Key: "*", DurationInSeconds: 60}}
	})
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-" + c.namespace}}
	c.must(c.admin.Create(t.Context(), node))
	t.Cleanup(func() { c.must(c.admin.Delete(context.Background(), node)) })
	c.start()
	careful, careless := c.ref("FoundationDBCluster", "careful"), c.ref("FoundationDBCluster", "careless")
	c.settle(&c.clusters, careless)
	c.must(c.objects.List(t.Context(), &corev1.NodeList{}, "", nil))
	c.settle(&c.clusters, careful)
	c.until("the pass after a taint", func() error { // the watch begins a moment later
		before := c.clusters.of(careful)
		c.patch(node, fmt.Sprintf(`{"metadata":{"labels":{"n":"%d"}}}`, before))
		c.settle(&c.clusters, careful)
		return c.clusters.atLeast(careful, before+1)()
	})
	if n := c.clusters.of(careless); n != 1 {
		t.Errorf("%d passes over a cluster that does not look at taints", n)
	}
}

// Clusters of others have no pass.
func TestControllersOfASelector(t *testing.T) {
	c := newControllers(t, kube.ObjectsOptions{Selector: labels.SelectorFromSet(labels.Set{"team": "a"})})
	theirs := c.cluster("theirs", nil)
	c.cluster("ours", func(c *v1beta2.FoundationDBCluster) { c.Labels = map[string]string{"team": "a"} })
	c.start()
	c.settle(&c.clusters, c.ref("FoundationDBCluster", "ours"))
	if n := c.clusters.of(c.ref("FoundationDBCluster", "theirs")); n > 0 {
		t.Errorf("%d passes over a cluster of others", n)
	}
	c.patch(theirs, `{"metadata":{"labels":{"team":"a"}}}`)
	c.until("the pass over a cluster that became ours", c.clusters.atLeast(c.ref("FoundationDBCluster", "theirs"), 1))
}
