package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Application is a set of workloads with immutable revisions. With a plan, a change of one component
// is rolled out in batches by the Rollout of the Application's name.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:resource:shortName=papp,categories={pawl}
// +kubebuilder:printcolumn:name="Latest",type=string,JSONPath=`.status.latestRevision`
// +kubebuilder:printcolumn:name="Reached",type=string,JSONPath=`.status.reachedRevision`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 52",message="the name of an Application has at most 52 characters: its revisions and workloads are named after it"
type Application struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ApplicationSpec `json:"spec"`
	// Status of an Application that the operator has not seen yet is of no generation, so that nobody takes
	// it for done.
	// +kubebuilder:default:={"observedGeneration":-1}
	Status ApplicationStatus `json:"status,omitempty"`
}

// ApplicationList is a list of applications.
//
// +kubebuilder:object:root=true
type ApplicationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Application `json:"items"`
}

// Hub marks this version as the one that other versions are converted to and from.
func (*Application) Hub() {}

// ApplicationSpec is what is asked for.
//
// +kubebuilder:validation:XValidation:rule="!has(self.rolloutComponent) || self.components.exists(c, c.name == self.rolloutComponent)",message="there is no such component",fieldPath=".rolloutComponent"
type ApplicationSpec struct {
	// Components are the workloads.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:XValidation:rule="self.all(c, !oldSelf.exists(o, o.name == c.name && (o.workload.kind != c.workload.kind || o.workload.apiVersion.startsWith('apps/') != c.workload.apiVersion.startsWith('apps/'))))",message="a component keeps its kind: take it out, or add one of another name"
	Components []ApplicationComponent `json:"components"`
	// RolloutComponent is the component that the plan moves; the others are changed at once. Default:
	// the only component, or the only one that has changed.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	RolloutComponent string `json:"rolloutComponent,omitempty"`
	// RolloutPlan is how a component is changed. Absent: at once.
	RolloutPlan *RolloutPlan `json:"rolloutPlan,omitempty"`
	// RevisionHistoryLimit is the number of revisions that are kept; those in use and the last that
	// was reached are kept in any case. Default: 10.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`
	// OperatorName is the name of the operator that serves this Application and its Rollout. An
	// operator without a name serves all.
	// +kubebuilder:validation:MaxLength=63
	OperatorName string `json:"operatorName,omitempty"`
}

// ApplicationComponent is one workload under a name.
type ApplicationComponent struct {
	// Name of the component, and of its StatefulSet or CloneSet. A Deployment is named
	// <component>-v<N>.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name     string              `json:"name"`
	Workload ApplicationWorkload `json:"workload"`
}

// ApplicationWorkload is a workload without name and status.
//
// +kubebuilder:validation:XValidation:rule="self.apiVersion == 'apps/v1' && self.kind in ['Deployment', 'StatefulSet'] || self.apiVersion in ['apps.kruise.io/v1alpha1', 'apps.kruise.io/v1beta1'] && self.kind == 'CloneSet' || self.apiVersion == 'apps.kruise.io/v1beta1' && self.kind == 'StatefulSet'",message="a component is a Deployment or StatefulSet of apps/v1, or a CloneSet or StatefulSet of apps.kruise.io"
type ApplicationWorkload struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	APIVersion string `json:"apiVersion"`
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`
	// Metadata are labels and annotations of the workload.
	// +optional
	Metadata ApplicationMetadata `json:"metadata,omitzero"`
	// Spec is that of the workload. Absent replicas are 1 with a plan, and what is there without one.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	Spec runtime.RawExtension `json:"spec"`
}

// ApplicationMetadata is metadata of a workload.
type ApplicationMetadata struct {
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// ApplicationStatus is what was observed.
type ApplicationStatus struct {
	// ObservedGeneration is the generation of the spec that this status is about.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// LatestRevision is the newest ApplicationRevision, and ReachedRevision the last one that all
	// pods have had.
	LatestRevision  string `json:"latestRevision,omitempty"`
	ReachedRevision string `json:"reachedRevision,omitempty"`
	// ReachedReplicas is the size of each component when the revision was reached.
	ReachedReplicas map[string]int32 `json:"reachedReplicas,omitempty"`
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ApplicationRevision is the content of an Application at one time. It never changes.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:resource:shortName=papprev,categories={pawl}
// +kubebuilder:printcolumn:name="Hash",type=string,JSONPath=`.spec.hash`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ApplicationRevision struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a revision cannot be changed"
	Spec ApplicationRevisionSpec `json:"spec"`
}

// ApplicationRevisionList is a list of revisions.
//
// +kubebuilder:object:root=true
type ApplicationRevisionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ApplicationRevision `json:"items"`
}

// Hub marks this version as the one that other versions are converted to and from.
func (*ApplicationRevision) Hub() {}

// ApplicationRevisionSpec is the content of a revision.
type ApplicationRevisionSpec struct {
	// Hash of the components. A change back to earlier content makes a revision with the same hash.
	// +kubebuilder:validation:MaxLength=64
	Hash string `json:"hash"`
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +listType=map
	// +listMapKey=name
	Components []ApplicationRevisionComponent `json:"components"`
}

// ApplicationRevisionComponent is a component with the name of its workload.
type ApplicationRevisionComponent struct {
	ApplicationComponent `json:",inline"`
	// WorkloadName is the name of the workload. A Deployment whose template has not changed keeps its
	// name.
	// +kubebuilder:validation:MaxLength=63
	WorkloadName string `json:"workloadName"`
}
