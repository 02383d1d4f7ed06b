package sharedstorage_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/test/deploy"
)

// placedCluster asks for everything that says where pods run.
const placedCluster = `
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: databases}
value: 1000
---
apiVersion: pawl.dev/v1alpha1
kind: SharedStorageCluster
metadata: {name: orders}
spec:
  readers: 2
  storage: {size: 64Mi, onDelete: Delete}
  sharedMemory: 64Mi
  imagePullSecrets: [{name: registry}]
  podTemplate:
    metadata:
      labels: {team: orders}
      annotations: {example.com/cost: "17"}
    spec:
      hostAliases: [{ip: 10.0.0.1, hostnames: [store]}]
  scheduling:
    tolerations: [{key: databases, operator: Exists, effect: NoSchedule}]
    priorityClassName: databases
    affinity:
      nodeAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
          nodeSelectorTerms: [{matchExpressions: [{key: example.com/rack, operator: In, values: ["1", "2"]}]}]
    topologySpreadConstraints: [{topologyKey: example.com/rack}]
`

// apply applies a manifest.
func (w *fixture) apply(text string) {
	w.t.Helper()
	file := filepath.Join(w.t.TempDir(), "manifest.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
	w.kubectl("apply", "-f", file)
}

// podOf returns the pod of an instance.
func (w *fixture) podOf(ctx context.Context, i v1alpha1.InstanceStatus) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	return pod, w.client.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: i.Name}, pod)
}

// A cluster runs on the nodes that its tolerations, its affinity and its spread allow, and on no other;
// an edit of the tolerations is rolled out on the same claims; a failover prefers the reader in another
// rack than the writer's; and the accounts of cluster managers can change nothing but the role of
// their own pods.
func TestWherePodsRun(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test-long runs it")
	}
	t.Parallel()
	namespace, _, nodes := suite.Plane(t).Apart(t)
	names := nodes.Names()
	rack := func(node, value string) {
		t.Helper()
		if err := nodes.LabelNode(t.Context(), node, map[string]*string{"example.com/rack": &value}); err != nil {
			t.Fatal(err)
		}
	}
	for n, node := range names {
		if err := nodes.TaintNode(t.Context(), node, corev1.Taint{Key: "databases", Effect: corev1.TaintEffectNoSchedule}); err != nil {
			t.Fatal(err)
		}
		rack(node, []string{"1", "1", "2"}[n])
	}
	w := newFixtureIn(t, namespace)
	w.apply(placedCluster)
	c := w.awaitRunning("orders", 2, func(c *v1alpha1.SharedStorageCluster) error {
		if got := conditionOf(c, "HighAvailability"); !strings.HasPrefix(got, "True FailoverOn") {
			return fmt.Errorf("HighAvailability is %s", got)
		}
		return nil
	})
	on := map[string]bool{}
	for id, i := range c.Status.Instances {
		pod, err := w.podOf(t.Context(), i)
		if err != nil {
			t.Fatal(err)
		}
		on[pod.Spec.NodeName] = true
		shm := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == "shared-memory" })
		if p := pod.Spec; p.Priority == nil || *p.Priority != 1000 || len(p.HostAliases) != 1 || p.ImagePullSecrets[0].Name != "registry" || pod.Labels["team"] != "orders" ||
			pod.Annotations["example.com/cost"] != "17" || p.Volumes[shm].EmptyDir.SizeLimit.String() != "64Mi" || len(p.TopologySpreadConstraints) != 2 {
			t.Errorf("instance %s: %+v %+v", id, pod.ObjectMeta, p)
		}
	}
	if len(on) != 3 {
		t.Errorf("the instances are on the nodes %v", on)
	}
	manager, _, _ := w.managerPod(t.Context(), "orders")
	if got := w.kubectl("get", "pod", manager, "-o", "jsonpath={.spec.priorityClassName} {.metadata.labels.team} {.spec.tolerations[*].key}"); !strings.HasPrefix(got, "databases orders ") || !strings.HasSuffix(got, " databases") {
		t.Errorf("the pod of the cluster manager: %s", got)
	}
	t.Run("policy", w.checkManagerPolicy)
	t.Run("rollout", func(*testing.T) { c = w.checkTolerationsRollOut(c) })
	t.Run("failover", func(*testing.T) { w.checkRackAtFailover(c, rack, nodes.Signal) })
}

// checkTolerationsRollOut takes the taint to another value, which the edit of the spec follows.
func (w *fixture) checkTolerationsRollOut(c *v1alpha1.SharedStorageCluster) *v1alpha1.SharedStorageCluster {
	claims, copied := w.claims("orders"), w.copies(c)
	w.kubectl("patch", "ssc", "orders", "--type=merge", "-p", `{"spec":{"scheduling":{"tolerations":[{"key":"databases","operator":"Exists"},{"key":"spot","operator":"Exists"}]}}}`)
	c = w.awaitRunning("orders", 2, func(c *v1alpha1.SharedStorageCluster) error {
		for id, i := range c.Status.Instances {
			pod, err := w.podOf(w.t.Context(), i)
			if err != nil {
				return err
			}
			if !slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool { return t.Key == "spot" }) {
				return fmt.Errorf("instance %s tolerates %v", id, pod.Spec.Tolerations)
			}
		}
		return nil
	})
	if now := w.claims("orders"); !slices.Equal(now, claims) || w.copies(c) != copied {
		w.t.Errorf("the claims were %v and are %v", claims, now)
	}
	w.await(time.Minute, "the cluster manager tolerates it too", func(ctx context.Context) error {
		manager, _, ready := w.managerPod(ctx, "orders")
		out, err := w.try("get", "pod", manager, "-o", "jsonpath={.spec.tolerations[*].key}")
		if err == nil && (!ready || !strings.Contains(out, "spot")) {
			err = fmt.Errorf("ready %t: %s", ready, out)
		}
		return err
	})
	return c
}

// checkRackAtFailover puts all but the last reader into the rack of the writer, and freezes the writer.
func (w *fixture) checkRackAtFailover(c *v1alpha1.SharedStorageCluster, rack func(node, value string), signal func(namespace, pod, container string, sig syscall.Signal) error) {
	old, last := c.Status.Instances[c.Status.Writer], ""
	for _, id := range slices.Sorted(maps.Keys(c.Status.Instances)) {
		if id != c.Status.Writer {
			last = id
		}
	}
	for _, i := range c.Status.Instances {
		rack(i.Node, "1")
	}
	pass := func(onDelete string) { // labels of nodes are looked at with the next pass, within a minute
		w.kubectl("patch", "ssc", "orders", "--type=merge", "-p", `{"spec":{"storage":{"onDelete":"`+onDelete+`"}}}`)
	}
	pass("Retain")
	w.turns(2*time.Minute, "orders", "HighAvailability", "True SpreadNotMet")
	rack(c.Status.Instances[last].Node, "2")
	pass("Delete")
	w.turns(2*time.Minute, "orders", "HighAvailability", "True FailoverOn")
	if err := signal(w.namespace, old.Name, "", syscall.SIGSTOP); err != nil {
		w.t.Fatal(err)
	}
	w.await(time.Minute, "another instance writes", func(ctx context.Context) error {
		c, err := w.cluster(ctx, "orders")
		if err == nil && (conditionOf(c, "Ready") == "" || c.Status.Instances[c.Status.Writer].Name == old.Name || c.Status.Writer == "") {
			err = fmt.Errorf("the writer is %q", c.Status.Writer)
		}
		if err == nil && c.Status.Writer != last {
			w.t.Errorf("the writer is %s, and %s stands in another rack", c.Status.Writer, last)
		}
		return err
	})
	if err := signal(w.namespace, old.Name, "", syscall.SIGCONT); err != nil {
		w.t.Fatal(err)
	}
}

// checkManagerPolicy asks the API server as the account of a cluster manager.
func (w *fixture) checkManagerPolicy(t *testing.T) {
	all, err := deploy.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	all = slices.DeleteFunc(all, func(u *unstructured.Unstructured) bool { return !strings.HasPrefix(u.GetKind(), "ValidatingAdmission") })
	if out, err := deploy.Kubectl(t.Context(), w.plane, all, "apply", "--server-side", "--force-conflicts"); err != nil || len(all) != 2 {
		t.Fatalf("%d objects: %v %s", len(all), err, out)
	}
	for _, account := range []string{"other.manager.pawl.dev", "shop-manager"} { // with the rights of the cluster's manager
		w.kubectl("create", "rolebinding", account, "--role=orders.manager.pawl.dev", "--serviceaccount="+w.namespace+":"+account)
	}
	w.apply("{apiVersion: v1, kind: Pod, metadata: {name: foreign}, spec: {schedulerName: nobody, containers: [{name: a, image: \"postgres:15\"}]}}")
	pods := strings.Fields(w.kubectl("get", "pods", "-l", "pawl.dev/role=ro", "-o", "jsonpath={.items[*].metadata.name}"))
	manager, _, _ := w.managerPod(t.Context(), "orders")
	patch := func(account, pod, what string) (string, error) {
		return w.try("patch", "pod", pod, "--type=merge", "-p", what, "--dry-run=server", "--as=system:serviceaccount:"+w.namespace+":"+account, "--as-group=system:serviceaccounts")
	}
	label := func(key, value string) string {
		return fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, key, value)
	}
	const own, others, labels, nothing = "orders.manager.pawl.dev", "only label the instances of its own cluster", "may only change pawl.dev/role", "nothing of a pod but the label"
	w.await(time.Minute, "the rule is in force", func(context.Context) error {
		if out, err := patch(own, "foreign", label("a", `"b"`)); err == nil || !strings.Contains(out, others) {
			return fmt.Errorf("%w %s", err, out)
		}
		return nil
	})
	for _, c := range []struct{ account, pod, what, want string }{
		{own, pods[0], label("pawl.dev/role", `"rw"`), ""},
		{own, pods[0], label("pawl.dev/role", `null`), ""},
		{own, pods[0], label("pawl.dev/role", `"admin"`), labels},
		{own, pods[0], label("pawl.dev/cluster", `"stolen"`), labels},
		{own, pods[0], label("team", `null`), labels},
		{own, pods[0], `{"metadata":{"annotations":{"a":"b"}}}`, nothing},
		{own, pods[0], `{"metadata":{"finalizers":["a.b/c"]}}`, nothing},
		{own, pods[0], `{"metadata":{"ownerReferences":null}}`, nothing},
		{own, pods[0], `{"spec":{"activeDeadlineSeconds":1}}`, nothing},
		{own, pods[0], `{"spec":{"containers":[{"name":"engine","image":"evil"}]}}`, "is invalid"},
		{own, "foreign", label("pawl.dev/role", `"rw"`), others},
		{own, manager, label("pawl.dev/role", `"rw"`), others},
		{"other.manager.pawl.dev", pods[0], label("pawl.dev/role", `"rw"`), others},
		{"shop-manager", "foreign", label("a", `"b"`), ""}, // no cluster manager: RBAC alone says what it may
	} {
		out, err := patch(c.account, c.pod, c.what)
		if (err == nil) != (c.want == "") || !strings.Contains(out, c.want) {
			t.Errorf("%s: %s %s: %v %s, want %q", c.account, c.pod, c.what, err, out, c.want)
		}
	}
}

// The API server refuses settings of pods that cannot be, with the path of the field.
func TestBoundsOfPods(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	for n, c := range []struct{ spec, want string }{
		{"{podTemplate: {metadata: {labels: {pawl.dev/role: rw}}}}", "spec.podTemplate.metadata.labels: Invalid value"},
		{"{podTemplate: {metadata: {labels: {app.kubernetes.io/name: mine}}}}", "are the operator's: use another prefix"},
		{"{podTemplate: {metadata: {annotations: {x.pawl.dev/y: z}}}}", "annotations of pawl.dev are the operator's"},
		{"{podTemplate: {spec: {containers: []}}}", `unknown field "spec.podTemplate.spec.containers"`},
		{"{sharedMemory: 1Ki}", "sharedMemory is 1Mi at least"},
		{"{hugePages: 3Mi}", "hugePages is a multiple of 2Mi"},
		{"{hugePages: 0}", "hugePages is a multiple of 2Mi"},
		{"{hugePages: 500m}", "hugePages is a multiple of 2Mi"},
		{"{scheduling: {topologySpreadConstraints: [{topologyKey: a, maxSkew: 16}]}}", "spec.scheduling.topologySpreadConstraints[0].maxSkew"},
		{"{scheduling: {topologySpreadConstraints: [{topologyKey: a, whenUnsatisfiable: Sometimes}]}}", "whenUnsatisfiable"},
		{"{scheduling: {topologySpreadConstraints: [{topologyKey: a}, {topologyKey: a}]}}", "Duplicate value"},
		{"{scheduling: {topologySpreadConstraints: [{maxSkew: 1}]}}", "topologyKey: Required value"},
		{"{scheduling: {tolerations: [{key: [a]}]}}", "spec.scheduling.tolerations[0].key"},
		{"{hugePages: 1Gi, sharedMemory: 256Mi, podTemplate: {metadata: {labels: {team: a}}}, scheduling: {schedulerName: x, tolerations: [{operator: Exists}]}}", ""},
	} {
		file := filepath.Join(t.TempDir(), fmt.Sprint(n, ".yaml"))
		text := "apiVersion: pawl.dev/v1alpha1\nkind: SharedStorageCluster\nmetadata: {name: blue}\nspec: " + c.spec + "\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := w.try("create", "--dry-run=server", "-f", file)
		if (err == nil) != (c.want == "") || !strings.Contains(out, c.want) {
			t.Errorf("%s: %v %s", c.spec, err, out)
		}
	}
	if out := w.kubectl("explain", "ssc.spec.hugePages"); !strings.Contains(out, "pages of 2Mi") {
		t.Error(out)
	}
}
