package kruise_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/test/controlplane"
	"github.com/pawl-dev/pawl/test/controlplane/kubelet"
	"github.com/pawl-dev/pawl/test/kruise"
)

const program = "../../bin/kruise-manager"

var suite = controlplane.NewSuite(controlplane.Options{CRDs: []string{"../../deploy/crds"}, Kubelet: kubelet.Options{Nodes: 1}})

func TestMain(m *testing.M) { suite.Main(m) }

var start = sync.OnceValues(func() (*kruise.Manager, error) {
	module, err := exec.Command("go", "-C", "../kruisebin", "list", "-m", "-f", "{{.Dir}}", "github.com/openkruise/kruise").Output()
	if err != nil {
		return nil, err
	}
	return kruise.Start(context.Background(), plane, program, strings.TrimSpace(string(module)))
})

var plane *controlplane.Plane

// open gives a client and a namespace on a plane with the manager.
func open(t *testing.T) (client.Client, string) {
	t.Helper()
	if _, err := os.Stat(program); err != nil {
		t.Skip("bin/kruise-manager is not there: make kruise builds it")
	}
	plane = suite.Plane(t)
	if _, err := start(); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(plane.Config(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c, plane.Namespace(t)
}

// workload is one set and its pods.
type workload struct {
	*testing.T
	client.Client
	kind, namespace, name string
}

func create(t *testing.T, kind string, replicas int64) workload {
	t.Helper()
	c, namespace := open(t)
	w := workload{T: t, Client: c, kind: kind, namespace: namespace, name: "db"}
	if err := c.Create(t.Context(), kruise.Workload(kind, namespace, w.name, replicas)); err != nil {
		t.Fatal(err)
	}
	w.until("the first pods", func(s state) bool { return s.settled(int(replicas)) })
	return w
}

type state struct {
	set  *unstructured.Unstructured
	pods []corev1.Pod
}

func (w workload) state() state {
	w.Helper()
	set := &unstructured.Unstructured{Object: map[string]any{"apiVersion": kruise.Version[w.kind], "kind": w.kind}}
	if err := w.Get(w.Context(), client.ObjectKey{Namespace: w.namespace, Name: w.name}, set); err != nil {
		w.Fatal(err)
	}
	var pods corev1.PodList
	if err := w.List(w.Context(), &pods, client.InNamespace(w.namespace)); err != nil {
		w.Fatal(err)
	}
	return state{set, pods.Items}
}

// settled reports whether the status is that of the newest spec, and all pods are ready.
func (s state) settled(replicas int) bool {
	observed, _, _ := unstructured.NestedInt64(s.set.Object, "status", "observedGeneration")
	if observed < s.set.GetGeneration() || len(s.pods) != replicas {
		return false
	}
	return !slices.ContainsFunc(s.pods, func(p corev1.Pod) bool {
		return p.DeletionTimestamp != nil || !slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		})
	})
}

// with counts the pods that have an image.
func (s state) with(image string) (n int) {
	for _, p := range s.pods {
		if p.Spec.Containers[0].Image == image {
			n++
		}
	}
	return n
}

func (w workload) until(what string, holds func(state) bool) state {
	w.Helper()
	end := time.Now().Add(time.Minute)
	for {
		s := w.state()
		if holds(s) {
			return s
		}
		if time.Now().After(end) {
			w.Fatalf("%s: it did not come: %v", what, s.set.Object["status"])
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func (w workload) edit(change func(spec map[string]any)) {
	w.Helper()
	s := w.state()
	before := s.set.DeepCopy()
	change(s.set.Object["spec"].(map[string]any))
	if err := w.Patch(w.Context(), s.set, client.MergeFrom(before)); err != nil {
		w.Fatal(err)
	}
}

func image(name string) func(map[string]any) {
	return func(spec map[string]any) {
		containers, _, _ := unstructured.NestedSlice(spec, "template", "spec", "containers")
		containers[0].(map[string]any)["image"] = name
		_ = unstructured.SetNestedSlice(spec, containers, "template", "spec", "containers")
	}
}

func partition(path []string, value any) func(map[string]any) {
	return func(spec map[string]any) { _ = unstructured.SetNestedField(spec, value, path...) }
}

func TestCloneSet(t *testing.T) {
	w := create(t, "CloneSet", 3)
	path := []string{"updateStrategy", "partition"}
	w.edit(func(spec map[string]any) { partition(path, "100%")(spec); image("r2")(spec) })
	s := w.until("the new revision", func(s state) bool {
		current, _, _ := unstructured.NestedString(s.set.Object, "status", "currentRevision")
		update, _, _ := unstructured.NestedString(s.set.Object, "status", "updateRevision")
		return s.settled(3) && update != current
	})
	if n := s.with("r2"); n != 0 {
		t.Fatalf("%d pods moved under the hold", n)
	}
	w.edit(partition(path, int64(2)))
	w.until("one pod", func(s state) bool { return s.settled(3) && s.with("r2") == 1 })
	w.edit(func(spec map[string]any) { spec["replicas"] = int64(5) })
	if s = w.until("five pods", func(s state) bool { return s.settled(5) }); s.with("r1") != 2 {
		t.Errorf("%d pods are kept, not the 2 of the partition", s.with("r1"))
	}
}

func TestAdvancedStatefulSet(t *testing.T) {
	w := create(t, "StatefulSet", 3)
	path := []string{"updateStrategy", "rollingUpdate", "partition"}
	w.edit(func(spec map[string]any) { partition(path, int64(1<<31-1))(spec); image("r2")(spec) })
	w.edit(func(spec map[string]any) { spec["replicas"] = int64(4) })
	if s := w.until("four pods", func(s state) bool { return s.settled(4) }); s.with("r1") != 4 {
		t.Fatalf("%d pods moved under the hold", s.with("r2"))
	}
	w.edit(partition(path, int64(3)))
	s := w.until("one pod", func(s state) bool { return s.settled(4) && s.with("r2") == 1 })
	for _, p := range s.pods {
		if p.Spec.Containers[0].Image == "r2" && p.Name != "db-3" {
			t.Errorf("pod %s moved", p.Name)
		}
	}
	w.edit(func(spec map[string]any) {
		spec["reserveOrdinals"] = []any{int64(1)}
		spec["replicas"] = int64(3)
	})
	s = w.until("three pods", func(s state) bool { return s.settled(3) })
	var names []string
	for _, p := range s.pods {
		names = append(names, p.Name)
	}
	if slices.Sort(names); fmt.Sprint(names) != "[db-0 db-2 db-3]" {
		t.Errorf("the pods are %v", names)
	}
}
