package deploy_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/test/deploy"
)

// People have access to Pawl's kinds by the default roles of Kubernetes: view reads, edit
// changes, and only admin deletes whole collections. None may write status and history.
func TestPeople(t *testing.T) {
	h := newFixture(t, deploy.Namespace, deploy.Name)
	elsewhere := h.plane.Namespace(t)
	if err := deploy.Rights(t.Context(), h.plane); err != nil {
		t.Fatal(err)
	}
	reads, changes, ends := []string{"get", "list", "watch"}, []string{"create", "update", "patch", "delete"}, []string{"deletecollection"}
	may := map[string][]string{
		"view":  reads,
		"edit":  slices.Concat(reads, changes),
		"admin": slices.Concat(reads, changes, ends),
		"":      nil,
	}
	kinds := []struct {
		group, resource, sub string
		most                 []string // the maximum verbs of the role
	}{
		{"pawl.dev", "sharedstorageclusters", "", may["admin"]},
		{"pawl.dev", "sharedstoragebackups", "", may["admin"]},
		{"pawl.dev", "runs", "", may["admin"]},
		{"mpd.polardb.aliyun.com", "mpdclusters", "", may["admin"]},
		{"pawl.dev", "runhistories", "", reads},
		{"pawl.dev", "sharedstorageclusters", "status", nil},
		{"pawl.dev", "sharedstoragebackups", "status", nil},
		{"pawl.dev", "runs", "status", nil},
		{"mpd.polardb.aliyun.com", "mpdclusters", "status", nil},
	}
	for role := range may {
		if role == "" {
			continue
		}
		if _, err := h.plane.Client().RbacV1().RoleBindings(h.namespace).Create(t.Context(), &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "who-may-" + role},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "who-may-" + role}},
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	// A controller aggregates roles, and the API server reads bindings by a watch: wait.
	h.await(time.Minute, "the roles have taken in Pawl's kinds", func(context.Context) error {
		for role, verb := range map[string]string{"view": "list", "edit": "patch", "admin": "deletecollection"} {
			for _, kind := range kinds[:3] {
				if !h.allowed("who-may-"+role, nil, authorizationv1.ResourceAttributes{Namespace: h.namespace, Group: kind.group, Resource: kind.resource, Verb: verb}) {
					return fmt.Errorf("who may %s may not %s %s", role, verb, kind.resource)
				}
			}
		}
		return nil
	})
	for role, verbs := range may {
		for _, kind := range kinds {
			for _, verb := range may["admin"] {
				a := authorizationv1.ResourceAttributes{Namespace: h.namespace, Group: kind.group, Resource: kind.resource, Subresource: kind.sub, Verb: verb}
				want := slices.Contains(verbs, verb) && slices.Contains(kind.most, verb)
				if got := h.allowed("who-may-"+role, nil, a); got != want {
					t.Errorf("who may %q: %s %s/%s is allowed: %t, want %t", role, verb, kind.resource, kind.sub, got, want)
				}
				a.Namespace = elsewhere
				if h.allowed("who-may-"+role, nil, a) {
					t.Errorf("who may %q in one namespace may %s %s/%s in another", role, verb, kind.resource, kind.sub)
				}
			}
		}
	}
	// As a person asks.
	for _, kind := range []string{"ssc", "runs", "mpdclusters"} {
		if out := h.kubectl("auth", "can-i", "create", kind, "--as=who-may-edit"); out != "yes\n" {
			t.Errorf("may who may edit create %s? %s", kind, out)
		}
		if out, err := h.try("auth", "can-i", "create", kind, "--as=who-may-view"); err == nil || out != "no\n" {
			t.Errorf("may who may view create %s? %s %v", kind, out, err)
		}
	}
}
