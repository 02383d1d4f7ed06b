// Package faults injects faults into `pawl operator` on a real control plane, while
// it creates and switches clusters of real PostgreSQL pods: it is killed and frozen,
// its requests fail, its caches are old, and its objects are deleted and edited. The
// result must be the same as without faults.
//
// Real: etcd, API server, controller manager, scheduler, the operator's process,
// the processes of the pods (agents, PostgreSQL, cluster managers). Simulated: nodes
// (package kubelet). The faults come from a proxy between the operator and the API
// server (controlplane.Proxy), from signals to the operator, and from other clients.
// The operator has the rights of install.yaml.
package faults_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/test/await"
	"github.com/pawl-dev/pawl/test/controlplane"
	"github.com/pawl-dev/pawl/test/controlplane/kubelet"
)

// everyPoint runs all points instead of a sample: PAWL_TEST_POINTS=all. A number sets a
// larger sample of each flow's points.
var (
	everyPoint = os.Getenv("PAWL_TEST_POINTS") == "all"
	larger, _  = strconv.Atoi(os.Getenv("PAWL_TEST_POINTS")) // 0 for anything else
)

var suite = controlplane.NewSuite(options())

func options() controlplane.Options {
	images, err := controlplane.Images("")
	if err != nil {
		panic(err)
	}
	return controlplane.Options{
		CRDs: []string{"../../deploy/crds"}, Keep: os.Getenv("KEEP") != "",
		Kubelet: kubelet.Options{Mode: kubelet.Process, Nodes: 3, Images: images},
	}
}

func TestMain(m *testing.M) {
	flag.Parse()
	lanes := "3" // four, beside another package, starve each other on two cores
	if everyPoint || larger > 0 {
		lanes = "6"
	}
	if err := flag.Set("test.parallel", lanes); err != nil {
		panic(err)
	}
	suite.Main(m)
}

// fixture is a namespace with the cluster blue of one writer and one reader.
type fixture struct {
	t         *testing.T
	plane     *controlplane.Plane
	namespace string
	client    client.Client // bypasses all proxies
	operators []*operator
	writers   *writeProbes
	old       map[types.UID]bool // runs to ignore
}

const clusterName = "blue"

func newFixture(t *testing.T) *fixture {
	t.Helper()
	if _, err := os.Stat("/usr/lib/postgresql/15/bin/postgres"); err != nil {
		t.Skip("PostgreSQL 15 of Debian is not installed: apt-get install postgresql-15")
	}
	w := &fixture{t: t, plane: suite.Plane(t), old: map[types.UID]bool{}}
	w.namespace = w.plane.Namespace(t)
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	config := w.plane.Config()
	config.QPS = -1
	if w.client, err = client.New(config, client.Options{Scheme: s}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.close)
	return w
}

// close stops the operators and clients, and checks what was observed all the time.
func (w *fixture) close() {
	if w.writers != nil {
		w.writers.stop()
		for _, wrong := range w.writers.overlaps() {
			w.t.Error(wrong)
		}
	}
	for _, o := range w.operators {
		o.end()
		o.checkNothingForbidden()
	}
	if w.t.Failed() {
		w.logState()
	}
}

// create applies the cluster, and begins to observe its writers.
func (w *fixture) create() {
	w.t.Helper()
	readers := int32(1)
	c := &v1alpha1.SharedStorageCluster{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: clusterName}}
	c.Spec.Engine.Type, c.Spec.Engine.Version, c.Spec.Class.Name = "postgres", "15", "small"
	c.Spec.Readers, c.Spec.Durability = &readers, "strict"
	c.Spec.Storage.OnDelete = "Delete"
	if err := w.client.Create(w.t.Context(), c); err != nil {
		w.t.Fatal(err)
	}
	w.writers = w.watchWriters()
}

func (w *fixture) cluster(ctx context.Context) (*v1alpha1.SharedStorageCluster, error) {
	c := &v1alpha1.SharedStorageCluster{}
	return c, w.client.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: clusterName}, c)
}

// patch edits the cluster as a person does.
func (w *fixture) patch(change any) {
	w.t.Helper()
	body, err := json.Marshal(change)
	if err == nil {
		c := &v1alpha1.SharedStorageCluster{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: clusterName}}
		err = w.client.Patch(w.t.Context(), c, client.RawPatch("application/merge-patch+json", body))
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

type tree map[string]any

// annotate sets an annotation; nil removes it.
func (w *fixture) annotate(key string, value any) {
	w.t.Helper()
	w.patch(tree{"metadata": tree{"annotations": tree{key: value}}})
}

// switchWriter requests the other instance as the writer, and returns its id.
func (w *fixture) switchWriter() string {
	w.t.Helper()
	c, err := w.cluster(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	for id := range c.Status.Instances {
		if id != c.Status.Writer {
			w.annotate("pawl.dev/switch-writer", id)
			return id
		}
	}
	w.t.Fatalf("no instance can become the writer: %+v", c.Status)
	return ""
}

func (w *fixture) await(limit time.Duration, what string, holds func(ctx context.Context) error) {
	w.t.Helper()
	await.Until(w.t, limit, what, holds)
}

func (w *fixture) awaitEvery(interval, limit time.Duration, what string, holds func(ctx context.Context) error) {
	w.t.Helper()
	await.Every(w.t, interval, limit, what, holds)
}

// patience is how long a cluster may take to settle on a busy machine.
const patience = 6 * time.Minute

// awaitAtRest waits until the cluster is Running, healthy and of its newest spec, with
// nothing left to do.
func (w *fixture) awaitAtRest(also func(*v1alpha1.SharedStorageCluster) error) *v1alpha1.SharedStorageCluster {
	w.t.Helper()
	var c *v1alpha1.SharedStorageCluster
	w.await(patience, "blue is at rest", func(ctx context.Context) (err error) {
		if c, err = w.cluster(ctx); err != nil {
			return err
		}
		if err := atRest(c); err != nil || also == nil {
			return err
		}
		return also(c)
	})
	return c
}

func atRest(c *v1alpha1.SharedStorageCluster) error {
	s := c.Status
	if s.State != "Running" || s.ObservedGeneration != c.Generation || s.Readers != *c.Spec.Readers || s.Manager.Health != "Healthy" {
		run, _ := json.Marshal(s.Run)
		return fmt.Errorf("%s %s %q, generation %d of %d, %d readers, manager %s, run %s", s.State, s.Reason, s.Message, s.ObservedGeneration, c.Generation, s.Readers, s.Manager.Health, run)
	}
	for _, condition := range []string{"Ready", "Available", "HighAvailability", "StorageReady"} {
		if !slices.ContainsFunc(s.Conditions, func(c metav1.Condition) bool { return c.Type == condition && c.Status == metav1.ConditionTrue }) {
			return fmt.Errorf("%s is not True: %+v", condition, s.Conditions)
		}
	}
	for key := range c.Annotations {
		if key == "pawl.dev/switch-writer" || key == "pawl.dev/restart" {
			return fmt.Errorf("annotation %s is not taken up", key)
		}
	}
	for _, r := range s.Requests {
		if r.State == "Pending" || r.State == "Running" {
			return fmt.Errorf("request %s %s is %s", r.Kind, r.Args, r.State)
		}
	}
	for id, i := range s.Instances {
		if i.Health != "Healthy" || i.Role == "tempro" {
			return fmt.Errorf("instance %s (%s) is %s: %s", id, i.Role, i.Health, i.Message)
		}
	}
	return nil
}

// writerIs returns a check that an instance is the writer.
func writerIs(id string) func(*v1alpha1.SharedStorageCluster) error {
	return func(c *v1alpha1.SharedStorageCluster) error {
		if c.Status.Writer != id {
			return fmt.Errorf("the writer is %s, not %s", c.Status.Writer, id)
		}
		return nil
	}
}
