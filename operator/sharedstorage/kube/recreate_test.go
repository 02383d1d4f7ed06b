package kube

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

var readerOfBlue = port.Instance{Name: "blue-2", ID: "2", Type: port.Reader, Version: "15.18", Class: port.Class{Name: "small", CPU: 1000, Memory: 1 << 30}, Template: "first"}

// recreatable returns an instance with its pod.
func recreatable(t *testing.T, objects ...client.Object) (*fixture, port.Instance) {
	t.Helper()
	g := newFixture(t, objects...)
	_, err := g.Storage().Ensure(t.Context(), blue, port.Volume{Size: 1 << 30}, "k")
	g.must(err)
	made, err := g.Instances().Ensure(t.Context(), blue, readerOfBlue)
	g.must(err)
	return g, made
}

// podOf returns the pod of an instance; nil: there is none.
func (g *fixture) podOf(name string) *corev1.Pod {
	g.t.Helper()
	pod := &corev1.Pod{}
	err := g.o.Client.Get(g.t.Context(), client.ObjectKey{Namespace: blue.Namespace, Name: PodName(blue.Of(name))}, pod)
	if apierrors.IsNotFound(err) {
		return nil
	}
	g.must(err)
	return pod
}

// An instance gets another pod on the same claim. Between the two the claim says what is wanted, so
// that any Ensure completes it; a repeated call leaves the new pod alone.
func TestRecreateKeepsTheClaim(t *testing.T) {
	g, made := recreatable(t)
	claim, pod := g.claimOf("blue-2"), g.podOf("blue-2")
	want := made
	want.Class, want.Template, want.Image, want.ID, want.Type = port.Class{Name: "large", CPU: 2000, Memory: 4 << 30}, "second", "postgres:mine", "9", port.Writer
	_, err := g.Instances().Recreate(t.Context(), blue, want)
	g.must(err)
	if left := g.podOf("blue-2"); left != nil {
		t.Fatalf("the former pod is %s", left.UID)
	}
	if g.Revive(t.Context(), blue, func(reason, format string, _ ...any) { t.Errorf("it is told as lost: %s %s", reason, format) }) != nil {
		t.Error("the pods are not revived")
	}
	now := g.podOf("blue-2")
	if now == nil || now.UID == pod.UID || now.Spec.Containers[0].Image != "postgres:mine" || now.Spec.Containers[0].Resources.Requests.Memory().Value() != 4<<30 || now.Labels[IDLabel] != "2" || now.Labels[TypeLabel] != "ro" {
		t.Fatalf("the pod is %+v", now)
	}
	if is := g.claimOf("blue-2"); is.UID != claim.UID || now.Spec.Volumes[0].PersistentVolumeClaim.ClaimName != is.Name {
		t.Errorf("the claim was %s and is %s", claim.UID, is.UID)
	}
	got, err := g.Instances().Recreate(t.Context(), blue, want)
	g.must(err)
	if again := g.podOf("blue-2"); again.UID != now.UID || !got.RunsAs(want) || got.ID != "2" {
		t.Errorf("it is recreated again, as %+v", got)
	}
}

// What runs is what a pod was made with, until it is gone: the list of instances shows the former class
// while its pod ends.
func TestRecreateShowsWhatRuns(t *testing.T) {
	g, made := recreatable(t)
	pod := g.podOf("blue-2")
	pod.Finalizers = []string{"test/holds"} // as a kubelet that is stopping it
	g.must(g.o.Client.Update(t.Context(), pod))
	want := made
	want.Class, want.Template = port.Class{Name: "large"}, "second"
	for range 2 {
		got, err := g.Instances().Recreate(t.Context(), blue, want)
		g.must(err)
		if got.RunsAs(want) || got.Class.Name != "small" || got.Template != "first" {
			t.Errorf("while its pod ends it is %+v", got)
		}
	}
	if pod = g.podOf("blue-2"); pod.DeletionTimestamp == nil {
		t.Error("its pod is not deleted")
	}
	pod.Finalizers = nil
	g.must(g.o.Client.Update(t.Context(), pod))
	got, err := g.Instances().Recreate(t.Context(), blue, want)
	g.must(err)
	if !got.RunsAs(want) {
		t.Errorf("it is %+v", got)
	}
}

// What is known beforehand to be impossible is refused while the pod runs on.
func TestRecreateIsRefusedBeforehand(t *testing.T) {
	quota := func(hard, used string) *corev1.ResourceQuota {
		return &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: blue.Namespace, Name: "team"}, Status: corev1.ResourceQuotaStatus{
			Hard: corev1.ResourceList{corev1.ResourceRequestsMemory: resource.MustParse(hard), corev1.ResourcePods: resource.MustParse("1")},
			Used: corev1.ResourceList{corev1.ResourceRequestsMemory: resource.MustParse(used), corev1.ResourcePods: resource.MustParse("1")}}}
	}
	large := func(i *port.Instance) { i.Class = port.Class{Name: "large", CPU: 1000, Memory: 2 << 30} }
	for what, c := range map[string]struct {
		objects []client.Object
		edit    func(i *port.Instance)
		want    *fault.Kind
	}{
		"the difference fits the quota":   {[]client.Object{quota("2Gi", "1Gi")}, large, nil},
		"the quota lacks the difference":  {[]client.Object{quota("2Gi", "1025Mi")}, large, port.QuotaExceeded},
		"a smaller class in a full quota": {[]client.Object{quota("1Gi", "1Gi")}, func(i *port.Instance) { i.Class = port.Class{Name: "tiny", CPU: 100, Memory: 1 << 29} }, nil},
		"no node has the labels":          {nil, func(i *port.Instance) { i.NodeSelector = map[string]string{"disk": "fast"} }, port.NoAvailableNode},
		"no node is large enough":         {nil, func(i *port.Instance) { i.Class = port.Class{Name: "huge", Memory: 1 << 40} }, port.NoAvailableNode},
		"there is no image":               {nil, func(i *port.Instance) { i.Version, i.Image = "15.99", "" }, port.VersionUnsupported},
	} {
		t.Run(what, func(t *testing.T) {
			g, made := recreatable(t, c.objects...)
			var node corev1.Node
			g.must(g.o.Client.Get(t.Context(), client.ObjectKey{Name: "node-1"}, &node))
			node.Status.Allocatable = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Gi")}
			g.must(g.o.Client.Status().Update(t.Context(), &node))
			before := g.podOf("blue-2").UID
			want := made
			want.Template = "second"
			c.edit(&want)
			_, err := g.Instances().Recreate(t.Context(), blue, want)
			if c.want == nil {
				g.must(err)
				return
			}
			if fault.Of(err) != c.want {
				t.Errorf("it is refused with %v", err)
			}
			if pod := g.podOf("blue-2"); pod == nil || pod.UID != before || strings.Contains(g.claimOf("blue-2").Annotations[wantAnnotation], "second") {
				t.Error("something has changed")
			}
		})
	}
	g, _ := recreatable(t)
	if _, err := g.Instances().Recreate(t.Context(), blue, port.Instance{Name: "blue-7"}); fault.Of(err) != port.PodLost {
		t.Errorf("one that is not there: %v", err)
	}
}
