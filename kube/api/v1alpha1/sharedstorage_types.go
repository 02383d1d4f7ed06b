package v1alpha1

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SharedStorageCluster is a database cluster of one writer and any number of
// readers. status.storage.mode says how they keep the data: with copies, as
// PostgreSQL does, each instance has a claim of its own and streams from the
// writer; with shared, all instances open one volume.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.readers,statuspath=.status.readers,selectorpath=.status.selector
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 40 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name: at most 40 characters, lower case letters, digits and -, a letter first: Services and pods are named after it"
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

// SharedStorageClusterList is a list of clusters.
//
// +kubebuilder:object:root=true
type SharedStorageClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []SharedStorageCluster `json:"items"`
}

// SharedStorageClusterSpec is the desired state.
//
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.storage) || !has(oldSelf.storage.size) || (has(self.storage) && has(self.storage.size) && quantity(string(self.storage.size)).compareTo(quantity(string(oldSelf.storage.size))) >= 0)",message="storage.size may only grow",fieldPath=".storage"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.engine) || !has(oldSelf.engine.type) || (has(self.engine) && has(self.engine.type) && self.engine.type == oldSelf.engine.type)",message="engine.type cannot be changed",fieldPath=".engine"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.engine) || !has(oldSelf.engine.version) || (has(self.engine) && has(self.engine.version) && self.engine.version.split('.')[0] == oldSelf.engine.version.split('.')[0])",message="the major version of the engine cannot be changed",fieldPath=".engine"
// +kubebuilder:validation:XValidation:rule="has(self.cloneFrom) == has(oldSelf.cloneFrom) && (!has(self.cloneFrom) || self.cloneFrom == oldSelf.cloneFrom)",message="cloneFrom counts at creation only",fieldPath=".cloneFrom"
// +kubebuilder:validation:XValidation:rule="has(self.restoreFrom) == has(oldSelf.restoreFrom) && (!has(self.restoreFrom) || self.restoreFrom == oldSelf.restoreFrom)",message="restoreFrom counts at creation only",fieldPath=".restoreFrom"
// +kubebuilder:validation:XValidation:rule="!has(self.restoreFrom) || !has(self.cloneFrom)",message="either restoreFrom or cloneFrom"
// +kubebuilder:validation:XValidation:rule="!has(self.parameters) || !('wal_level' in self.parameters) || self.parameters['wal_level'] == 'logical' || !has(self.publications) || self.publications.all(p, has(p.ensure) && p.ensure == 'absent')",message="parameters: wal_level is logical while there are publications"
type SharedStorageClusterSpec struct {
	// +kubebuilder:default={type: postgres}
	Engine EngineSpec `json:"engine,omitempty"`
	// Class is the desired size; a ConfigMap lists the classes.
	// +kubebuilder:default={name: small}
	Class ClassRef `json:"class,omitempty"`
	// Readers is the desired number of readers.
	// +kubebuilder:default=2
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=15
	Readers *int32 `json:"readers,omitempty"`
	// +kubebuilder:default={size: "10Gi"}
	Storage StorageSpec `json:"storage,omitempty"`
	// Parameters of the engine that the user sets.
	// +kubebuilder:validation:MaxProperties=200
	Parameters map[string]string `json:"parameters,omitempty"`
	// CloneFrom names a cluster of the same namespace whose data is copied at creation.
	// +kubebuilder:validation:MaxLength=253
	CloneFrom string `json:"cloneFrom,omitempty"`
	// RestoreFrom is the backup that a new cluster begins with.
	RestoreFrom *RestoreSpec `json:"restoreFrom,omitempty"`
	// Backup archives the log of the cluster and takes backups. nil: neither.
	Backup *BackupSpec `json:"backup,omitempty"`
	// Users of the databases. Without any user and database there is a user app that owns a database
	// app.
	// +kubebuilder:validation:MaxItems=100
	// +listType=map
	// +listMapKey=name
	Users []UserSpec `json:"users,omitempty"`
	// Databases of the cluster.
	// +kubebuilder:validation:MaxItems=100
	// +listType=map
	// +listMapKey=name
	Databases []DatabaseSpec `json:"databases,omitempty"`
	// Publications of the databases. While there is one, wal_level is logical.
	// +kubebuilder:validation:MaxItems=50
	// +listType=map
	// +listMapKey=database
	// +listMapKey=name
	Publications []PublicationSpec `json:"publications,omitempty"`
	// Subscriptions of the databases to publications of other servers.
	// +kubebuilder:validation:MaxItems=50
	// +listType=map
	// +listMapKey=name
	Subscriptions []SubscriptionSpec `json:"subscriptions,omitempty"`
	// Pooler has connection poolers in front of the writer: clients of a pooler wait during a planned
	// switch and see no error. nil: none.
	Pooler *PoolerSpec `json:"pooler,omitempty"`
	// TLS says where the certificate of the engines comes from, and whether clients must use TLS. nil: the
	// operator makes it, with an authority of the cluster, and clients without TLS are served.
	TLS *TLSSpec `json:"tls,omitempty"`
	// +kubebuilder:default={enabled: true}
	HA HASpec `json:"ha,omitempty"`
	// Durability is strict or available. strict: a commit is confirmed when one
	// reader has it (no effect without readers). available: a commit does not
	// wait while no reader is healthy.
	// +kubebuilder:default=strict
	// +kubebuilder:validation:Enum=strict;available
	Durability string `json:"durability,omitempty"`
	// Ports of the engines. nil: the default of the adapter.
	Ports *PortRange `json:"ports,omitempty"`
	// Images by version of the engine.
	Images map[string]string `json:"images,omitempty"`
	// ImagePullSecrets are Secrets of the namespace with which the images are pulled.
	// +kubebuilder:validation:MaxItems=16
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`
	// PodTemplate is merged into the pods.
	PodTemplate PodTemplate `json:"podTemplate,omitzero"`
	// SharedMemory is the size of /dev/shm of each engine, from 1Mi on. What is used of it counts
	// against the memory of the class, which it must not exceed. nil: as much as that.
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('1Mi')) >= 0",message="sharedMemory is 1Mi at least"
	SharedMemory *resource.Quantity `json:"sharedMemory,omitempty"`
	// HugePages is the memory in pages of 2Mi that each engine has besides the memory of the class:
	// the resource hugepages-2Mi, and huge_pages = on. It must hold shared_buffers and a tenth more.
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('2Mi')) >= 0 && quantity(string(self)).isInteger() && quantity(string(self)).asInteger() % 2097152 == 0",message="hugePages is a multiple of 2Mi"
	HugePages *resource.Quantity `json:"hugePages,omitempty"`
	// +kubebuilder:default={spread: "kubernetes.io/hostname"}
	Scheduling SchedulingSpec `json:"scheduling,omitempty"`
	// Hibernated ends all instances and the cluster manager, and keeps the data: no pod runs until it is
	// false again. Other changes of the spec are taken when the cluster wakes.
	Hibernated bool `json:"hibernated,omitempty"`
	// OperatorName is the name of the operator that serves this cluster. An operator without a name
	// serves all clusters; an operator with a name ignores clusters that name none.
	OperatorName string `json:"operatorName,omitempty"`
}

// TLSSpec is the certificate with which the instances serve: one that the operator makes, or one that secret
// or folder names. It may change at any time; new connections get the new one, and no engine restarts.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.secret) && has(self.folder))",message="either secret or folder"
type TLSSpec struct {
	// Secret of the namespace with tls.crt, tls.key and ca.crt, such as cert-manager makes.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Secret string `json:"secret,omitempty"`
	// Folder with these files; only without Kubernetes.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Folder string `json:"folder,omitempty"`
	// Require refuses clients of the database and of its poolers that do not use TLS. It may change at any
	// time; connections that are open go on.
	Require bool `json:"require,omitempty"`
}

// EngineSpec is the database engine.
type EngineSpec struct {
	// +kubebuilder:default=postgres
	// +kubebuilder:validation:Enum=postgres
	Type string `json:"type,omitempty"`
	// Version is the desired minor version, such as "15.18" or "15"; empty: the operator's default.
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

// StorageSpec is where the data are. In mode copies each instance has a claim of its own.
type StorageSpec struct {
	// Size of each claim (mode copies) or of the volume (mode shared), from 1Mi to 1Pi; it may only grow.
	// +kubebuilder:default="10Gi"
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('1Mi')) >= 0 && quantity(string(self)).compareTo(quantity('1Pi')) <= 0",message="storage.size is from 1Mi to 1Pi"
	Size *resource.Quantity `json:"size,omitempty"`
	// Claim is an existing claim for the first writer; empty: a new one.
	// +kubebuilder:validation:MaxLength=253
	Claim string `json:"claim,omitempty"`
	// Volume is an existing volume for the first writer; empty: a new one.
	// +kubebuilder:validation:MaxLength=253
	Volume string `json:"volume,omitempty"`
	// AdoptClaims lets the cluster take over the claims that an earlier cluster of its name has left
	// with their data. Otherwise such a claim stops the creation.
	AdoptClaims bool `json:"adoptClaims,omitempty"`
	// OnDelete says whether the data is retained or deleted with the cluster.
	// +kubebuilder:default=Retain
	// +kubebuilder:validation:Enum=Retain;Delete
	OnDelete string `json:"onDelete,omitempty"`
}

// HASpec configures automatic failover.
type HASpec struct {
	// +kubebuilder:default=true
	Enabled *bool `json:"enabled,omitempty"`
	// SameNode lets a reader on the writer's node take over if there is no other. It helps when the
	// engine or its pod fails, not when the node does.
	SameNode bool `json:"sameNode,omitempty"`
}

// PortRange gives instance n the port Start + n*Step.
type PortRange struct {
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Start int32 `json:"start"`
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4096
	Step int32 `json:"step,omitempty"`
}

// SchedulingSpec says on which nodes instances may run.
type SchedulingSpec struct {
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// Spread is the topology key over which instances are spread.
	// +kubebuilder:default="kubernetes.io/hostname"
	Spread string `json:"spread,omitempty"`
	// WhenUnsatisfiable says whether a new instance waits for a node that keeps the spread
	// (DoNotSchedule) or runs on another one (ScheduleAnyway). With fewer than two values of the
	// topology key among the nodes it always runs.
	// +kubebuilder:default=DoNotSchedule
	// +kubebuilder:validation:Enum=DoNotSchedule;ScheduleAnyway
	WhenUnsatisfiable string `json:"whenUnsatisfiable,omitempty"`
	// TopologySpreadConstraints spread the instances over further topology keys. A failover prefers a
	// reader that stands apart from the writer in as many of all keys as it can, and the condition
	// HighAvailability names a key in which none does.
	// +kubebuilder:validation:MaxItems=4
	// +listType=map
	// +listMapKey=topologyKey
	TopologySpreadConstraints []SpreadConstraint `json:"topologySpreadConstraints,omitempty"`
	// Tolerations of instances and of the cluster manager.
	// +kubebuilder:validation:MaxItems=32
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
	// Affinity of instances. The operator adds that a reader avoids the writer.
	Affinity *corev1.Affinity `json:"affinity,omitempty"`
	// PriorityClassName of instances and of the cluster manager.
	// +kubebuilder:validation:MaxLength=253
	PriorityClassName string `json:"priorityClassName,omitempty"`
	// SchedulerName of instances and of the cluster manager; empty: the default one.
	// +kubebuilder:validation:MaxLength=253
	SchedulerName string `json:"schedulerName,omitempty"`
}

// SharedStorageClusterStatus is the observed state.
type SharedStorageClusterStatus struct {
	State         string      `json:"state,omitempty"`
	PreviousState string      `json:"previousState,omitempty"`
	Since         metav1.Time `json:"since,omitempty"`
	Visit         int64       `json:"visit,omitempty"`
	// Reason is the code of the fault that blocks the cluster, in CamelCase.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Position is the position of the machine: the checkpoint of the operator.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	Position json.RawMessage `json:"position,omitempty"`

	Writer  string `json:"writer,omitempty"`  // logical id of the instance that writes
	Readers int32  `json:"readers,omitempty"` // number of readers, without temporary ones

	// Selector selects the pods of the readers, for the scale subresource.
	Selector string `json:"selector,omitempty"`

	ObservedGeneration int64  `json:"observedGeneration,omitempty"`
	Class              string `json:"class,omitempty"`          // class of all instances
	Version            string `json:"version,omitempty"`        // version of all instances
	ParametersHash     string `json:"parametersHash,omitempty"` // hash of the applied parameters
	// NextID is the number of the next new instance; it never decreases.
	NextID  int64         `json:"nextID,omitempty"`
	Storage StorageStatus `json:"storage,omitempty"`
	// Instances by logical id, as observed.
	Instances map[string]InstanceStatus `json:"instances,omitempty"`
	Manager   ManagerStatus             `json:"manager,omitempty"`
	Backup    BackupStatus              `json:"backup,omitzero"`
	Databases DatabasesStatus           `json:"databases,omitzero"`
	// Subscriptions that are declared and there.
	// +listType=map
	// +listMapKey=name
	Subscriptions []SubscriptionStatus `json:"subscriptions,omitempty"`
	// Poolers as observed, sorted by name.
	// +listType=map
	// +listMapKey=name
	Poolers []PoolerStatus `json:"poolers,omitempty"`
	Run     *CurrentRun    `json:"run,omitempty"`
	// Requests that wait or are executed, and the last 20 that ended.
	// +listType=map
	// +listMapKey=id
	Requests []RequestStatus `json:"requests,omitempty"`
	// LastRequest is the answer to the newest annotation with a request to the run.
	LastRequest *RunRequest `json:"lastRequest,omitempty"`
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// StorageStatus is the observed state of the storage.
type StorageStatus struct {
	// Mode is copies (each instance has a claim of its own and streams from the writer) or shared (all
	// instances open one volume).
	Mode   string             `json:"mode,omitempty"`
	Volume string             `json:"volume,omitempty"`
	Claim  string             `json:"claim,omitempty"`
	Size   *resource.Quantity `json:"size,omitempty"`
	Writer string             `json:"writer,omitempty"` // instance that holds the grant
	Epoch  int64              `json:"epoch,omitempty"`  // of the grant
}

// InstanceStatus is the observed state of one instance.
type InstanceStatus struct {
	Name     string      `json:"name,omitempty"` // name of its pod or process
	Role     string      `json:"role,omitempty"` // rw, ro, tempro
	Node     string      `json:"node,omitempty"`
	Address  string      `json:"address,omitempty"`
	Port     int32       `json:"port,omitempty"`
	Class    string      `json:"class,omitempty"`
	Version  string      `json:"version,omitempty"`
	Health   string      `json:"health,omitempty"` // Healthy, Starting, Failed, Unknown
	LagBytes *int64      `json:"lagBytes,omitempty"`
	Since    metav1.Time `json:"since,omitempty"` // since when it has this health
	Message  string      `json:"message,omitempty"`
}

// ManagerStatus is the observed state of the cluster manager.
type ManagerStatus struct {
	Health  string      `json:"health,omitempty"`
	Address string      `json:"address,omitempty"`
	HA      *bool       `json:"ha,omitempty"`    // failover is on; nil: unknown
	Until   metav1.Time `json:"until,omitempty"` // when failover that is off is switched on again
	Since   metav1.Time `json:"since,omitempty"`
}

// CurrentRun is the run of the current state of the cluster.
type CurrentRun struct {
	ID       string `json:"id"`
	Flow     string `json:"flow,omitempty"`
	Phase    string `json:"phase,omitempty"`
	Step     string `json:"step,omitempty"`
	Progress string `json:"progress,omitempty"`
	Code     string `json:"code,omitempty"`
	Message  string `json:"message,omitempty"`
	Remedy   string `json:"remedy,omitempty"`
}

// RequestStatus is a request and its result.
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

// Hub marks this version as the one that other versions are converted to and from.
func (*SharedStorageCluster) Hub() {}
