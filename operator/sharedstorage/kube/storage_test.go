package kube

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// fixture is an API server with a node, and a Placement.
type fixture struct {
	*Placement
	t *testing.T
}

func newFixture(t *testing.T, objects ...client.Object) *fixture {
	t.Helper()
	scheme, err := Scheme()
	if err != nil {
		t.Fatal(err)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}
	var made atomic.Int64
	uids := interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, obj client.Object, o ...client.CreateOption) error {
		if obj.GetUID() == "" {
			obj.SetUID(types.UID(fmt.Sprintf("uid-%d", made.Add(1))))
		}
		return c.Create(ctx, obj, o...)
	}}
	c := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(uids).WithStatusSubresource(&corev1.Pod{}, &corev1.PersistentVolumeClaim{}).WithObjects(append(objects, node)...).Build()
	s, err := NewPlacement(Options{Client: c, Image: "pawl", Images: map[string]string{"15.17": "postgres:15.17", "15.18": "postgres:15.18", "16.2": "postgres:16.2"}})
	if err != nil {
		t.Fatal(err)
	}
	return &fixture{s, t}
}

func (g *fixture) must(err error) {
	g.t.Helper()
	if err != nil {
		g.t.Fatal(err)
	}
}

func (g *fixture) claimOf(name string) *corev1.PersistentVolumeClaim {
	g.t.Helper()
	claim := &corev1.PersistentVolumeClaim{}
	g.must(g.o.Client.Get(g.t.Context(), client.ObjectKey{Namespace: blue.Namespace, Name: name}, claim))
	return claim
}

// bind binds a claim to a volume.
func (g *fixture) bind(name, size string) {
	g.t.Helper()
	claim := g.claimOf(name)
	claim.Status.Phase, claim.Status.Capacity = corev1.ClaimBound, corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
	g.must(g.o.Client.Status().Update(g.t.Context(), claim))
}

// start makes the pod of an instance run.
func (g *fixture) start(c port.Ref, name string, phase corev1.PodPhase) {
	g.t.Helper()
	pod := &corev1.Pod{}
	g.must(g.o.Client.Get(g.t.Context(), client.ObjectKey{Namespace: c.Namespace, Name: name}, pod))
	pod.Spec.NodeName = "node-1"
	g.must(g.o.Client.Update(g.t.Context(), pod))
	pod.Status = corev1.PodStatus{Phase: phase, PodIP: "10.0.0.7", Message: "so it ended", ContainerStatuses: []corev1.ContainerStatus{{
		Name: engineContainer, Started: ptr(true), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(time.Unix(1, 0))}},
	}}}
	g.must(g.o.Client.Status().Update(g.t.Context(), pod))
}

func (g *fixture) ensure(want port.Volume) port.Volume {
	g.t.Helper()
	v, err := g.Storage().Ensure(g.t.Context(), blue, want, "key")
	g.must(err)
	return v
}

func (g *fixture) instance(name string, kind port.Type) port.Instance {
	g.t.Helper()
	i, err := g.Instances().Ensure(g.t.Context(), blue, port.Instance{Name: name, ID: "1", Type: kind, Class: port.Class{Name: "small"}, Version: "15"})
	g.must(err)
	return i
}

func refused(t *testing.T, what string, err error, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

const gi = 1 << 30

// A volume has grown when all its claims have, and never shrinks.
func TestAVolumeGrows(t *testing.T) {
	g := newFixture(t)
	if v := g.ensure(port.Volume{Size: 10 * gi}); v.State != port.VolumeReady || v.Size != 10*gi {
		t.Fatalf("%+v", v)
	}
	for _, name := range []string{"blue-1-a", "blue-2-b"} {
		g.instance(name, port.Reader)
		g.bind(name, "10Gi")
	}
	v := g.ensure(port.Volume{Size: 20 * gi})
	if v.State != port.VolumeGrowing || v.Size != 10*gi || v.Message == "" {
		t.Errorf("before its claims have grown it is %+v", v)
	}
	for _, name := range []string{"blue-1-a", "blue-2-b"} {
		if asked := g.claimOf(name).Spec.Resources.Requests[corev1.ResourceStorage]; asked.Value() != 20*gi {
			t.Errorf("claim %s asks for %s", name, asked.String())
		}
	}
	g.bind("blue-1-a", "20Gi")
	if v, err := g.Storage().Observe(t.Context(), blue); err != nil || v.State != port.VolumeGrowing {
		t.Errorf("with one claim grown it is %+v, %v", v, err)
	}
	g.bind("blue-2-b", "20Gi")
	if v, err := g.Storage().Observe(t.Context(), blue); err != nil || v.State != port.VolumeReady || v.Size != 20*gi {
		t.Errorf("grown it is %+v, %v", v, err)
	}
	_, err := g.Storage().Ensure(t.Context(), blue, port.Volume{Size: 5 * gi}, "key")
	refused(t, "less than there is", err, port.StorageShrink)
	g.instance("blue-3-c", port.Reader) // created after the growth
	if asked := g.claimOf("blue-3-c").Spec.Resources.Requests[corev1.ResourceStorage]; asked.Value() != 20*gi {
		t.Errorf("a new claim asks for %s", asked.String())
	}
}

// An existing claim, or a claim for an existing volume, becomes that of the first writer. A claim
// of another cluster, or a missing one, is rejected.
func TestAClaimIsAdopted(t *testing.T) {
	claim := func(name string, labels map[string]string) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: blue.Namespace, Name: name, Labels: labels}}
	}
	t.Run("a claim", func(t *testing.T) {
		g := newFixture(t, claim("orders-data", map[string]string{"team": "shop"}))
		for range 2 { // the call may be repeated
			g.ensure(port.Volume{Claim: "orders-data", Size: 10 * gi})
		}
		got := g.claimOf("orders-data")
		if got.Labels[ClusterLabel] != "blue" || got.Labels[ComponentLabel] != volumeComponent || got.Labels["team"] != "shop" || len(got.OwnerReferences) > 0 {
			t.Errorf("the claim is %+v", got.ObjectMeta)
		}
		g.instance("blue-2-b", port.Reader)
		g.claimOf("blue-2-b") // a reader has a claim of its own
		g.instance("blue-1-a", port.Writer)
		if got := g.claimOf("orders-data"); got.Labels[InstanceLabel] != "blue-1-a" || got.Labels[ComponentLabel] != instanceComponent {
			t.Errorf("the writer has it as %v", got.Labels)
		}
		err := g.o.Client.Get(t.Context(), client.ObjectKey{Namespace: blue.Namespace, Name: "blue-1-a"}, &corev1.PersistentVolumeClaim{})
		if !apierrors.IsNotFound(err) {
			t.Errorf("the writer has another claim too: %v", err)
		}
		g.ensure(port.Volume{Claim: "orders-data", Size: 10 * gi}) // a repeated step reverts nothing
		if got := g.claimOf("orders-data"); got.Labels[InstanceLabel] != "blue-1-a" {
			t.Errorf("the writer lost it: %v", got.Labels)
		}
	})
	t.Run("a volume", func(t *testing.T) {
		g := newFixture(t, &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-7"}, Spec: corev1.PersistentVolumeSpec{StorageClassName: "fast"}})
		g.ensure(port.Volume{ID: "pv-7", Size: 10 * gi})
		if got := g.claimOf("blue-data"); got.Spec.VolumeName != "pv-7" || *got.Spec.StorageClassName != "fast" || got.Labels[ComponentLabel] != volumeComponent {
			t.Errorf("the claim is %+v", got)
		}
	})
	for what, want := range map[string]port.Volume{"another cluster's": {Claim: "theirs"}, "a claim that is not there": {Claim: "nobody"}, "a volume that is not there": {ID: "pv-8"}} {
		g := newFixture(t, claim("theirs", map[string]string{ClusterLabel: "green"}))
		_, err := g.Storage().Ensure(t.Context(), blue, want, "key")
		refused(t, what, err, port.StorageFailed)
		if v, err := g.Storage().Observe(t.Context(), blue); err != nil || v.State != "" {
			t.Errorf("%s left a volume: %+v %v", what, v, err)
		}
	}
}

// A pod copies the data of the source's writer into a clone, once, and the first writer uses them.
func TestAVolumeIsCloned(t *testing.T) {
	green := port.Ref{Namespace: blue.Namespace, Name: "green", UID: "2"}
	copying := func(t *testing.T) *fixture {
		g := newFixture(t)
		g.ensure(port.Volume{Size: 10 * gi})
		g.instance("blue-1-a", port.Writer)
		_, err := g.Storage().Clone(t.Context(), blue, green, "key")
		refused(t, "a source without a writer", err, port.CloneSourceMissing)
		g.must(g.Storage().Grant(t.Context(), blue, "blue-1-a", 1))
		_, err = g.Storage().Clone(t.Context(), blue, green, "key")
		refused(t, "a writer that is not up", err, port.CloneSourceMissing)
		g.start(blue, "blue-1-a", corev1.PodRunning)
		for range 2 {
			if v, err := g.Storage().Clone(t.Context(), blue, green, "key"); err != nil || v.State != port.VolumeCloning || v.Size != 10*gi {
				t.Fatalf("it is %+v, %v", v, err)
			}
		}
		pod := &corev1.Pod{}
		g.must(g.o.Client.Get(t.Context(), client.ObjectKey{Namespace: green.Namespace, Name: copyName(green)}, pod))
		if c := pod.Spec.Containers[0]; c.Image != "postgres:15.18" || !strings.Contains(strings.Join(c.Command, " "), "pg_basebackup") {
			t.Errorf("the copy is made by %s %v", c.Image, c.Command)
		}
		return g
	}
	t.Run("to its end", func(t *testing.T) {
		g := copying(t)
		g.start(green, copyName(green), corev1.PodSucceeded)
		for range 2 {
			if v, err := g.Storage().Clone(t.Context(), blue, green, "key"); err != nil || v.State != port.VolumeReady {
				t.Fatalf("it is %+v, %v", v, err)
			}
		}
		if err := g.o.Client.Get(t.Context(), client.ObjectKey{Namespace: green.Namespace, Name: copyName(green)}, &corev1.Pod{}); !apierrors.IsNotFound(err) {
			t.Errorf("the pod of the copy: %v", err)
		}
		_, err := g.Instances().Ensure(t.Context(), green, port.Instance{Name: "green-1-x", ID: "1", Type: port.Writer, Version: "15"})
		g.must(err)
		if got := g.claimOf("green-data"); got.Labels[InstanceLabel] != "green-1-x" {
			t.Errorf("the writer of the clone does not begin with it: %v", got.Labels)
		}
		if grant, err := g.Storage().grants(green).Read(t.Context()); err != nil || grant.Writer != "" {
			t.Errorf("the clone begins with the grant %+v, %v", grant, err)
		}
	})
	t.Run("a copy that fails", func(t *testing.T) {
		g := copying(t)
		g.start(green, copyName(green), corev1.PodFailed)
		_, err := g.Storage().Clone(t.Context(), blue, green, "key")
		refused(t, "a copy that has failed", err, port.StorageFailed)
	})
	t.Run("of nobody", func(t *testing.T) {
		g := newFixture(t)
		_, err := g.Storage().Clone(t.Context(), blue, green, "key")
		refused(t, "a source that is not there", err, port.CloneSourceMissing)
		_, err = g.Storage().Clone(t.Context(), port.Ref{Namespace: "other", Name: "blue"}, green, "key")
		refused(t, "a source elsewhere", err, port.CloneSourceMissing)
	})
}

// Instances are recorded with the version that a spec means, so that a spec of 15 does not differ
// from an instance of 15.18 for ever.
func TestVersionsThatASpecMeans(t *testing.T) {
	g := newFixture(t)
	for _, q := range []struct {
		want, is string
		own      map[string]string
		means    string
	}{
		{want: "15", means: "15.18"}, {want: "15.17", means: "15.17"}, {want: "15.1", means: "15.1"}, {want: "16", is: "15.18", means: "16.2"},
		{want: "", is: "15.17", means: "15.18"}, {want: "", is: "", means: ""}, {want: "", is: "14.2", means: ""}, {want: "17", means: "17"},
		{want: "15", own: map[string]string{"15.9": "x", "15.10": "y"}, means: "15.10"}, {want: "15", own: map[string]string{"15": "x"}, means: "15"}, {want: "15", own: map[string]string{"16.1": "x"}, means: "15"},
	} {
		spec := v1alpha1.SharedStorageClusterSpec{Images: q.own}
		spec.Engine.Version = q.want
		if got := g.version(&spec, q.is); got != q.means {
			t.Errorf("%q of a cluster of %q, images %v, means %q, want %q", q.want, q.is, q.own, got, q.means)
		}
	}
	size := resource.MustParse("10Gi")
	obj := &v1alpha1.SharedStorageCluster{ObjectMeta: metav1.ObjectMeta{Namespace: blue.Namespace, Name: blue.Name}}
	obj.Spec.Engine.Version, obj.Spec.Storage.Size = "15", &size
	g = newFixture(t, obj)
	store := NewClusterStore(g.o.Client, g.o.Client)
	store.Placement = g.Placement
	c, err := store.Load(t.Context(), blue)
	g.must(err)
	g.ensure(port.Volume{Size: size.Value()})
	i, err := g.Instances().Ensure(t.Context(), blue, port.Instance{Name: "blue-1-a", ID: "1", Type: port.Writer, Version: c.Spec.Engine.Version})
	g.must(err)
	if i.Version != "15.18" || i.Image != "postgres:15.18" {
		t.Errorf("the instance has %s of %s", i.Version, i.Image)
	}
	if c, err = store.Load(t.Context(), blue); err != nil || c.Spec.Engine.Version != i.Version {
		t.Errorf("the spec means %s, the instance has %s: %v", c.Spec.Engine.Version, i.Version, err)
	}
}
