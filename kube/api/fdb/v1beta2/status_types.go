package v1beta2

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// FoundationDBClusterStatus is the observed state of a cluster. It tells points in time and never how long
// something lasts, so that a pass that changes nothing writes nothing.
type FoundationDBClusterStatus struct {
	// DatabaseConfiguration is the one of the database when it was last available.
	DatabaseConfiguration DatabaseConfiguration   `json:"databaseConfiguration,omitzero"`
	Generations           ClusterGenerationStatus `json:"generations,omitzero"`
	Health                ClusterHealth           `json:"health,omitzero"`
	// RequiredAddresses are the kinds of addresses that the servers listen on.
	RequiredAddresses         RequiredAddressSet `json:"requiredAddresses,omitzero"`
	HasIncorrectConfigMap     bool               `json:"hasIncorrectConfigMap,omitempty"`
	HasIncorrectServiceConfig bool               `json:"hasIncorrectServiceConfig,omitempty"`
	NeedsNewCoordinators      bool               `json:"needsNewCoordinators,omitempty"`
	// RunningVersion is the version that most processes run.
	RunningVersion   string `json:"runningVersion,omitempty"`
	ConnectionString string `json:"connectionString,omitempty"`
	// Configured is true once the database was configured, and never becomes false.
	Configured bool `json:"configured,omitempty"`
	// HasListenIPsForAllPods is true when each pod knows the variable of its listen address.
	HasListenIPsForAllPods bool `json:"hasListenIPsForAllPods,omitempty"`
	// StorageServersPerDisk are the numbers of servers that storage pods have.
	// +kubebuilder:validation:MaxItems=5
	StorageServersPerDisk []int `json:"storageServersPerDisk,omitempty"`
	// LogServersPerDisk are the numbers of servers that log pods have.
	// +kubebuilder:validation:MaxItems=5
	LogServersPerDisk []int `json:"logServersPerDisk,omitempty"`
	// ImageTypes are those that pods have.
	// +kubebuilder:validation:MaxItems=10
	ImageTypes          []ImageType          `json:"imageTypes,omitempty"`
	ProcessGroups       []ProcessGroupStatus `json:"processGroups,omitempty"`
	Locks               LockSystemStatus     `json:"locks,omitzero"`
	MaintenanceModeInfo MaintenanceModeInfo  `json:"maintenanceModeInfo,omitzero"`
	// DesiredProcessGroups is the desired number of groups.
	DesiredProcessGroups int `json:"desiredProcessGroups,omitempty"`
	// ReconciledProcessGroups is how many groups are as they should be.
	ReconciledProcessGroups int `json:"reconciledProcessGroups,omitempty"`

	// What follows is Pawl's own.

	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Groups is the column: reconciled/desired.
	Groups string `json:"groups,omitempty"`
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Plan is what happens next, and what blocks it.
	// +kubebuilder:validation:MaxItems=51
	Plan []PlanEntry `json:"plan,omitempty"`
	// Digest of the other fields. It tells what this operator has written from what another one has.
	Digest string `json:"digest,omitempty"`
}

// PlanEntry is one action of a link of the chain: it is done now, or something blocks it.
type PlanEntry struct {
	Link    string   `json:"link"`
	Action  string   `json:"action"`
	Targets []string `json:"targets,omitempty"`
	// Now: nothing blocks it.
	Now bool `json:"now,omitempty"`
	// Reason says in CamelCase what blocks it, Message in words.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	Remedy  string `json:"remedy,omitempty"`
	// Since is when it was blocked first.
	Since *metav1.Time `json:"since,omitempty"`
	// NotBefore is the earliest time at which it can begin, where that is known.
	NotBefore *metav1.Time `json:"notBefore,omitempty"`
}

// ClusterGenerationStatus has the generation of the object in each field whose statement is true.
type ClusterGenerationStatus struct {
	Reconciled                    int64 `json:"reconciled,omitempty"`
	NeedsConfigurationChange      int64 `json:"needsConfigurationChange,omitempty"`
	NeedsCoordinatorChange        int64 `json:"needsCoordinatorChange,omitempty"`
	NeedsBounce                   int64 `json:"needsBounce,omitempty"`
	NeedsPodDeletion              int64 `json:"needsPodDeletion,omitempty"`
	NeedsShrink                   int64 `json:"needsShrink,omitempty"`
	NeedsGrow                     int64 `json:"needsGrow,omitempty"`
	NeedsMonitorConfUpdate        int64 `json:"needsMonitorConfUpdate,omitempty"`
	MissingDatabaseStatus         int64 `json:"missingDatabaseStatus,omitempty"`
	HasExtraListeners             int64 `json:"hasExtraListeners,omitempty"`
	NeedsServiceUpdate            int64 `json:"needsServiceUpdate,omitempty"`
	HasPendingRemoval             int64 `json:"hasPendingRemoval,omitempty"`
	HasUnhealthyProcess           int64 `json:"hasUnhealthyProcess,omitempty"`
	NeedsLockConfigurationChanges int64 `json:"needsLockConfigurationChanges,omitempty"`
}

// ClusterHealth is the state of the database.
type ClusterHealth struct {
	Available            bool `json:"available,omitempty"`
	Healthy              bool `json:"healthy,omitempty"`
	FullReplication      bool `json:"fullReplication,omitempty"`
	DataMovementPriority int  `json:"dataMovementPriority,omitempty"`
}

// RequiredAddressSet says which kinds of addresses servers listen on.
type RequiredAddressSet struct {
	TLS    bool `json:"tls,omitempty"`
	NonTLS bool `json:"nonTLS,omitempty"`
}

// LockSystemStatus is what the database knows of locks.
type LockSystemStatus struct {
	LockDenyList []string `json:"lockDenyList,omitempty"`
}

// MaintenanceModeInfo is the maintenance that the operator has begun.
type MaintenanceModeInfo struct {
	StartTimestamp *metav1.Time `json:"startTimestamp,omitempty"`
	// +kubebuilder:validation:MaxLength=512
	ZoneID string `json:"zoneID,omitempty"`
	// +kubebuilder:validation:MaxItems=200
	ProcessGroups []string `json:"processGroups,omitempty"`
}

// ProcessGroupStatus is a process group: one pod, its volume, its service.
type ProcessGroupStatus struct {
	ProcessGroupID ProcessGroupID `json:"processGroupID,omitempty"`
	ProcessClass   ProcessClass   `json:"processClass,omitempty"`
	// Addresses are the IPs by which the group is known.
	Addresses []string `json:"addresses,omitempty"`
	// RemovalTimestamp is when the group was marked for removal.
	RemovalTimestamp *metav1.Time `json:"removalTimestamp,omitempty"`
	// ExclusionTimestamp is when the group was found safe to delete.
	ExclusionTimestamp *metav1.Time `json:"exclusionTimestamp,omitempty"`
	// ExclusionSkipped: the group is removed without moving its data first.
	ExclusionSkipped       bool                    `json:"exclusionSkipped,omitempty"`
	ProcessGroupConditions []ProcessGroupCondition `json:"processGroupConditions,omitempty"`
	// FaultDomain is the zone of the group.
	// +kubebuilder:validation:MaxLength=512
	FaultDomain string `json:"faultDomain,omitempty"`
}

// ProcessGroupCondition is something about a group that is not as it should be.
type ProcessGroupCondition struct {
	Type ProcessGroupConditionType `json:"type,omitempty"`
	// Timestamp is when it was first seen, in seconds since 1970.
	Timestamp int64 `json:"timestamp,omitempty"`
}

// ProcessGroupConditionType names a condition of a group.
type ProcessGroupConditionType string

// The conditions of groups. Ready is there when none of the others is.
const (
	IncorrectPodSpec           ProcessGroupConditionType = "IncorrectPodSpec"
	IncorrectPodMetadata       ProcessGroupConditionType = "IncorrectPodMetadata"
	IncorrectConfigMap         ProcessGroupConditionType = "IncorrectConfigMap"
	IncorrectCommandLine       ProcessGroupConditionType = "IncorrectCommandLine"
	IncorrectSidecarImage      ProcessGroupConditionType = "IncorrectSidecarImage"
	PodFailing                 ProcessGroupConditionType = "PodFailing"
	PodPending                 ProcessGroupConditionType = "PodPending"
	ResourcesTerminating       ProcessGroupConditionType = "ResourcesTerminating"
	MissingPod                 ProcessGroupConditionType = "MissingPod"
	MissingPVC                 ProcessGroupConditionType = "MissingPVC"
	MissingService             ProcessGroupConditionType = "MissingService"
	MissingProcesses           ProcessGroupConditionType = "MissingProcesses"
	SidecarUnreachable         ProcessGroupConditionType = "SidecarUnreachable"
	NodeTaintDetected          ProcessGroupConditionType = "NodeTaintDetected"
	NodeTaintReplacing         ProcessGroupConditionType = "NodeTaintReplacing"
	ProcessIsMarkedAsExcluded  ProcessGroupConditionType = "ProcessIsMarkedAsExcluded"
	ProcessHasIOError          ProcessGroupConditionType = "ProcessHasIOError"
	ProcessHasHighRunLoopBusy  ProcessGroupConditionType = "ProcessHasHighRunLoopBusy"
	ProcessGroupConditionReady ProcessGroupConditionType = "Ready"
)
