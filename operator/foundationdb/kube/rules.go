package kube

import (
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

// Rules are the rights that the operator needs in each namespace that it serves, beside those that all operators need
// (leases, Events, and to see CustomResourceDefinitions come):
//
//	our three kinds   get, list, watch      get: past the cache, when it is behind
//	                  patch                 annotations and finalizers
//	  /status         patch                 one merge patch
//	  /finalizers     update                children whose owner reference keeps the owner from going first
//	children          get, list, watch      get: those of which the cache is behind
//	                  create, patch, delete
//	ConfigMaps        get, create, patch    by name; not watched
func Rules() []rbacv1.PolicyRule {
	group := []string{v1beta2.GroupVersion.Group}
	kinds := func(subresource string) (all []string) {
		for _, kind := range []string{"foundationdbclusters", "foundationdbbackups", "foundationdbrestores"} {
			all = append(all, kind+subresource)
		}
		return all
	}
	children := []string{"get", "list", "watch", "create", "patch", "delete"}
	return []rbacv1.PolicyRule{
		{APIGroups: group, Resources: kinds(""), Verbs: []string{"get", "list", "watch", "patch"}},
		{APIGroups: group, Resources: kinds("/status"), Verbs: []string{"patch"}},
		{APIGroups: group, Resources: kinds("/finalizers"), Verbs: []string{"update"}},
		{APIGroups: []string{""}, Resources: []string{"pods", "persistentvolumeclaims", "services"}, Verbs: children},
		{APIGroups: []string{"apps"}, Resources: []string{"deployments"}, Verbs: children},
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "create", "patch"}},
	}
}

// ShellRules are the rights for repairing coordinators that have moved (--fdb-fix-coordinator-ips).
func ShellRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods/exec"}, Verbs: []string{"get"}}}
}

// NodeRules are the rights for clusters that look at taints. They are cluster-wide.
func NodeRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"list", "watch"}}}
}
