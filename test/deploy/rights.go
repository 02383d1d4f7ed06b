package deploy

import (
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pawl-dev/pawl/test/controlplane"
)

// Right is one right of a role: a verb on a resource, optionally limited to one name.
type Right struct{ Group, Resource, Name, Verb string }

func (r Right) String() string {
	text := strings.Trim(r.Group+"/"+r.Resource, "/")
	if r.Name != "" {
		text += " " + r.Name
	}
	return text + ": " + r.Verb
}

// Granted returns the rights of the operator's ClusterRole in install.yaml.
func Granted() ([]Right, error) {
	objects, err := Manifest()
	if err != nil {
		return nil, err
	}
	return Given(objects, "ClusterRole", "", Name)
}

// Given returns the rights of a Role or ClusterRole among objects.
func Given(objects []*unstructured.Unstructured, kind, namespace, name string) (all []Right, err error) {
	n := slices.IndexFunc(objects, func(u *unstructured.Unstructured) bool {
		return u.GetKind() == kind && u.GetNamespace() == namespace && u.GetName() == name
	})
	if n < 0 {
		return nil, fmt.Errorf("there is no %s %s/%s", kind, namespace, name)
	}
	role := &rbacv1.ClusterRole{} // a Role has the same rules
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(objects[n].Object, role); err != nil {
		return nil, err
	}
	for _, rule := range role.Rules {
		names := rule.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, name := range names {
					for _, verb := range rule.Verbs {
						if slices.Contains([]string{group, resource, verb}, "*") {
							return nil, fmt.Errorf("the role gives %v: all of something", rule)
						}
						all = append(all, Right{group, resource, name, verb})
					}
				}
			}
		}
	}
	return all, nil
}

// Refused returns the forbidden requests, except creates in a terminating namespace. The
// audit log has no messages for metadata-only requests, such as those of the run store.
func Refused(requests []controlplane.Request) (all []controlplane.Request) {
	for _, r := range requests {
		said := r.Response.Message
		if r.Annotations["authorization.k8s.io/decision"] == "forbid" || r.Response.Code == 403 && said != "" && !strings.Contains(said, "being terminated") {
			all = append(all, r)
		}
	}
	return all
}

// Unused returns the rights that no request needed.
func Unused(granted []Right, requests []controlplane.Request) (all []Right) {
	for _, right := range granted {
		if !slices.ContainsFunc(requests, right.needed) {
			all = append(all, right)
		}
	}
	return all
}

// needed reports whether a request would be refused without a right.
func (r Right) needed(q controlplane.Request) bool {
	resource := q.Object.Resource
	if q.Object.Subresource != "" {
		resource += "/" + q.Object.Subresource
	}
	verb := q.Verb == r.Verb || r.Verb == "create" && q.Verb == "patch" && q.Response.Code == 201 // an apply that creates needs both
	return verb && q.Object.Group == r.Group && resource == r.Resource && (r.Name == "" || r.Name == q.Object.Name)
}
