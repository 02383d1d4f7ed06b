package kube

import (
	"cmp"
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// constraints returns all that an instance is spread over: want.Spread first.
func constraints(want port.Instance) (all []v1alpha1.SpreadConstraint) {
	if want.Spread != "" {
		one := v1alpha1.SpreadConstraint{TopologyKey: want.Spread}
		if want.SpreadAnyway {
			one.WhenUnsatisfiable = string(corev1.ScheduleAnyway)
		}
		all = append(all, one)
	}
	return append(all, sharedstorage.PodSettingsOf(want.Pod).Spread...)
}

// spread spreads a pod over the values of topology keys. A spread is required where the nodes have
// at least two values, because failover needs a reader apart from the writer. It is a preference
// for a pod whose volume exists already (bound): where that can be reached is not known here.
//
// Nodes with taints that the pod does not tolerate do not count, so that the loss of a node does not
// hold back a pod.
func (s *Placement) spread(ctx context.Context, c port.Ref, pod *corev1.Pod, want port.Instance, bound bool) error {
	all := constraints(want)
	if len(all) == 0 {
		return nil
	}
	nodes, err := s.nodes(ctx, sharedstorage.PodSettingsOf(want.Pod).Tolerations...)
	if err != nil {
		return err
	}
	instances := &metav1.LabelSelector{MatchLabels: map[string]string{ClusterLabel: c.Name, ComponentLabel: instanceComponent}}
	writer := &metav1.LabelSelector{MatchLabels: map[string]string{ClusterLabel: c.Name, RoleLabel: string(port.Writer)}}
	if pod.Spec.Affinity == nil {
		pod.Spec.Affinity = &corev1.Affinity{}
	}
	if pod.Spec.Affinity.PodAntiAffinity == nil {
		pod.Spec.Affinity.PodAntiAffinity = &corev1.PodAntiAffinity{}
	}
	apart := pod.Spec.Affinity.PodAntiAffinity
	for _, one := range all {
		rule := corev1.ScheduleAnyway
		if !bound && one.WhenUnsatisfiable != string(corev1.ScheduleAnyway) && values(nodes, want.NodeSelector, one.TopologyKey) >= 2 {
			rule = corev1.DoNotSchedule
		}
		pod.Spec.TopologySpreadConstraints = append(pod.Spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
			MaxSkew: cmp.Or(one.MaxSkew, 1), TopologyKey: one.TopologyKey, WhenUnsatisfiable: rule, LabelSelector: instances, NodeTaintsPolicy: ptr(corev1.NodeInclusionPolicyHonor),
		})
		// An even spread may still put a new reader beside the writer.
		apart.PreferredDuringSchedulingIgnoredDuringExecution = append(apart.PreferredDuringSchedulingIgnoredDuringExecution, corev1.WeightedPodAffinityTerm{
			Weight: 100, PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: one.TopologyKey, LabelSelector: writer},
		})
	}
	return nil
}

// values counts the values of a topology key among the nodes that can take an instance.
func values(nodes []port.Node, selector map[string]string, key string) int {
	found := map[string]bool{}
	for _, n := range nodes {
		fits := n.Ready && n.Schedulable
		for label, value := range selector {
			fits = fits && n.Labels[label] == value
		}
		if value := n.Labels[key]; fits && value != "" {
			found[value] = true
		}
	}
	return len(found)
}
