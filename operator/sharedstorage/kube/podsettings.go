package kube

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

const hugePages = corev1.ResourceName(corev1.ResourceHugePagesPrefix + "2Mi")

// applySettings merges what a spec asks of pods into the pod of an instance. What the operator sets
// stays; of annotations that it only suggests, such as those of Prometheus, the spec's win.
func applySettings(pod *corev1.Pod, p sharedstorage.PodSettings) {
	pod.Labels, pod.Annotations = merged(p.Labels, pod.Labels), merged(pod.Annotations, p.Annotations)
	s := &pod.Spec
	s.Tolerations, s.PriorityClassName, s.SchedulerName, s.ImagePullSecrets = p.Tolerations, p.PriorityClassName, p.SchedulerName, p.ImagePullSecrets
	s.Affinity, s.HostAliases, s.DNSConfig = p.Affinity.DeepCopy(), p.HostAliases, p.DNSConfig
	if p.RuntimeClassName != "" {
		s.RuntimeClassName = &p.RuntimeClassName
	}
	for n := range s.Volumes {
		if s.Volumes[n].Name == "shared-memory" && p.SharedMemory > 0 {
			s.Volumes[n].EmptyDir.SizeLimit = resource.NewQuantity(p.SharedMemory, resource.BinarySI)
		}
	}
}

// applyToManager merges it into the pod of a cluster manager, whose affinity is the operator's.
func applyToManager(t *corev1.PodTemplateSpec, p sharedstorage.PodSettings) {
	t.Labels, t.Annotations = merged(p.Labels, t.Labels), merged(t.Annotations, p.Annotations)
	t.Spec.Tolerations = append(t.Spec.Tolerations, p.Tolerations...)
	t.Spec.PriorityClassName, t.Spec.SchedulerName, t.Spec.ImagePullSecrets = p.PriorityClassName, p.SchedulerName, p.ImagePullSecrets
}

// merged returns the entries of both; of equal keys those of last.
func merged(first, last map[string]string) map[string]string {
	if len(first)+len(last) == 0 {
		return nil
	}
	all := map[string]string{}
	maps.Copy(all, first)
	maps.Copy(all, last)
	return all
}

// bindTo binds a pod to a node, besides the affinity that it has.
func bindTo(pod *corev1.Pod, node string) {
	is := corev1.NodeSelectorRequirement{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{node}}
	if pod.Spec.Affinity == nil {
		pod.Spec.Affinity = &corev1.Affinity{}
	}
	a := pod.Spec.Affinity
	if a.NodeAffinity == nil {
		a.NodeAffinity = &corev1.NodeAffinity{}
	}
	required := a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil {
		required = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{}}}
		a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = required
	}
	for n := range required.NodeSelectorTerms { // one of the terms must hold, and the node in each of them
		term := &required.NodeSelectorTerms[n]
		term.MatchFields = append(term.MatchFields, is)
	}
}

// domainKeys are the topology keys in which the domain of an instance is told. Nodes are known by
// their names.
func domainKeys(want port.Instance) (keys []string) {
	for _, one := range constraints(want) {
		if one.TopologyKey != hostnameLabel {
			keys = append(keys, one.TopologyKey)
		}
	}
	return keys
}

// tolerates reports whether a toleration is for a taint that keeps pods away.
func tolerates(by corev1.Toleration, t corev1.Taint) bool {
	switch {
	case by.Effect != "" && by.Effect != t.Effect, by.Key != "" && by.Key != t.Key:
		return false
	case by.Operator == corev1.TolerationOpExists:
		return true
	}
	return by.Key != "" && by.Value == t.Value
}
