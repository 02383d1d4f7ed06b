package v1alpha1

import corev1 "k8s.io/api/core/v1"

// SpreadConstraint spreads the instances of a cluster over the values of a topology key, besides
// scheduling.spread. The operator selects the pods.
type SpreadConstraint struct {
	// TopologyKey is a label of nodes, such as topology.kubernetes.io/zone.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	TopologyKey string `json:"topologyKey"`
	// MaxSkew is the largest difference of the numbers of instances between two values.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=15
	MaxSkew int32 `json:"maxSkew,omitempty"`
	// WhenUnsatisfiable says whether a new instance waits for a node that keeps the spread
	// (DoNotSchedule) or runs on another one (ScheduleAnyway). An instance that has its data already
	// never waits.
	// +kubebuilder:default=DoNotSchedule
	// +kubebuilder:validation:Enum=DoNotSchedule;ScheduleAnyway
	WhenUnsatisfiable string `json:"whenUnsatisfiable,omitempty"`
}

// PodTemplate is what is merged into the pods of a cluster, under the paths of a Kubernetes pod
// template. All other fields are the operator's: images, the class, scheduling and parameters say
// what they are.
type PodTemplate struct {
	Metadata PodMetadata     `json:"metadata,omitzero"`
	Spec     PodTemplateSpec `json:"spec,omitzero"`
}

// PodMetadata has the labels and annotations of pods that the operator does not own.
type PodMetadata struct {
	// Labels of instances and of the cluster manager; none of pawl.dev and of app.kubernetes.io, which the operator owns.
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.size() <= 317 && !k.matches('^([^/]*\\\\.)?pawl\\\\.dev/|^app\\\\.kubernetes\\\\.io/'))",message="labels of pawl.dev and app.kubernetes.io are the operator's: use another prefix"
	Labels map[string]string `json:"labels,omitempty"`
	// Annotations of the same pods; none of pawl.dev.
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.size() <= 317 && !k.matches('^([^/]*\\\\.)?pawl\\\\.dev/'))",message="annotations of pawl.dev are the operator's: use another prefix"
	Annotations map[string]string `json:"annotations,omitempty"`
}

// PodTemplateSpec has the fields of a pod that nothing of the operator depends on.
type PodTemplateSpec struct {
	// RuntimeClassName of the pods of instances.
	// +kubebuilder:validation:MaxLength=253
	RuntimeClassName string `json:"runtimeClassName,omitempty"`
	// +kubebuilder:validation:MaxItems=32
	HostAliases []corev1.HostAlias `json:"hostAliases,omitempty"`
	// DNSConfig is merged with what the cluster's DNS gives the pods of instances.
	DNSConfig *corev1.PodDNSConfig `json:"dnsConfig,omitempty"`
}
