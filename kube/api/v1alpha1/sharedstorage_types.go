package v1alpha1

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SharedStorageCluster is a database cluster of one writer and any number of
// readers over one shared volume.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:resource:shortName=ssc,categories={pawl,all}
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Writer",type=string,JSONPath=`.status.writer`
// +kubebuilder:printcolumn:name="Readers",type=integer,JSONPath=`.status.readers`
// +kubebuilder:printcolumn:name="Class",type=string,JSONPath=`.status.class`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.version`
// +kubebuilder:printcolumn:name="Step",type=string,JSONPath=`.status.run.step`,priority=1
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type SharedStorageCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +kubebuilder:default={}
	Spec   SharedStorageClusterSpec   `json:"spec,omitempty"`
	Status SharedStorageClusterStatus `json:"status,omitempty"`
}

// SharedStorageClusterList is what a list answers.
//
// +kubebuilder:object:root=true
type SharedStorageClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []SharedStorageCluster `json:"items"`
}

// SharedStorageClusterSpec is what is asked for.
//
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.storage) || !has(oldSelf.storage.size) || (has(self.storage) && has(self.storage.size) && quantity(string(self.storage.size)).compareTo(quantity(string(oldSelf.storage.size))) >= 0)",message="storage.size may only grow",fieldPath=".storage"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.engine) || !has(oldSelf.engine.type) || (has(self.engine) && has(self.engine.type) && self.engine.type == oldSelf.engine.type)",message="engine.type cannot be changed",fieldPath=".engine"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.engine) || !has(oldSelf.engine.version) || (has(self.engine) && has(self.engine.version) && self.engine.version.split('.')[0] == oldSelf.engine.version.split('.')[0])",message="the major version of the engine cannot be changed",fieldPath=".engine"
// +kubebuilder:validation:XValidation:rule="has(self.cloneFrom) == has(oldSelf.cloneFrom) && (!has(self.cloneFrom) || self.cloneFrom == oldSelf.cloneFrom)",message="cloneFrom counts at creation only",fieldPath=".cloneFrom"
type SharedStorageClusterSpec struct {
	// +kubebuilder:default={type: postgres}
	Engine EngineSpec `json:"engine,omitempty"`
	// Class is the wanted size; the classes are listed in a ConfigMap.
	// +kubebuilder:default={name: small}
	Class ClassRef `json:"class,omitempty"`
	// Readers is how many readers are wanted.
	// +kubebuilder:default=2
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=15
	Readers *int32 `json:"readers,omitempty"`
	// +kubebuilder:default={size: "10Gi"}
	Storage StorageSpec `json:"storage,omitempty"`
	// Parameters of the engine that the user sets.
	// +kubebuilder:validation:MaxProperties=200
	Parameters map[string]string `json:"parameters,omitempty"`
	// CloneFrom names a cluster of the same namespace whose data this one begins with.
	// +kubebuilder:validation:MaxLength=253
	CloneFrom string `json:"cloneFrom,omitempty"`
	// +kubebuilder:default={enabled: true}
	HA HASpec `json:"ha,omitempty"`
	// Durability is strict: a commit is answered when one reader has it (no
	// effect without readers); or available: it is not waited for while no
	// reader is healthy.
	// +kubebuilder:default=strict
	// +kubebuilder:validation:Enum=strict;available
	Durability string `json:"durability,omitempty"`
	// Ports of the engines. nil: the adapter's.
	Ports *PortRange `json:"ports,omitempty"`
	// Images by version of the engine.
	Images     map[string]string `json:"images,omitempty"`
	Scheduling SchedulingSpec    `json:"scheduling,omitempty"`
	// OperatorName picks the operator that serves this cluster: the one of this name. One without a name
	// serves all clusters; one with a name leaves those alone that name none.
	OperatorName string `json:"operatorName,omitempty"`
}

// EngineSpec is the database engine.
type EngineSpec struct {
	// +kubebuilder:default=postgres
	// +kubebuilder:validation:Enum=postgres
	Type string `json:"type,omitempty"`
	// Version is the wanted minor version, such as "15.18" or "15"; empty: the operator's default.
	// +kubebuilder:validation:Pattern=`^[0-9]+(\.[0-9]+)*$`
	// +kubebuilder:validation:MaxLength=32
	Version string `json:"version,omitempty"`
}

// ClassRef names a class.
type ClassRef struct {
	// +kubebuilder:default=small
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name,omitempty"`
}

// StorageSpec is the shared volume.
type StorageSpec struct {
	// Size of the volume; it may only grow.
	// +kubebuilder:default="10Gi"
	Size *resource.Quantity `json:"size,omitempty"`
	// Claim is an existing claim to use; empty: a new one.
	Claim string `json:"claim,omitempty"`
	// Volume is an existing volume to use; empty: a new one.
	Volume string `json:"volume,omitempty"`
	// OnDelete says what becomes of the data when the cluster is deleted.
	// +kubebuilder:default=Retain
	// +kubebuilder:validation:Enum=Retain;Delete
	OnDelete string `json:"onDelete,omitempty"`
}

// HASpec is the wish for automatic failover.
type HASpec struct {
	// +kubebuilder:default=true
	Enabled *bool `json:"enabled,omitempty"`
}

// PortRange gives instance n the port Start + n*Step.
type PortRange struct {
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Start int32 `json:"start"`
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	Step int32 `json:"step,omitempty"`
}

// SchedulingSpec says where instances may stand.
type SchedulingSpec struct {
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// Spread is the topology key over which instances are spread.
	// +kubebuilder:default="kubernetes.io/hostname"
	Spread string `json:"spread,omitempty"`
}

// SharedStorageClusterStatus is what is.
type SharedStorageClusterStatus struct {
	State         string      `json:"state,omitempty"`
	PreviousState string      `json:"previousState,omitempty"`
	Since         metav1.Time `json:"since,omitempty"`
	Visit         int64       `json:"visit,omitempty"`
	// Reason is the code of what holds the cluster up, in CamelCase.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Position is where the machine stands: the checkpoint of the operator.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	Position json.RawMessage `json:"position,omitempty"`

	Writer  string `json:"writer,omitempty"`  // logical id of the instance that writes
	Readers int32  `json:"readers,omitempty"` // readers there are, temporaries not counted

	ObservedGeneration int64  `json:"observedGeneration,omitempty"`
	Class              string `json:"class,omitempty"`          // that all instances have
	Version            string `json:"version,omitempty"`        // that all instances run
	ParametersHash     string `json:"parametersHash,omitempty"` // of the parameters that were applied
	// NextID is the number that the next new instance gets; it never falls.
	NextID  int64         `json:"nextID,omitempty"`
	Storage StorageStatus `json:"storage,omitempty"`
	// Instances by logical id, from facts.
	Instances map[string]InstanceStatus `json:"instances,omitempty"`
	Manager   ManagerStatus             `json:"manager,omitempty"`
	Run       *RunStatusOf              `json:"run,omitempty"`
	// Requests: those that wait or are carried out, and the last 20 that ended.
	// +listType=map
	// +listMapKey=id
	Requests []RequestStatus `json:"requests,omitempty"`
	// LastRequest is the answer to the newest annotation that asked something of the run.
	LastRequest *RunRequest `json:"lastRequest,omitempty"`
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// StorageStatus is the volume as it is.
type StorageStatus struct {
	Volume string             `json:"volume,omitempty"`
	Claim  string             `json:"claim,omitempty"`
	Size   *resource.Quantity `json:"size,omitempty"`
	Writer string             `json:"writer,omitempty"` // instance that holds the grant
	Epoch  int64              `json:"epoch,omitempty"`  // of the grant
}

// InstanceStatus is one instance as it is.
type InstanceStatus struct {
	Name     string      `json:"name,omitempty"` // of its pod or process
	Role     string      `json:"role,omitempty"` // rw, ro, tempro
	Node     string      `json:"node,omitempty"`
	Address  string      `json:"address,omitempty"`
	Port     int32       `json:"port,omitempty"`
	Class    string      `json:"class,omitempty"`
	Version  string      `json:"version,omitempty"`
	Health   string      `json:"health,omitempty"` // Healthy, Starting, Failed, Unknown
	LagBytes *int64      `json:"lagBytes,omitempty"`
	Since    metav1.Time `json:"since,omitempty"` // of this health
	Message  string      `json:"message,omitempty"`
}

// ManagerStatus is the cluster manager as it is.
type ManagerStatus struct {
	Health  string      `json:"health,omitempty"`
	Address string      `json:"address,omitempty"`
	HA      *bool       `json:"ha,omitempty"`    // failover is on; nil: unknown
	Until   metav1.Time `json:"until,omitempty"` // when failover that is off comes back
	Since   metav1.Time `json:"since,omitempty"`
}

// RunStatusOf is the run of the state the cluster is in.
type RunStatusOf struct {
	ID       string `json:"id"`
	Flow     string `json:"flow,omitempty"`
	Phase    string `json:"phase,omitempty"`
	Step     string `json:"step,omitempty"`
	Progress string `json:"progress,omitempty"`
	Code     string `json:"code,omitempty"`
	Message  string `json:"message,omitempty"`
	Remedy   string `json:"remedy,omitempty"`
}

// RequestStatus is a request and what became of it.
type RequestStatus struct {
	ID         string       `json:"id"`
	Kind       string       `json:"kind"`
	Args       string       `json:"args,omitempty"`
	State      string       `json:"state"` // Pending, Running, Done, Rejected, Cancelled
	RunID      string       `json:"runID,omitempty"`
	AcceptedAt metav1.Time  `json:"acceptedAt,omitempty"`
	EndedAt    *metav1.Time `json:"endedAt,omitempty"`
	Code       string       `json:"code,omitempty"`
	Message    string       `json:"message,omitempty"`
}

// Hub marks the version that others are converted to and from.
func (*SharedStorageCluster) Hub() {}
