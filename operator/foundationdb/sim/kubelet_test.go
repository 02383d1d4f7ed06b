package sim_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb/port"
	"github.com/pawl-dev/pawl/operator/foundationdb/sim"
)

// lookup returns an object of the test's namespace as it is; nil if there is none.
func lookup[T port.Object](f *fixture, object T, name string) (found T) {
	f.t.Helper()
	object.SetNamespace(namespace)
	object.SetName(name)
	there, err := f.Objects().Get(f.t.Context(), object)
	f.must(err)
	if there {
		return object
	}
	return found
}

func ready(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func unified(t *testing.T) *fixture {
	f := newFixture(t, sim.Options{Seed: 1}, v1beta2.ImageTypeUnified)
	f.create(5, 3, 4)
	return f
}

func (f *fixture) runs(pod string) bool {
	_, running := f.Cluster().Running(sim.ServerName(namespace, pod, 1))
	return running
}

// TestSpread: pods that keep apart get nodes of their own, and a pod keeps its node order by the seed.
func TestSpread(t *testing.T) {
	f := unified(t)
	nodes := map[string]string{}
	for _, pod := range []string{"sample-storage-1", "sample-storage-2", "sample-storage-3", "sample-storage-4", "sample-storage-5"} {
		p := f.get(pod)
		if other := nodes[p.Spec.NodeName]; other != "" || p.Spec.NodeName == "" {
			t.Errorf("%s is on %q with %s", pod, p.Spec.NodeName, other)
		}
		nodes[p.Spec.NodeName] = pod
		if p.Status.HostIP == "" || !ready(p) || p.Status.Phase != corev1.PodRunning || len(p.Status.ContainerStatuses) != 2 {
			t.Errorf("%s is %+v", pod, p.Status)
		}
	}
}

func TestNodeLost(t *testing.T) {
	f := unified(t)
	pod := f.get("sample-storage-4")
	node := pod.Spec.NodeName
	f.LoseNode(node)
	f.Advance(20 * time.Second)
	if !ready(f.get(pod.Name)) || len(f.status().Cluster.Processes) != 11 {
		t.Errorf("20 s after the loss the pod is ready: %v, and %d processes report", ready(f.get(pod.Name)), len(f.status().Cluster.Processes))
	}
	f.Advance(30 * time.Second)
	if ready(f.get(pod.Name)) {
		t.Error("the pod of a lost node is ready after 50 s")
	}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}
	if _, err := f.Objects().Get(t.Context(), n); err != nil || len(n.Spec.Taints) != 1 || n.Spec.Taints[0].TimeAdded == nil {
		t.Errorf("the lost node is %+v, %v", n.Spec, err)
	}
	f.Advance(6 * time.Minute)
	if p := f.get(pod.Name); p.DeletionTimestamp == nil {
		t.Error("the pod of a lost node is not evicted")
	}
	f.ReturnNode(node)
	f.Advance(5 * time.Second)
	if p := lookup(f, &corev1.Pod{}, pod.Name); p != nil {
		t.Error("an evicted pod stays after the return of its node")
	}

	second := f.get("sample-storage-5")
	f.LoseNode(second.Spec.NodeName)
	containers := second.DeepCopy().Spec.Containers
	containers[1].Image = "foundationdb/fdb-kubernetes-monitor:7.4.6"
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"containers": containers}})
	f.must(err)
	f.must(f.Objects().Patch(t.Context(), second, patch))
	f.Advance(time.Minute)
	f.ReturnNode(second.Spec.NodeName)
	f.Advance(time.Minute)
	if s := f.get(second.Name).Status.ContainerStatuses[1]; s.Image != containers[1].Image || s.RestartCount != 1 {
		t.Errorf("a sidecar that was changed while its node was lost is %+v", s)
	}
	f.Advance(10 * time.Second)
	if !ready(f.get(second.Name)) || len(f.status().Cluster.Processes) != 11 {
		t.Error("a pod is not back with its node")
	}
}

func TestUnschedulable(t *testing.T) {
	f := newFixture(t, sim.Options{Seed: 1, Nodes: 2}, v1beta2.ImageTypeUnified)
	f.saveConfigMap()
	f.Cordon(sim.NodeName(0), true)
	f.Taint(sim.NodeName(1), corev1.Taint{Key: "example.com/maintenance"})
	f.add(fdb.ClassStateless, 1)
	f.Advance(10 * time.Second)
	p := f.get("sample-stateless-1")
	if p.Spec.NodeName != "" || p.Status.Phase != corev1.PodPending || p.Status.Conditions[0].Reason != corev1.PodReasonUnschedulable {
		t.Errorf("a pod without a node is on %q, %+v", p.Spec.NodeName, p.Status)
	}
	f.Untaint(sim.NodeName(1), "example.com/maintenance")
	f.Advance(10 * time.Second)
	if p := f.get("sample-stateless-1"); p.Spec.NodeName != sim.NodeName(1) || !ready(p) {
		t.Errorf("the pod is on %q, ready: %v", p.Spec.NodeName, ready(p))
	}
	tolerant := f.pod(fdb.ClassStateless, "stateless-2")
	tolerant.Spec.NodeSelector = map[string]string{"kubernetes.io/hostname": sim.NodeName(0)}
	f.must(f.Objects().Create(t.Context(), tolerant))
	never := f.pod(fdb.ClassStateless, "stateless-3")
	never.Spec.Affinity.NodeAffinity = &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{
			Key: "foundationdb.org/no-schedule-allowed", Operator: corev1.NodeSelectorOpIn, Values: []string{"true"},
		}}}},
	}}
	f.must(f.Objects().Create(t.Context(), never))
	f.Advance(10 * time.Second)
	if f.get(tolerant.Name).Spec.NodeName != "" {
		t.Error("a pod is on a cordoned node")
	}
	f.Cordon(sim.NodeName(0), false)
	f.Advance(10 * time.Second)
	if f.get(tolerant.Name).Spec.NodeName == "" || f.get(never.Name).Spec.NodeName != "" {
		t.Error("a pod without a place has a node, or one with a place has none")
	}
}

func TestCrashLoop(t *testing.T) {
	for _, image := range []v1beta2.ImageType{v1beta2.ImageTypeUnified, v1beta2.ImageTypeSplit} {
		for container := range 2 {
			f := newFixture(t, sim.Options{Seed: 1}, image)
			f.saveConfigMap()
			p := f.pod(fdb.ClassStateless, "stateless-1")
			if image == v1beta2.ImageTypeSplit && container == 0 {
				p.Spec.Containers[0].Args = []string{"crash-loop"} // sh -c
			} else {
				p.Spec.Containers[container].Command, p.Spec.Containers[container].Args = nil, []string{"crash-loop"}
			}
			f.must(f.Objects().Create(t.Context(), p))
			f.Advance(10 * time.Second)
			p = f.get(p.Name)
			if ready(p) || p.Status.ContainerStatuses[container].Ready || p.Status.ContainerStatuses[container].State.Waiting == nil || !p.Status.ContainerStatuses[1-container].Ready {
				t.Errorf("%s, container %d: %+v", image, container, p.Status.ContainerStatuses)
			}
		}
	}
}

func TestFailedPod(t *testing.T) {
	f := unified(t)
	f.FailPod(namespace, "sample-storage-5")
	f.Advance(10 * time.Second)
	if p := f.get("sample-storage-5"); p.Status.Phase != corev1.PodFailed || ready(p) || f.runs(p.Name) {
		t.Errorf("a failed pod is %+v", p.Status)
	}
	f.must(f.Objects().Delete(t.Context(), f.get("sample-storage-5")))
	f.Advance(5 * time.Second)
	if lookup(f, &corev1.Pod{}, "sample-storage-5") != nil {
		t.Error("a failed pod that was deleted stays")
	}
}

// TestConfigMapDelay: a pod sees a changed config map after a while, and at once when its annotation is touched.
func TestConfigMapDelay(t *testing.T) {
	f := unified(t)
	current := func(pod string) bool {
		return strings.Contains(f.get(pod).Annotations["foundationdb.org/launcher-current-configuration"], "--knob_x=")
	}
	f.Advance(2 * time.Minute) // until all have seen the last change
	f.cluster.Spec.Processes = map[v1beta2.ProcessClass]v1beta2.ProcessSettings{"general": {CustomParameters: []v1beta2.CustomParameter{"knob_x=1"}}}
	f.saveConfigMap()
	f.Advance(30 * time.Second)
	if current("sample-log-1") {
		t.Error("a pod sees a change after 30 s")
	}
	f.patch(f.get("sample-log-2"), map[string]any{"metadata": map[string]any{"annotations": map[string]any{"foundationdb.org/outdated-config-map-seen": "1767225999"}}})
	f.Advance(2 * time.Second)
	if !current("sample-log-2") || current("sample-log-1") {
		t.Error("a pod whose annotation was touched does not see a change at once, or another one does")
	}
	f.Advance(time.Minute)
	if !current("sample-log-1") {
		t.Error("a pod does not see a change after 92 s")
	}
}

func TestClaims(t *testing.T) {
	f := unified(t)
	claim := lookup(f, &corev1.PersistentVolumeClaim{}, "sample-storage-5-data")
	if claim.Status.Phase != corev1.ClaimBound || claim.Spec.VolumeName == "" || claim.Status.Capacity.Storage().String() != "128Gi" {
		t.Errorf("the claim in use is %+v", claim.Status)
	}
	f.must(f.Objects().Delete(t.Context(), claim))
	f.Advance(time.Minute)
	if claim := lookup(f, &corev1.PersistentVolumeClaim{}, claim.Name); claim == nil || claim.DeletionTimestamp == nil {
		t.Errorf("a claim that is used and deleted is %+v", claim)
	}
	if f.Cluster().Holds("demo/sample-storage-5-data#31/1").Shards == 0 {
		t.Error("a claim that is still used has lost its data")
	}
	f.must(f.Objects().Delete(t.Context(), f.get("sample-storage-5")))
	f.Advance(5 * time.Second)
	if lookup(f, &corev1.PersistentVolumeClaim{}, claim.Name) != nil || !strings.Contains(strings.Join(f.Transcript(), "\n"), "folder demo/sample-storage-5-data#31/1 is erased") {
		t.Error("the claim, or its data, is still there after its pod")
	}

	grown := lookup(f, &corev1.PersistentVolumeClaim{}, "sample-storage-4-data")
	f.patch(grown, map[string]any{"spec": map[string]any{"resources": map[string]any{"requests": map[string]any{"storage": "256Gi"}}}})
	f.Advance(5 * time.Second)
	if grown = lookup(f, &corev1.PersistentVolumeClaim{}, grown.Name); grown.Status.Capacity.Storage().String() != "256Gi" {
		t.Errorf("the grown claim has %s", grown.Status.Capacity.Storage())
	}
	if err := f.Objects().Patch(t.Context(), grown, []byte(`{"spec":{"resources":{"requests":{"storage":"1Gi"}}}}`)); err == nil {
		t.Error("a claim has shrunk")
	}
}

// TestCollect: what a deleted cluster owned goes too, its data with it.
func TestCollect(t *testing.T) {
	f := unified(t)
	f.must(f.Objects().Delete(t.Context(), f.cluster))
	f.Advance(time.Minute)
	if lookup(f, &corev1.Pod{}, "sample-storage-1") != nil || lookup(f, &corev1.PersistentVolumeClaim{}, "sample-storage-1-data") != nil ||
		lookup(f, &corev1.ConfigMap{}, "sample-config") != nil || f.Cluster().Available() {
		t.Error("children of a deleted cluster are still there")
	}
}

// TestFamilies: pods have IPs of each family, and the launcher takes the one that is asked for.
func TestFamilies(t *testing.T) {
	f := newFixture(t, sim.Options{Seed: 1, Families: []int{4, 6}}, v1beta2.ImageTypeUnified)
	f.cluster.Spec.Routing.PodIPFamily = new(6)
	f.cluster.Status.ConnectionString = "sample:first@[fd00::1]:4501"
	f.saveConfigMap()
	p := f.pod(fdb.ClassStorage, "storage-1")
	for i, v := range p.Spec.Containers[0].Env {
		if v.Name == "FDB_PUBLIC_IP" || v.Name == "FDB_POD_IP" {
			p.Spec.Containers[0].Env[i].ValueFrom.FieldRef.FieldPath = "status.podIPs"
		}
	}
	p.Spec.Volumes[0].PersistentVolumeClaim = nil
	f.must(f.Objects().Create(t.Context(), p))
	f.Advance(10 * time.Second)
	p = f.get(p.Name)
	if len(p.Status.PodIPs) != 2 || p.Status.PodIP != "10.1.0.2" || p.Status.PodIPs[1].IP != "fd00::1" {
		t.Fatalf("the IPs are %+v", p.Status)
	}
	if got := f.variables(p)["FDB_PUBLIC_IP"]; got != "fd00::1" {
		t.Errorf("the launcher has the IP %q", got)
	}
	if !strings.Contains(strings.Join(f.Transcript(), "\n"), "demo/sample-storage-1/1 starts: storage 7.3.69 at [fd00::1]:4501") {
		t.Errorf("the server listens elsewhere:\n%s", strings.Join(f.Transcript(), "\n"))
	}
}

// TestNodes: a node can be deleted, and takes its pods with it; a new one is used at once.
func TestNodes(t *testing.T) {
	f := unified(t)
	pod := f.get("sample-storage-5")
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: pod.Spec.NodeName}}
	_, err := f.Objects().Get(t.Context(), n)
	f.must(err)
	f.must(f.Objects().Delete(t.Context(), n))
	f.Advance(5 * time.Second)
	if lookup(f, &corev1.Pod{}, pod.Name) != nil || len(f.status().Cluster.Processes) != 11 {
		t.Error("the pod of a deleted node is still there")
	}
	added := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "added", Labels: map[string]string{"kubernetes.io/hostname": "added", "fast": "true"}}}
	f.must(f.Objects().Create(t.Context(), added))
	picky := f.pod(fdb.ClassStorage, "storage-5")
	picky.Spec.NodeSelector = map[string]string{"fast": "true"}
	f.must(f.Objects().Create(t.Context(), picky))
	f.Advance(10 * time.Second)
	if p := f.get(pod.Name); p.Spec.NodeName != "added" || !ready(p) {
		t.Errorf("the pod is on %q", p.Spec.NodeName)
	}
	f.LoseNode("added")
	f.Advance(time.Minute)
	f.ReturnNode("added")
	f.Advance(10 * time.Second)
	if !ready(f.get(pod.Name)) {
		t.Error("the pod of a node that has returned is not ready")
	}
}

// TestNamespaces: pods of several namespaces, each with a config map of its own, are one database.
func TestNamespaces(t *testing.T) {
	f := unified(t)
	c := f.cluster.DeepCopy()
	c.Namespace, c.ResourceVersion, c.UID = "other", "", ""
	f.must(f.Objects().Create(t.Context(), c))
	m := lookup(f, &corev1.ConfigMap{}, "sample-config")
	m.Namespace, m.OwnerReferences = "other", nil
	f.must(f.Objects().Create(t.Context(), m))
	p := f.pod(fdb.ClassStateless, "stateless-1")
	p.Namespace, p.OwnerReferences = "other", nil
	f.must(f.Objects().Create(t.Context(), p))
	f.Advance(20 * time.Second)
	if n := len(f.status().Cluster.Processes); n != 13 {
		t.Errorf("%d processes report, want 13", n)
	}
	if f.DeletePod("other", p.Name); !f.runs(p.Name) {
		t.Error("the pod of that name in another namespace is gone")
	}
}

// TestFinalizers: a pod that is held stays after its programs have ended.
func TestFinalizers(t *testing.T) {
	f := unified(t)
	nowhere := f.pod(fdb.ClassStateless, "stateless-9")
	nowhere.Finalizers = []string{"example.com/held"}
	nowhere.Spec.NodeSelector = map[string]string{"no": "where"}
	f.must(f.Objects().Create(t.Context(), nowhere))
	f.patch(f.get("sample-stateless-4"), map[string]any{"metadata": map[string]any{"finalizers": []string{"example.com/held"}}})
	for _, pod := range []string{"sample-stateless-4", "sample-stateless-9"} {
		f.must(f.Objects().Delete(t.Context(), f.get(pod)))
		f.Advance(time.Minute)
		if p := lookup(f, &corev1.Pod{}, pod); p == nil || p.DeletionTimestamp == nil || f.runs(pod) {
			t.Errorf("%s is %v", pod, p)
		}
		f.patch(f.get(pod), map[string]any{"metadata": map[string]any{"finalizers": nil}})
		if lookup(f, &corev1.Pod{}, pod) != nil {
			t.Errorf("%s stays", pod)
		}
	}
	if n := f.get("sample-stateless-3").CreationTimestamp.Nanosecond(); n != 0 {
		t.Errorf("a time of an object has %d ns", n)
	}
}

// TestNames: coordinators that have names are reached while the service of the names is there.
func TestNames(t *testing.T) {
	f := unified(t)
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "sample"},
		Spec:       corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Selector: map[string]string{"foundationdb.org/fdb-cluster-name": "sample"}},
	}
	f.must(f.Objects().Create(t.Context(), service))
	var names []fdb.Address
	for _, pod := range []string{"sample-log-1", "sample-log-2", "sample-log-3"} {
		names = append(names, fdb.Address{Host: pod + ".sample.demo.svc.cluster.local", Port: 4501})
	}
	f.run(fdb.Coordinators(names))
	f.Advance(time.Minute)
	f.healthy()
	f.must(f.Objects().Delete(t.Context(), service))
	f.Advance(10 * time.Second)
	if f.Cluster().Available() {
		t.Error("coordinators are reached by names that nobody knows")
	}
	if v := f.Cluster().Violations(); len(v) == 0 || v[0].Invariant != 3 {
		t.Errorf("the end of the names is judged %v", v)
	}
	f.must(f.Objects().Create(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "sample"}, Spec: service.Spec}))
	f.Advance(time.Minute)
	f.healthy()
}

// TestNodeLostEarly: a pod whose node is lost before it has started starts when the node is back.
func TestNodeLostEarly(t *testing.T) {
	f := newFixture(t, sim.Options{Seed: 1, Nodes: 1}, v1beta2.ImageTypeUnified)
	f.saveConfigMap()
	f.add(fdb.ClassStateless, 1)
	f.Until(time.Minute, func() bool { return f.get("sample-stateless-1").Spec.NodeName != "" })
	f.LoseNode(sim.NodeName(0))
	f.Advance(30 * time.Second)
	if p := f.get("sample-stateless-1"); p.Status.Phase != corev1.PodPending {
		t.Errorf("the pod of a lost node is %s", p.Status.Phase)
	}
	f.ReturnNode(sim.NodeName(0))
	if !ready(f.get("sample-stateless-1")) {
		t.Error("the pod does not start after the return of its node")
	}
}
