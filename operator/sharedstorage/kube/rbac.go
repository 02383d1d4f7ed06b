package kube

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// The permissions of the agents and the manager of a cluster.
func agentRules(c port.Ref) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, ResourceNames: []string{grantName(c)}, Verbs: []string{"get", "update"}}}
}

func managerRules(c port.Ref) []rbacv1.PolicyRule {
	return append(agentRules(c),
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{managerName(c)}, Verbs: []string{"get", "update"}},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list", "patch"}}, // for the role label: an admission rule allows no more (deploy/chart/templates/managers.yaml)
	)
}

// rbacRules creates all objects of a cluster except volumes, instances and the manager. Restore
// corrects later changes.
func (s *Placement) rbacRules(ctx context.Context, c port.Ref) error {
	if _, err := s.secretsOf(ctx, c, true); err != nil {
		return err
	}
	for _, obj := range s.clusterObjects(c) {
		if _, err := s.restoreObject(ctx, c, obj); err != nil {
			return err
		}
	}
	return nil
}

// removeClusterObjects deletes them.
func (s *Placement) removeClusterObjects(ctx context.Context, c port.Ref) error {
	for _, obj := range append(s.clusterObjects(c), budget(c, 0), &corev1.Secret{ObjectMeta: meta(c, secretName(c), "")},
		&corev1.Secret{ObjectMeta: meta(c, certificateName(c, sharedstorage.ServerCertificate), "")}, &corev1.Secret{ObjectMeta: meta(c, certificateName(c, sharedstorage.Authority), "")}) {
		if err := s.remove(ctx, obj); err != nil {
			return err
		}
		s.applied.mu.Lock()
		delete(s.applied.version, s.keyOf(obj))
		s.applied.mu.Unlock()
	}
	return nil
}

func (s *Placement) clusterObjects(c port.Ref) []client.Object {
	var all []client.Object
	for name, rules := range map[string][]rbacv1.PolicyRule{instanceAccount(c): agentRules(c), managerAccount(c): managerRules(c)} {
		all = append(all,
			&corev1.ServiceAccount{ObjectMeta: meta(c, name, "")},
			&rbacv1.Role{ObjectMeta: meta(c, name, ""), Rules: rules},
			&rbacv1.RoleBinding{ObjectMeta: meta(c, name, ""), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
				Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: name, Namespace: c.Namespace}}})
	}
	for _, role := range []port.Type{port.Writer, port.Reader} {
		all = append(all, &corev1.Service{ObjectMeta: meta(c, c.Name+"-"+string(role), ""), Spec: corev1.ServiceSpec{
			Selector: map[string]string{ClusterLabel: c.Name, ComponentLabel: instanceComponent, RoleLabel: string(role)},
			Ports:    []corev1.ServicePort{{Name: "engine", Port: enginePort, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromString("engine")}},
		}})
	}
	return all
}
