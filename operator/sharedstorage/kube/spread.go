package kube

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// spread spreads a pod over the values of want.Spread. The spread is required where the nodes have
// at least two values, because failover needs a reader apart from the writer. It is a preference
// for a pod whose volume exists already (bound): where that can be reached is not known here.
//
// Nodes with taints do not count, so that the loss of a node does not hold back a pod.
func (s *Placement) spread(ctx context.Context, c port.Ref, pod *corev1.Pod, want port.Instance, bound bool) error {
	if want.Spread == "" {
		return nil
	}
	nodes, err := s.nodes(ctx)
	if err != nil {
		return err
	}
	rule := corev1.ScheduleAnyway
	if !bound && !want.SpreadAnyway && values(nodes, want) >= 2 {
		rule = corev1.DoNotSchedule
	}
	instances := &metav1.LabelSelector{MatchLabels: map[string]string{ClusterLabel: c.Name, ComponentLabel: instanceComponent}}
	pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: want.Spread, WhenUnsatisfiable: rule, LabelSelector: instances, NodeTaintsPolicy: ptr(corev1.NodeInclusionPolicyHonor),
	}}
	// An even spread may still put a new reader beside the writer.
	writer := &metav1.LabelSelector{MatchLabels: map[string]string{ClusterLabel: c.Name, RoleLabel: string(port.Writer)}}
	if pod.Spec.Affinity == nil {
		pod.Spec.Affinity = &corev1.Affinity{}
	}
	pod.Spec.Affinity.PodAntiAffinity = &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{
		Weight: 100, PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: want.Spread, LabelSelector: writer},
	}}}
	return nil
}

// values counts the values of the topology key among the nodes that can take the instance.
func values(nodes []port.Node, want port.Instance) int {
	found := map[string]bool{}
	for _, n := range nodes {
		fits := n.Ready && n.Schedulable
		for key, value := range want.NodeSelector {
			fits = fits && n.Labels[key] == value
		}
		if value := n.Labels[want.Spread]; fits && value != "" {
			found[value] = true
		}
	}
	return len(found)
}
