package kube

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

// wakes reports whether a change of an object wakes a pass.
func wakes[T client.Object](when predicate.Predicate, old T, change func(T)) bool {
	now := old.DeepCopyObject().(T)
	now.SetResourceVersion("2")
	change(now)
	return when.Update(event.UpdateEvent{ObjectOld: old, ObjectNew: now})
}

func TestPodChanges(t *testing.T) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: "u", ResourceVersion: "1", Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"cni": "x", domain + "launcher-environment": "{}"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "foundationdb", Image: "i:1"}}},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: "10.0.0.1", PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}},
			Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}, {Type: "Custom", Status: corev1.ConditionTrue}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "foundationdb", Ready: true}},
		},
	}
	for name, c := range map[string]struct {
		change func(*corev1.Pod)
		want   bool
	}{
		"nothing":                 {func(*corev1.Pod) {}, false},
		"a resync":                {func(p *corev1.Pod) { p.ResourceVersion = "1" }, true},
		"another pod":             {func(p *corev1.Pod) { p.UID = "v" }, true},
		"a probe's time":          {func(p *corev1.Pod) { p.Status.Conditions[0].LastProbeTime = metav1.Now() }, false},
		"a message":               {func(p *corev1.Pod) { p.Status.Message = "m" }, false},
		"a condition of theirs":   {func(p *corev1.Pod) { p.Status.Conditions[1].Status = corev1.ConditionFalse }, false},
		"an annotation of theirs": {func(p *corev1.Pod) { p.Annotations["cni"] = "y" }, false},
		"the launcher":            {func(p *corev1.Pod) { p.Annotations[domain+"launcher-environment"] = "{1}" }, true},
		"our annotation gone":     {func(p *corev1.Pod) { delete(p.Annotations, domain+"launcher-environment") }, true},
		"a label":                 {func(p *corev1.Pod) { p.Labels["a"] = "c" }, true},
		"an owner":                {func(p *corev1.Pod) { p.OwnerReferences = []metav1.OwnerReference{{UID: "o"}} }, true},
		"a deletion":              {func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.Now()) }, true},
		"a node":                  {func(p *corev1.Pod) { p.Spec.NodeName = "n" }, true},
		"an image":                {func(p *corev1.Pod) { p.Spec.Containers[0].Image = "i:2" }, true},
		"a phase":                 {func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, true},
		"an IP":                   {func(p *corev1.Pod) { p.Status.PodIPs[0].IP = "10.0.0.2" }, true},
		"not ready":               {func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }, true},
		"a container":             {func(p *corev1.Pod) { p.Status.ContainerStatuses[0].Ready = false }, true},
		"a restart":               {func(p *corev1.Pod) { p.Status.ContainerStatuses[0].RestartCount++ }, true},
	} {
		if got := wakes(updates(podChanged), pod, c.change); got != c.want {
			t.Errorf("%s wakes: %v", name, got)
		}
	}
}

func TestDeploymentChanges(t *testing.T) {
	agents := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{UID: "u", ResourceVersion: "1", Generation: 1}}
	for name, c := range map[string]struct {
		change func(*appsv1.Deployment)
		want   bool
	}{
		"a time": {func(d *appsv1.Deployment) {
			d.Status.Conditions = []appsv1.DeploymentCondition{{LastUpdateTime: metav1.Now()}}
		}, false},
		"a revision": {func(d *appsv1.Deployment) {
			d.Annotations = map[string]string{"deployment.kubernetes.io/revision": "2"}
		}, false},
		"its spec":     {func(d *appsv1.Deployment) { d.Generation++ }, true},
		"ready agents": {func(d *appsv1.Deployment) { d.Status.ReadyReplicas++ }, true},
		"a label":      {func(d *appsv1.Deployment) { d.Labels = map[string]string{"a": "b"} }, true},
	} {
		if got := wakes(updates(deploymentChanged), agents, c.change); got != c.want {
			t.Errorf("%s wakes: %v", name, got)
		}
	}
}

// A backup needs to know where its database is and whether it can be reached, not each group of it.
func TestDatabaseChanges(t *testing.T) {
	cluster := &v1beta2.FoundationDBCluster{ObjectMeta: metav1.ObjectMeta{UID: "u", ResourceVersion: "1", Generation: 1}}
	for name, c := range map[string]struct {
		change func(*v1beta2.FoundationDBCluster)
		want   bool
	}{
		"a group":             {func(c *v1beta2.FoundationDBCluster) { c.Status.ProcessGroups = make([]v1beta2.ProcessGroupStatus, 1) }, false},
		"a label":             {func(c *v1beta2.FoundationDBCluster) { c.Labels = map[string]string{"a": "b"} }, false},
		"its spec":            {func(c *v1beta2.FoundationDBCluster) { c.Generation++ }, true},
		"a deletion":          {func(c *v1beta2.FoundationDBCluster) { c.DeletionTimestamp = new(metav1.Now()) }, true},
		"a connection string": {func(c *v1beta2.FoundationDBCluster) { c.Status.ConnectionString = "a:b@c:1" }, true},
		"a version":           {func(c *v1beta2.FoundationDBCluster) { c.Status.RunningVersion = "7.3.69" }, true},
		"configured":          {func(c *v1beta2.FoundationDBCluster) { c.Status.Configured = true }, true},
		"available":           {func(c *v1beta2.FoundationDBCluster) { c.Status.Health.Available = true }, true},
	} {
		if got := wakes(updates(databaseChanged), cluster, c.change); got != c.want {
			t.Errorf("%s wakes: %v", name, got)
		}
	}
}

func TestNodeChanges(t *testing.T) {
	node := func(change func(*corev1.Node)) any {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", ResourceVersion: "1", Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"c": "d"}},
			Spec: corev1.NodeSpec{PodCIDR: "10.0.0.0/24", Taints: []corev1.Taint{{Key: "t"}}}, Status: corev1.NodeStatus{Phase: corev1.NodeRunning}}
		change(n)
		kept, err := keepTaints(n)
		if err != nil {
			t.Fatal(err)
		}
		if k := kept.(*corev1.Node); k.Annotations != nil || k.Spec.PodCIDR != "" || k.Status.Phase != "" || k.Name != "n" || k.ResourceVersion == "" {
			t.Errorf("kept is %+v", k)
		}
		return kept
	}
	same := func(*corev1.Node) {}
	for name, c := range map[string]struct {
		change func(*corev1.Node)
		want   bool
	}{
		"a heartbeat": {func(n *corev1.Node) {
			n.ResourceVersion = "2"
			n.Status.Conditions = []corev1.NodeCondition{{LastHeartbeatTime: metav1.NewTime(time.Unix(1, 0))}}
		}, false},
		"a label":  {func(n *corev1.Node) { n.Labels["a"] = "c" }, true},
		"a taint":  {func(n *corev1.Node) { n.Spec.Taints = nil }, true},
		"its time": {func(n *corev1.Node) { n.Spec.Taints[0].TimeAdded = new(metav1.NewTime(time.Unix(1, 0))) }, true},
	} {
		if got := nodeChanged(node(same), node(c.change)); got != c.want {
			t.Errorf("%s wakes: %v", name, got)
		}
	}
}

// Of objects that are none of ours the cache holds what a list by labels needs.
func TestCacheKeepsOurs(t *testing.T) {
	pod := func(change func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "p", UID: "u", ResourceVersion: "1", Labels: map[string]string{"a": "b"},
			Annotations: map[string]string{"c": "d"}, ManagedFields: make([]metav1.ManagedFieldsEntry, 1)}, Spec: corev1.PodSpec{NodeName: "n"}}
		change(p)
		kept, err := keepOurs(p)
		if err != nil || len(kept.(*corev1.Pod).ManagedFields) > 0 {
			t.Fatalf("%+v, %v", kept, err)
		}
		return kept.(*corev1.Pod)
	}
	owned := func(version string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: version, Kind: "FoundationDBCluster", Name: "blue"}}
		}
	}
	for name, c := range map[string]struct {
		change func(*corev1.Pod)
		ours   bool
	}{
		"a foreign pod":    {func(*corev1.Pod) {}, false},
		"a foreign owner":  {owned("apps/v1"), false},
		"our owner":        {owned("apps.foundationdb.org/v1beta2"), true},
		"an older version": {owned("apps.foundationdb.org/v1beta1"), true},
		"our label":        {func(p *corev1.Pod) { p.Labels["foundationdb.org/fdb-cluster-name"] = "blue" }, true},
	} {
		p := pod(c.change)
		if isForeign(p) == c.ours || (p.Spec.NodeName == "n") != c.ours || p.Labels["a"] != "b" || p.UID != "u" || p.ResourceVersion != "1" {
			t.Errorf("of %s is kept %+v", name, p)
		}
	}
	if name := ownerOf(pod(owned("apps.foundationdb.org/v1beta2")), "FoundationDBCluster"); name != "blue" {
		t.Errorf("the owner is %q", name)
	}
	if name := ownerOf(pod(owned("apps.foundationdb.org/v1beta2")), "FoundationDBBackup"); name != "" {
		t.Errorf("the owner is %q", name)
	}
}
