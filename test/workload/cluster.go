package workload

import (
	"cmp"
	"context"
	"encoding/json"
	"os"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/kube/workload"
	"github.com/pawl-dev/pawl/rollout"
)

// Where the conformance suite runs beside the control plane of the tests.
const (
	// KubeconfigVariable names a cluster with workload controllers of its own.
	KubeconfigVariable = "PAWL_TEST_KUBECONFIG"
	// ImageVariable is the image of the pods there, which runs without arguments. Default: DefaultImage.
	ImageVariable = "PAWL_TEST_IMAGE"
	DefaultImage  = "registry.k8s.io/pause:3.10"
)

// On a cluster with real kubelets all templates have one image: an annotation tells them apart, and a
// readiness gate, which the suite closes for a broken template, says which pods are ready.
const (
	templateAnnotation = "pawl.dev/template"
	gateCondition      = "pawl.dev/conformance"
)

// Cluster is a cluster that somebody else runs.
type Cluster struct {
	config *rest.Config
	client kubernetes.Interface
	image  string
}

// Open reads a kubeconfig.
func Open(t testing.TB, kubeconfig string) *Cluster {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return &Cluster{config: config, client: c, image: cmp.Or(os.Getenv(ImageVariable), DefaultImage)}
}

// New makes a workload with template r1 in a namespace of its own, and waits until its pods are ready. A
// kind that the cluster does not serve skips the test.
func (c *Cluster) New(t testing.TB, kind rollout.Kind, replicas int, parallel bool) *Subject {
	t.Helper()
	reader, err := client.New(c.config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ref := refs[kind]
	gvk := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	if _, err := reader.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version); meta.IsNoMatchError(err) {
		t.Skipf("the cluster does not serve %s of %s", ref.Kind, ref.APIVersion)
	} else if err != nil {
		t.Fatal(err)
	}
	ns, err := c.client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "pawl-conformance-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.client.CoreV1().Namespaces().Delete(context.Background(), ns.Name, metav1.DeleteOptions{}); err != nil {
			t.Errorf("namespace %s is left: %v", ns.Name, err)
		}
	})
	s := &Subject{t: t, client: reader, namespace: ns.Name, broken: map[string]bool{}, image: c.image}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.openGates(ctx, c.client)
	}()
	t.Cleanup(func() { cancel(); <-ended })
	s.fill(kind, replicas, shape{parallel: parallel})
	return s
}

// openGates keeps the readiness gate of each pod open as long as its template is not broken.
func (s *Subject) openGates(ctx context.Context, c kubernetes.Interface) {
	look := time.NewTicker(200 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
		pods, err := c.CoreV1().Pods(s.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			continue // the test fails by its patience
		}
		for i := range pods.Items {
			s.openGate(ctx, c, &pods.Items[i])
		}
	}
}

func (s *Subject) openGate(ctx context.Context, c kubernetes.Interface, p *corev1.Pod) {
	s.mu.Lock()
	want := corev1.ConditionTrue
	if s.broken[p.Annotations[templateAnnotation]] {
		want = corev1.ConditionFalse
	}
	s.mu.Unlock()
	if slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == gateCondition && c.Status == want }) {
		return
	}
	text, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": p.UID}, "status": map[string]any{"conditions": []corev1.PodCondition{{
		Type: gateCondition, Status: want, LastTransitionTime: metav1.Now(),
	}}}})
	if err != nil {
		panic(err) // plain values
	}
	_, err = c.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, types.StrategicMergePatchType, text, metav1.PatchOptions{}, "status")
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && ctx.Err() == nil {
		s.t.Errorf("the gate of pod %s: %v", p.Name, err)
	}
}

// identity is the Rollout of a subject: a ConfigMap.
func (s *Subject) identity(owner *corev1.ConfigMap) workload.Identity {
	return workload.Identity{Namespace: s.namespace, Name: Owner, UID: owner.UID, APIVersion: "v1", Kind: "ConfigMap"}
}
