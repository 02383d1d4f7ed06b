package v1beta2

import (
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// AutomationOptions say what the operator may do by itself, and how long it waits.
//
// +kubebuilder:pruning:PreserveUnknownFields
type AutomationOptions struct {
	// ConfigureDatabase lets the operator run `configure`. Default: true.
	ConfigureDatabase *bool `json:"configureDatabase,omitempty"`
	// KillProcesses lets the operator restart servers. Default: true.
	KillProcesses *bool `json:"killProcesses,omitempty"`
	// CacheDatabaseStatusForReconciliation lets a pass read the status once. Default: true.
	CacheDatabaseStatusForReconciliation *bool              `json:"cacheDatabaseStatusForReconciliation,omitempty"`
	Replacements                         ReplacementOptions `json:"replacements,omitzero"`
	// IgnorePendingPodsDuration is how long a pending pod is waited for. Default: 5 min.
	IgnorePendingPodsDuration time.Duration `json:"ignorePendingPodsDuration,omitempty"`
	// UseLocalitiesForExclusion excludes groups by their id, where the version can. Default: true.
	UseLocalitiesForExclusion *bool `json:"useLocalitiesForExclusion,omitempty"`
	// IgnoreTerminatingPodsSeconds is how long a terminating pod is waited for. Default: 600.
	IgnoreTerminatingPodsSeconds *int `json:"ignoreTerminatingPodsSeconds,omitempty"`
	// IgnoreMissingProcessesSeconds is how long a restart waits for a silent server. Default: 30.
	IgnoreMissingProcessesSeconds *int `json:"ignoreMissingProcessesSeconds,omitempty"`
	// FailedPodDurationSeconds is how long a pod may be terminating before it counts as failed. Default: 300.
	FailedPodDurationSeconds *int `json:"failedPodDurationSeconds,omitempty"`
	// MaxConcurrentReplacements is how many misconfigured groups may be replaced at once. Absent: any number.
	// +kubebuilder:validation:Minimum=0
	MaxConcurrentReplacements *int `json:"maxConcurrentReplacements,omitempty"`
	// DeletionMode is how many pods are deleted at once to be made anew.
	// +kubebuilder:default=Zone
	DeletionMode PodUpdateMode `json:"deletionMode,omitempty"`
	// RemovalMode is how many groups are removed at once.
	// +kubebuilder:default=Zone
	RemovalMode PodUpdateMode `json:"removalMode,omitempty"`
	// WaitBetweenRemovalsSeconds is the time between two removals. Default: 60.
	WaitBetweenRemovalsSeconds *int `json:"waitBetweenRemovalsSeconds,omitempty"`
	// PodUpdateStrategy says how a group gets a changed pod.
	// +kubebuilder:default=ReplaceTransactionSystem
	PodUpdateStrategy      PodUpdateStrategy      `json:"podUpdateStrategy,omitempty"`
	MaintenanceModeOptions MaintenanceModeOptions `json:"maintenanceModeOptions,omitzero"`
	// IgnoreLogGroupsForUpgrade are clients that do not hold up an upgrade. Default: those of operators.
	// +kubebuilder:validation:MaxItems=10
	IgnoreLogGroupsForUpgrade []LogGroup `json:"ignoreLogGroupsForUpgrade,omitempty"`
	// SynchronizationMode is local, or global for operators that act together.
	// +kubebuilder:default=local
	SynchronizationMode SynchronizationMode `json:"synchronizationMode,omitempty"`

	// DatabaseInteractionMode is accepted and not acted upon.
	// +kubebuilder:validation:MaxLength=256
	DatabaseInteractionMode *string `json:"databaseInteractionMode,omitempty"`
	// UseManagementAPI is accepted and not acted upon.
	UseManagementAPI *bool `json:"useManagementAPI,omitempty"`
	// UseNonBlockingExcludes is accepted and not acted upon.
	UseNonBlockingExcludes *bool `json:"useNonBlockingExcludes,omitempty"`
}

// LogGroup is the log group of a client.
//
// +kubebuilder:validation:MaxLength=256
type LogGroup string

// SynchronizationMode says whether operators of several Kubernetes clusters act together.
//
// +kubebuilder:validation:Enum=local;global
type SynchronizationMode string

// The synchronisation modes.
const (
	SynchronizationLocal  SynchronizationMode = "local"
	SynchronizationGlobal SynchronizationMode = "global"
)

// PodUpdateMode is how much is deleted at once.
//
// +kubebuilder:validation:Enum=All;Zone;ProcessGroup;None
type PodUpdateMode string

// The update modes.
const (
	PodUpdateAll          PodUpdateMode = "All"
	PodUpdateZone         PodUpdateMode = "Zone"
	PodUpdateProcessGroup PodUpdateMode = "ProcessGroup"
	PodUpdateNone         PodUpdateMode = "None"
)

// PodUpdateStrategy says which groups are replaced, and which have their pod deleted.
//
// +kubebuilder:validation:Enum=Replace;ReplaceTransactionSystem;Delete
type PodUpdateStrategy string

// The update strategies.
const (
	PodUpdateReplace                  PodUpdateStrategy = "Replace"
	PodUpdateReplaceTransactionSystem PodUpdateStrategy = "ReplaceTransactionSystem"
	PodUpdateDelete                   PodUpdateStrategy = "Delete"
)

// ReplacementOptions say when failed groups are replaced.
//
// +kubebuilder:pruning:PreserveUnknownFields
type ReplacementOptions struct {
	// Enabled. Default: true.
	Enabled *bool `json:"enabled,omitempty"`
	// FaultDomainBasedReplacements counts the failed groups of a zone as one. Default: false.
	FaultDomainBasedReplacements *bool `json:"faultDomainBasedReplacements,omitempty"`
	// FailureDetectionTimeSeconds is how long a group must have failed. Default: 7200.
	FailureDetectionTimeSeconds *int `json:"failureDetectionTimeSeconds,omitempty"`
	// TaintReplacementTimeSeconds is how long a group must be on a tainted node. Default: 1800.
	TaintReplacementTimeSeconds *int `json:"taintReplacementTimeSeconds,omitempty"`
	// MaxConcurrentReplacements is how many groups are replaced at once. 0: none.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	MaxConcurrentReplacements *int `json:"maxConcurrentReplacements,omitempty"`
	// TaintReplacementOptions are the taints that make groups move. Absent: none.
	// +kubebuilder:validation:MaxItems=32
	TaintReplacementOptions []TaintReplacementOption `json:"taintReplacementOptions,omitempty"`
	// MaxFaultDomainsWithTaintedProcessGroups is how many zones may be tainted before taints no longer
	// count; a percentage is of all zones. Default: 10%.
	MaxFaultDomainsWithTaintedProcessGroups *intstr.IntOrString `json:"maxFaultDomainsWithTaintedProcessGroups,omitempty"`
}

// TaintReplacementOption is a taint that makes groups move.
//
// +kubebuilder:pruning:PreserveUnknownFields
type TaintReplacementOption struct {
	// Key of the taint, or * for every other one.
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^([\-._\/a-z0-9A-Z\*])*$`
	Key string `json:"key"`
	// DurationInSeconds is how long the taint must be there.
	// +kubebuilder:validation:Minimum=0
	DurationInSeconds int64 `json:"durationInSeconds"`
}

// MaintenanceModeOptions say whether a zone is under maintenance while its pods are updated.
//
// +kubebuilder:pruning:PreserveUnknownFields
type MaintenanceModeOptions struct {
	// UseMaintenanceModeChecker. Default: false.
	UseMaintenanceModeChecker *bool `json:"UseMaintenanceModeChecker,omitempty"`
	// ResetMaintenanceMode ends the maintenance when the zone is back. Default: as UseMaintenanceModeChecker.
	ResetMaintenanceMode *bool `json:"resetMaintenanceMode,omitempty"`
	// MaintenanceModeTimeSeconds is the longest maintenance of a zone. Default: 600.
	MaintenanceModeTimeSeconds *int `json:"maintenanceModeTimeSeconds,omitempty"`
}

// LockOptions say how operators of one database exclude each other.
//
// +kubebuilder:pruning:PreserveUnknownFields
type LockOptions struct {
	// DisableLocks. Absent: locks are used where several objects may share a database.
	DisableLocks *bool `json:"disableLocks,omitempty"`
	// LockKeyPrefix begins all shared keys.
	LockKeyPrefix string `json:"lockKeyPrefix,omitempty"`
	// LockDurationMinutes is how long a lock holds. Default: 10.
	LockDurationMinutes *int            `json:"lockDurationMinutes,omitempty"`
	DenyList            []LockDenyEntry `json:"denyList,omitempty"`
}

// LockDenyEntry forbids an instance to take the lock, or allows it again.
//
// +kubebuilder:pruning:PreserveUnknownFields
type LockDenyEntry struct {
	ID    string `json:"id,omitempty"`
	Allow bool   `json:"allow,omitempty"`
}

// RoutingConfig says how processes are reached.
//
// +kubebuilder:pruning:PreserveUnknownFields
type RoutingConfig struct {
	// HeadlessService makes a headless service of the cluster. Default: where DNS names are used.
	HeadlessService *bool `json:"headlessService,omitempty"`
	// PublicIPSource is pod or service. Default: pod.
	PublicIPSource PublicIPSource `json:"publicIPSource,omitempty"`
	// PodIPFamily is 4 or 6. Absent: the pod's first IP.
	// +kubebuilder:validation:Enum=4;6
	PodIPFamily *int `json:"podIPFamily,omitempty"`
	// UseDNSInClusterFile puts names instead of IPs into the cluster file. Default: true.
	UseDNSInClusterFile *bool `json:"useDNSInClusterFile,omitempty"`
	// DefineDNSLocalityFields gives processes the locality dns_name. Default: where names are used.
	DefineDNSLocalityFields *bool `json:"defineDNSLocalityFields,omitempty"`
	// DNSDomain is the domain of the Kubernetes cluster. Default: cluster.local.
	// +kubebuilder:validation:MaxLength=253
	DNSDomain string `json:"dnsDomain,omitempty"`
}

// PublicIPSource says where the public IP of a process comes from.
//
// +kubebuilder:validation:Enum=pod;service;""
type PublicIPSource string

// The sources of public IPs.
const (
	PublicIPPod     PublicIPSource = "pod"
	PublicIPService PublicIPSource = "service"
)

// BuggifyConfig does harm on purpose, for tests.
//
// +kubebuilder:pruning:PreserveUnknownFields
type BuggifyConfig struct {
	// NoSchedule are groups whose pods fit no node.
	NoSchedule []ProcessGroupTarget `json:"noSchedule,omitempty"`
	// CrashLoop is the older form of CrashLoopContainers for the main container.
	CrashLoop []ProcessGroupTarget `json:"crashLoop,omitempty"`
	// CrashLoopContainers are containers that crash.
	// +kubebuilder:validation:MaxItems=8
	CrashLoopContainers []CrashLoopContainer `json:"crashLoopContainers,omitempty"`
	// EmptyMonitorConf lets no server run.
	EmptyMonitorConf bool `json:"emptyMonitorConf,omitempty"`
	// IgnoreDuringRestart are groups that are not restarted.
	// +kubebuilder:validation:MaxItems=1000
	IgnoreDuringRestart []ProcessGroupTarget `json:"ignoreDuringRestart,omitempty"`
	// BlockRemoval are groups that are not removed.
	// +kubebuilder:validation:MaxItems=1000
	BlockRemoval []ProcessGroupTarget `json:"blockRemoval,omitempty"`
}

// CrashLoopContainer names a container that crashes, and in which groups.
//
// +kubebuilder:pruning:PreserveUnknownFields
type CrashLoopContainer struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ContainerName string `json:"containerName,omitempty"`
	// +kubebuilder:validation:MaxItems=10000
	Targets []ProcessGroupTarget `json:"targets,omitempty"`
}

// LabelConfig says by which labels the children of a cluster are found.
//
// +kubebuilder:pruning:PreserveUnknownFields
type LabelConfig struct {
	// MatchLabels select the children. Default: foundationdb.org/fdb-cluster-name with the cluster's name.
	MatchLabels map[string]string `json:"matchLabels,omitempty"`
	// ResourceLabels are further labels of all children.
	ResourceLabels map[string]string `json:"resourceLabels,omitempty"`
	// ProcessGroupIDLabels get the id; the first is read. Default: foundationdb.org/fdb-process-group-id.
	// +kubebuilder:validation:MaxItems=100
	ProcessGroupIDLabels []string `json:"processGroupIDLabels,omitempty"`
	// ProcessClassLabels get the class; the first is read. Default: foundationdb.org/fdb-process-class.
	// +kubebuilder:validation:MaxItems=100
	ProcessClassLabels []string `json:"processClassLabels,omitempty"`
	// FilterOnOwnerReference ignores what another object owns. Default: false.
	FilterOnOwnerReference *bool `json:"filterOnOwnerReference,omitempty"`
}
