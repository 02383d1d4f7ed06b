package deploy_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/test/await"
	"github.com/pawl-dev/pawl/test/controlplane"
	"github.com/pawl-dev/pawl/test/controlplane/kubelet"
	"github.com/pawl-dev/pawl/test/deploy"
)

var suite = controlplane.NewSuite(options())

func options() controlplane.Options {
	images, err := controlplane.Images("")
	if err != nil {
		panic(err)
	}
	return controlplane.Options{
		CRDs:  []string{"../../deploy/crds", "../../deploy/mpd"},
		Audit: []string{deploy.Account, alone.account(), apart.account(), pair.account()},
		// As on OpenShift: a client that sets a blocking owner reference needs the right to set
		// finalizers of the owner.
		Admission: []string{"OwnerReferencesPermissionEnforcement"},
		Keep:      os.Getenv("KEEP") != "",
		Kubelet:   kubelet.Options{Mode: kubelet.Process, Nodes: 3, Images: images, Users: controlplane.Users(), Lease: 2 * time.Second},
	}
}

func TestMain(m *testing.M) { suite.Main(m) }

// fixture is a plane with the Deployment of the operator and a namespace for clusters.
type fixture struct {
	t            *testing.T
	plane        *controlplane.Plane
	system, name string
	namespace    string
	client       client.Client
}

// newFixture returns a fixture without operators, but with their dependencies.
func newFixture(t *testing.T, system, name string) *fixture {
	t.Helper()
	if _, err := os.Stat("/usr/lib/postgresql/15/bin/postgres"); err != nil {
		t.Skip("PostgreSQL 15 of Debian is not installed: apt-get install postgresql-15")
	}
	h := &fixture{t: t, plane: suite.Plane(t), system: system, name: name}
	s := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(s), v1alpha1.AddToScheme(s)); err != nil {
		t.Fatal(err)
	}
	var err error
	if h.client, err = client.New(h.plane.Config(), client.Options{Scheme: s}); err != nil {
		t.Fatal(err)
	}
	h.namespace = h.plane.Namespace(t)
	t.Cleanup(func() {
		if t.Failed() {
			h.logState()
		}
	})
	return h
}

// installManifest applies install.yaml and waits for its operators.
func installManifest(t *testing.T) *fixture {
	t.Helper()
	h := newFixture(t, deploy.Namespace, deploy.Name)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := deploy.Install(ctx, h.plane, nil); err != nil {
		t.Fatal(err)
	}
	h.awaitOperators()
	return h
}

// awaitOperators waits until the operators are rolled out.
func (h *fixture) awaitOperators() {
	h.t.Helper()
	h.kubectl("rollout", "status", "-n", h.system, "deployment/"+h.name, "--timeout=4m")
}

// stopOperators scales the Deployment of the operators to zero.
func (h *fixture) stopOperators() {
	h.t.Helper()
	if len(h.operators()) == 0 {
		return
	}
	h.kubectl("scale", "-n", h.system, "deployment", "-l", "app.kubernetes.io/component=operator", "--replicas=0")
	h.await(2*time.Minute, "the operators have ended", func(context.Context) error {
		if pods := h.operators(); len(pods) > 0 {
			return fmt.Errorf("%d are there", len(pods))
		}
		return nil
	})
}

func (h *fixture) try(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	if !slices.Contains(args, "-n") {
		args = append([]string{"-n", h.namespace}, args...)
	}
	cmd := exec.CommandContext(ctx, h.plane.Binaries.Kubectl, append([]string{"--kubeconfig", h.plane.Kubeconfig()}, args...)...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

// kubectl runs kubectl and returns its output.
func (h *fixture) kubectl(args ...string) string {
	h.t.Helper()
	out, err := h.try(args...)
	if err != nil {
		h.t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func (h *fixture) await(limit time.Duration, what string, holds func(ctx context.Context) error) {
	h.t.Helper()
	await.Until(h.t, limit, what, holds)
}

// awaitRunning waits until a cluster is Running with the given number of readers and its
// newest spec.
func (h *fixture) awaitRunning(name string, readers int32, also func(*v1alpha1.SharedStorageCluster) error) (c *v1alpha1.SharedStorageCluster) {
	h.t.Helper()
	h.await(4*time.Minute, fmt.Sprintf("%s is Running with %d readers", name, readers), func(ctx context.Context) error {
		c = &v1alpha1.SharedStorageCluster{}
		if err := h.client.Get(ctx, client.ObjectKey{Namespace: h.namespace, Name: name}, c); err != nil {
			return err
		}
		s := c.Status
		ready := slices.ContainsFunc(s.Conditions, func(c metav1.Condition) bool { return c.Type == "Ready" && c.Status == metav1.ConditionTrue })
		if s.State != "Running" || s.ObservedGeneration != c.Generation || s.Readers != readers || !ready {
			return fmt.Errorf("%s %s %q, generation %d of %d, %d readers, ready %t", s.State, s.Reason, s.Message, s.ObservedGeneration, c.Generation, s.Readers, ready)
		}
		if also != nil {
			return also(c)
		}
		return nil
	})
	return c
}

// carriedOut returns a check that all requests of some kinds were carried out.
func carriedOut(kinds ...string) func(*v1alpha1.SharedStorageCluster) error {
	return func(c *v1alpha1.SharedStorageCluster) error {
		for _, kind := range kinds {
			if !slices.ContainsFunc(c.Status.Requests, func(r v1alpha1.RequestStatus) bool { return r.Kind == kind && r.State == "Done" }) {
				return fmt.Errorf("%s is not done; the requests are %+v", kind, c.Status.Requests)
			}
		}
		return nil
	}
}

// operators returns the operator's pods.
func (h *fixture) operators() []corev1.Pod {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second) // also during cleanup
	defer cancel()
	var pods corev1.PodList
	if err := h.client.List(ctx, &pods, client.InNamespace(h.system), client.MatchingLabels{"app.kubernetes.io/component": "operator"}); err != nil {
		h.t.Fatal(err)
	}
	return pods.Items
}

// logState logs the state after a failed test.
func (h *fixture) logState() {
	for _, pod := range h.operators() {
		text, _ := os.ReadFile(h.plane.Kubelet.LogFile(h.system, pod.Name, "operator"))
		h.t.Logf("%s said:\n%s", pod.Name, text[max(0, len(text)-6_000):])
	}
	for _, args := range [][]string{{"get", "pods", "-n", h.system, "-o", "wide"}, {"get", "ssc,mpdclusters,runs,pods,pvc,deploy", "-o", "wide"}, {"describe", "ssc"}, {"get", "events"}} {
		out, _ := h.try(args...)
		h.t.Logf("kubectl %v\n%s", args, out[max(0, len(out)-6_000):])
	}
}
