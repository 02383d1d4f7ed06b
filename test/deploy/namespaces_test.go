package deploy_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	kuberuns "github.com/pawl-dev/pawl/kube/runstore"
	"github.com/pawl-dev/pawl/test/controlplane"
	"github.com/pawl-dev/pawl/test/deploy"
)

// rareRights are rights that the short tests below do not need.
var rareRights = map[string]string{
	"persistentvolumes: get": "for storage.volume",
	"configmaps: get":        "a definition, when its run was begun by an operator of another version",
}

// release is a release of the chart in its own namespace. Both are fixed: the API server
// gets its audit users at its start.
type release struct{ name, system string }

var (
	alone = release{"alone", "pawl-alone"} // runs in the namespace that it serves
	apart = release{"apart", "pawl-apart"} // serves one other namespace
	pair  = release{"pair", "pawl-pair"}   // serves two others
)

func (r release) fullname() string { return r.name + "-pawl" }

func (r release) account() string {
	return "system:serviceaccount:" + r.system + ":" + r.fullname()
}

// install installs a release that serves some namespaces, and waits for its operator.
func (r release) install(h *fixture, namespaces []string, values map[string]any) []*unstructured.Unstructured {
	h.t.Helper()
	values = maps.Clone(values)
	if values == nil {
		values = map[string]any{}
	}
	values["namespaces"], values["replicas"] = namespaces, 1
	values["crds"] = map[string]any{"install": false} // the plane has them
	ctx, cancel := context.WithTimeout(h.t.Context(), 4*time.Minute)
	defer cancel()
	objects, err := deploy.Chart(ctx, r.name, r.system, values)
	if err != nil {
		h.t.Fatal(err)
	}
	if _, err := deploy.Kubectl(ctx, h.plane, objects, "apply", "--server-side", "--force-conflicts"); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() {
		h.stopOperators()
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		if _, err := deploy.Kubectl(ctx, h.plane, objects, "delete"); err != nil {
			h.t.Error(err)
		}
	})
	h.awaitOperators()
	return objects
}

// makeSystem creates the namespace of a release.
func (h *fixture) makeSystem() {
	h.t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: h.system, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}}}
	if err := h.client.Create(h.t.Context(), ns); err != nil && !apierrors.IsAlreadyExists(err) {
		h.t.Fatal(err)
	}
}

// createCluster creates the cluster of the examples.
func (h *fixture) createCluster(namespace string, readers int32) {
	h.t.Helper()
	text, err := os.ReadFile("../../examples/sharedstorage/cluster.yaml")
	if err != nil {
		h.t.Fatal(err)
	}
	c := &v1alpha1.SharedStorageCluster{}
	if err := yaml.UnmarshalStrict(text, c); err != nil {
		h.t.Fatal(err)
	}
	c.Namespace, c.Spec.Readers = namespace, &readers
	if err := h.client.Create(h.t.Context(), c); err != nil {
		h.t.Fatal(err)
	}
}

// allowed reports whether a user may do something.
func (h *fixture) allowed(user string, groups []string, a authorizationv1.ResourceAttributes) bool {
	h.t.Helper()
	answer, err := h.plane.Client().AuthorizationV1().SubjectAccessReviews().Create(h.t.Context(), &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{User: user, Groups: groups, ResourceAttributes: &a},
	}, metav1.CreateOptions{})
	if err != nil {
		h.t.Fatal(err)
	}
	return answer.Status.Allowed
}

// checkConfined checks that an account may work in the namespaces it serves, and change
// nothing in another.
func (h *fixture) checkConfined(account string, served []string, other string) {
	h.t.Helper()
	for _, c := range []struct{ group, resource, name, verb string }{
		{"", "secrets", "orders-auth", "get"}, {"", "secrets", "orders-auth", "delete"}, {"", "pods", "", "create"}, {"", "pods", "orders-1", "delete"}, {"", "pods", "", "list"},
		{"apps", "deployments", "orders", "patch"}, {"rbac.authorization.k8s.io", "roles", "", "create"}, {"pawl.dev", "sharedstorageclusters", "orders", "patch"},
		{"", "configmaps", "mine", "get"}, {"coordination.k8s.io", "leases", "orders", "update"},
	} {
		a := authorizationv1.ResourceAttributes{Group: c.group, Resource: c.resource, Name: c.name, Verb: c.verb}
		for _, a.Namespace = range served {
			if !h.allowed(account, nil, a) {
				h.t.Errorf("%s may not %s %s in %s, which it serves", account, c.verb, c.resource, a.Namespace)
			}
		}
		for _, a.Namespace = range []string{other, ""} {
			if h.allowed(account, nil, a) {
				h.t.Errorf("%s may %s %s in %q", account, c.verb, c.resource, a.Namespace)
			}
		}
	}
}

// An operator of some namespaces runs the lifecycle of clusters there with a Role in each:
// nothing is refused, and it has no rights elsewhere.
func TestNamespaces(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test-long runs it")
	}
	h := newFixture(t, deploy.Namespace, deploy.Name)
	h.stopOperators() // these operators serve all namespaces
	t.Run("served", func(t *testing.T) {
		t.Run("its own, runs are ConfigMaps", func(t *testing.T) {
			t.Parallel()
			servesItsOwn(t)
		})
		t.Run("others", func(t *testing.T) {
			t.Parallel()
			// One after the other, because the machine has few cores.
			t.Run("one", servesAnother)
			t.Run("two", servesTwo)
		})
	})
}

func servesItsOwn(t *testing.T) {
	h := newFixture(t, alone.system, alone.fullname())
	other := h.namespace
	h.makeSystem()
	h.namespace = alone.system
	token := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: alone.system, Name: "scrape"}, StringData: map[string]string{"key": "secret"}}
	if err := h.client.Create(t.Context(), token); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	objects := alone.install(h, []string{alone.system}, map[string]any{
		"operator":  map[string]any{"runs": "ConfigMap"},
		"metrics":   map[string]any{"tokenSecret": map[string]any{"name": "scrape", "key": "key"}},
		"dashboard": map[string]any{"enabled": true}, "networkPolicy": map[string]any{"enabled": true},
	})
	h.runLifecycle(2)
	h.checkConfined(alone.account(), []string{alone.system}, other)
	h.stopOperators()
	h.archive(kuberuns.ConfigMap)

	granted, err := deploy.Given(objects, "Role", alone.system, alone.fullname())
	if err != nil {
		t.Fatal(err)
	}
	for _, right := range deploy.Unused(granted, h.operatorRequests()) {
		if right.Resource == "configmaps" && unusedRights[right.String()] == "" {
			t.Errorf("the operator has a right that it does not use: %s", right)
		}
	}
}

func servesAnother(t *testing.T) {
	h := newFixture(t, apart.system, apart.fullname())
	other := h.plane.Namespace(t)
	h.makeSystem()
	objects := apart.install(h, []string{h.namespace}, nil)
	h.createCluster(h.namespace, 0)
	h.awaitRunning("orders", 0, nil)
	h.kubectl("delete", "ssc/orders", "--timeout=4m")
	h.checkConfined(apart.account(), []string{h.namespace}, other)
	h.stopOperators()
	h.checkUsed(objects, "Role", h.system, h.operatorRequests())
}

func servesTwo(t *testing.T) {
	h := newFixture(t, pair.system, pair.fullname())
	second, other := h.plane.Namespace(t), h.plane.Namespace(t)
	h.makeSystem()
	objects := pair.install(h, []string{h.namespace, second}, nil)
	h.createCluster(other, 1)
	h.createCluster(second, 0)
	h.runLifecycle(1)
	h.parkWorkload()
	beside := *h
	beside.namespace = second
	beside.awaitRunning("orders", 0, nil)
	beside.kubectl("delete", "ssc/orders", "--timeout=4m")
	c := &v1alpha1.SharedStorageCluster{}
	if err := h.client.Get(t.Context(), client.ObjectKey{Namespace: other, Name: "orders"}, c); err != nil || c.Status.State != "" || len(c.Finalizers) > 0 {
		t.Errorf("a cluster that is not served: %+v, %v", c, err)
	}
	h.checkConfined(pair.account(), []string{h.namespace, second}, other)
	h.stopOperators()
	requests := h.operatorRequests()
	h.checkUsed(objects, "ClusterRole", "", requests)
	h.checkUsed(objects, "Role", h.system, requests)
}

// checkUsed checks that an operator used all rights of a role.
func (h *fixture) checkUsed(objects []*unstructured.Unstructured, kind, namespace string, requests []controlplane.Request) {
	h.t.Helper()
	granted, err := deploy.Given(objects, kind, namespace, h.name)
	if err != nil {
		h.t.Fatal(err)
	}
	there := slices.DeleteFunc(slices.Clone(requests), func(r controlplane.Request) bool { return r.Object.Namespace != namespace })
	for _, right := range deploy.Unused(granted, there) {
		asInstalled := strings.Replace(right.String(), " "+h.name+"-", " pawl-", 1) // names carry that of the release
		if unusedRights[asInstalled] == "" && rareRights[right.String()] == "" {
			h.t.Errorf("by %s %s/%s the operator has a right that it does not use: %s", kind, namespace, h.name, right)
		}
	}
}

// runLifecycle runs a cluster of one reader through a switch, a change of the number of
// readers, and its deletion.
func (h *fixture) runLifecycle(readers int32) {
	h.t.Helper()
	h.step("a cluster of one reader", func() {
		h.createCluster(h.namespace, 1)
		h.awaitRunning("orders", 1, nil)
	})
	h.step(fmt.Sprintf("a switch, and %d readers", readers), func() {
		h.kubectl("annotate", "ssc", "orders", "pawl.dev/switch-writer=2")
		h.kubectl("patch", "ssc", "orders", "--type=merge", "-p", fmt.Sprintf(`{"spec":{"readers":%d}}`, readers))
		h.awaitRunning("orders", readers, carriedOut("switch-writer"))
	})
	h.step("delete", func() { h.kubectl("delete", "ssc/orders", "--timeout=4m") })
}
