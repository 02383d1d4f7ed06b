// Package workload runs the conformance suite of rollout.Workload on real controllers: New makes a
// workload with pods on paper, which package kruise uses too. With PAWL_TEST_KUBECONFIG the suite runs on
// the cluster of that file, with the controllers that it has, and skips the kinds that it does not serve:
//
//	PAWL_TEST_KUBECONFIG=$HOME/.kube/config go -C test test ./workload/ -run TestCluster -count=1 -v
//
// Each test makes a namespace pawl-conformance-* and deletes it. Its pods run PAWL_TEST_IMAGE.
package workload

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/kube/workload"
	"github.com/pawl-dev/pawl/rollout"
	"github.com/pawl-dev/pawl/test/controlplane"
	"github.com/pawl-dev/pawl/test/deploy"
)

// Subject is a workload in a namespace of its own. Its Rollout is a ConfigMap: what counts is that it
// is an owner with a UID.
type Subject struct {
	*workload.Workload
	t         testing.TB
	client    client.Client
	namespace string

	image string // of all pods, on a cluster that somebody else runs

	mu     sync.Mutex
	broken map[string]bool
}

// Owner is the name of the ConfigMap that stands for the Rollout.
const Owner = "etcd"

// refs are the versions of each kind in tests.
var refs = map[rollout.Kind]workload.Ref{
	rollout.StatefulSet:         {APIVersion: "apps/v1", Kind: "StatefulSet", Name: "db"},
	rollout.Deployment:          {APIVersion: "apps/v1", Kind: "Deployment", Name: "db"},
	rollout.AdvancedStatefulSet: {APIVersion: "apps.kruise.io/v1beta1", Kind: "StatefulSet", Name: "db"},
	rollout.CloneSet:            {APIVersion: "apps.kruise.io/v1alpha1", Kind: "CloneSet", Name: "db"},
}

// New makes a workload with template r1, and waits until its pods are ready.
func New(t testing.TB, plane *controlplane.Plane, kind rollout.Kind, replicas int, parallel bool) *Subject {
	t.Helper()
	return newSubject(t, plane, kind, replicas, shape{parallel: parallel})
}

// Unordered makes an Advanced StatefulSet whose updates follow no ordinals.
func Unordered(t testing.TB, plane *controlplane.Plane, replicas int) *Subject {
	t.Helper()
	return newSubject(t, plane, rollout.AdvancedStatefulSet, replicas, shape{parallel: true, unordered: true})
}

// shape is how a set with ordinals treats them.
type shape struct{ parallel, unordered bool }

func newSubject(t testing.TB, plane *controlplane.Plane, kind rollout.Kind, replicas int, as shape) *Subject {
	t.Helper()
	config, _, err := plane.User(deploy.Account, "system:masters") // the admission rules, where they are installed, let it through
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	c, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := &Subject{t: t, client: c, namespace: plane.Namespace(t), broken: map[string]bool{}}
	plane.Kubelet.Decide(s.namespace, func(p *corev1.Pod) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return !s.broken[p.Spec.Containers[0].Image]
	})
	s.fill(kind, replicas, as)
	return s
}

// fill makes the owner and the workload, and waits until its pods are ready.
func (s *Subject) fill(kind rollout.Kind, replicas int, as shape) {
	s.t.Helper()
	s.Workload = &workload.Workload{Client: s.client, Target: refs[kind], Rollout: s.identity(s.configMap(Owner))}
	s.create(refs[kind], replicas, as)
	s.awaitReady(replicas)
}

func (s *Subject) configMap(name string) *corev1.ConfigMap {
	s.t.Helper()
	o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
	if err := s.client.Create(context.Background(), o); err != nil {
		s.t.Fatal(err)
	}
	return o
}

// create makes a workload whose pods have the image r1.
func (s *Subject) create(ref workload.Ref, replicas int, as shape) {
	s.t.Helper()
	labels := map[string]any{"app": ref.Name}
	spec := map[string]any{
		"replicas": int64(replicas),
		"selector": map[string]any{"matchLabels": labels},
		"template": map[string]any{
			"metadata": map[string]any{"labels": labels},
			"spec":     map[string]any{"terminationGracePeriodSeconds": int64(1), "containers": []any{map[string]any{"name": "main", "image": cmp.Or(s.image, "r1")}}},
		},
	}
	if s.image != "" {
		template := spec["template"].(map[string]any)
		template["metadata"].(map[string]any)["annotations"] = map[string]any{templateAnnotation: "r1"}
		template["spec"].(map[string]any)["readinessGates"] = []any{map[string]any{"conditionType": gateCondition}}
	}
	if ref.Kind == "StatefulSet" {
		spec["serviceName"] = ref.Name
		if as.parallel {
			spec["podManagementPolicy"] = "Parallel"
		}
		if as.unordered {
			spec["updateStrategy"] = map[string]any{"type": "RollingUpdate", "rollingUpdate": map[string]any{"unorderedUpdate": map[string]any{}}}
		}
	}
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": ref.APIVersion, "kind": ref.Kind, "metadata": map[string]any{"namespace": s.namespace, "name": ref.Name}, "spec": spec,
	}}
	if err := s.client.Create(context.Background(), o); err != nil {
		s.t.Fatal(err)
	}
}

func (s *Subject) awaitReady(replicas int) {
	s.t.Helper()
	for end := time.Now().Add(time.Minute); ; s.Work() {
		f, err := s.Observe(context.Background())
		if err != nil {
			s.t.Fatal(err)
		}
		ready := 0
		for _, p := range f.Pods {
			if p.Ready {
				ready++
			}
		}
		if ready == replicas && f.Target.ObservedGeneration == f.Target.Generation && f.Target.CurrentRevision == f.Target.UpdateRevision {
			return
		}
		if time.Now().After(end) {
			s.t.Fatalf("%d of %d pods are ready: %+v", ready, replicas, *f.Target)
		}
	}
}

// patch is a merge patch of the target, as kubectl does it.
func (s *Subject) patch(text string) {
	s.t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": s.Target.APIVersion, "kind": s.Target.Kind}}
	o.SetNamespace(s.namespace)
	o.SetName(s.Target.Name)
	if err := s.client.Patch(context.Background(), o, client.RawPatch(types.MergePatchType, []byte(text))); err != nil {
		s.t.Fatal(err)
	}
}

// SetTemplate writes an image, or the annotation that stands for it.
func (s *Subject) SetTemplate(template string) {
	s.t.Helper()
	if s.image != "" {
		s.patch(fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{%q:%q}}}}}`, templateAnnotation, template))
		return
	}
	s.patch(fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":"main","image":%q}]}}}}`, template))
}

// Scale writes the number of replicas.
func (s *Subject) Scale(replicas int) {
	s.t.Helper()
	s.patch(fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas))
}

// Break makes pods with an image never ready.
func (s *Subject) Break(template string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken[template] = true
}

// Own makes another ConfigMap the controller of the workload; gone: one that does not exist, beside
// the anchor, which keeps the workload.
func (s *Subject) Own(gone bool) {
	s.t.Helper()
	uid, more := types.UID("00000000-0000-0000-0000-000000000000"), ""
	if gone {
		anchor := s.configMap(workload.AnchorName)
		more = fmt.Sprintf(`,{"apiVersion":"v1","kind":"ConfigMap","name":%q,"uid":%q}`, workload.AnchorName, anchor.UID)
	} else {
		uid = s.configMap("another").UID
	}
	s.patch(fmt.Sprintf(`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"another","uid":%q,"controller":true}%s]}}`, uid, more))
}

// Work lets the controllers work for a moment.
func (s *Subject) Work() { time.Sleep(100 * time.Millisecond) }

// Now is the time.
func (s *Subject) Now() time.Time { return time.Now() }

// DeleteOwner deletes the Rollout with a propagation policy.
func (s *Subject) DeleteOwner(policy metav1.DeletionPropagation) {
	s.t.Helper()
	o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: Owner}}
	if err := s.client.Delete(context.Background(), o, &client.DeleteOptions{PropagationPolicy: &policy}); err != nil {
		s.t.Fatal(err)
	}
}

// Second makes a second Deployment without pods the target; the first becomes the source.
func (s *Subject) Second(name, template string) {
	s.t.Helper()
	source := s.Target
	s.Target = workload.Ref{APIVersion: source.APIVersion, Kind: source.Kind, Name: name}
	s.create(s.Target, 0, shape{parallel: true})
	s.SetTemplate(template)
	s.Sources = []workload.Ref{source}
}
