package v1beta2

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FoundationDBCluster is a FoundationDB cluster.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:resource:shortName=fdb,categories=pawl
// +kubebuilder:printcolumn:name="Generation",type=integer,JSONPath=`.metadata.generation`
// +kubebuilder:printcolumn:name="Reconciled",type=integer,JSONPath=`.status.generations.reconciled`
// +kubebuilder:printcolumn:name="Available",type=boolean,JSONPath=`.status.health.available`
// +kubebuilder:printcolumn:name="FullReplication",type=boolean,JSONPath=`.status.health.fullReplication`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.spec.version`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Groups",type=string,JSONPath=`.status.groups`,priority=1
// +kubebuilder:printcolumn:name="Waiting",type=string,JSONPath=`.status.conditions[?(@.type=="Progressing")].reason`,priority=1
// +kubebuilder:printcolumn:name="Running",type=string,JSONPath=`.status.runningVersion`,priority=1
type FoundationDBCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   FoundationDBClusterSpec   `json:"spec,omitzero"`
	Status FoundationDBClusterStatus `json:"status,omitzero"`
}

// FoundationDBClusterList is a list of clusters.
//
// +kubebuilder:object:root=true
type FoundationDBClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []FoundationDBCluster `json:"items"`
}

// FoundationDBClusterSpec is the desired state of a cluster. Defaults that stand in a comment are filled in
// by the operator, not by the API server.
//
// +kubebuilder:pruning:PreserveUnknownFields
type FoundationDBClusterSpec struct {
	// Version is the desired version of FoundationDB.
	// +kubebuilder:validation:Pattern=`(\d+)\.(\d+)\.(\d+)`
	// +kubebuilder:validation:MaxLength=64
	Version string `json:"version"`
	// DatabaseConfiguration is what `configure` sets.
	DatabaseConfiguration DatabaseConfiguration `json:"databaseConfiguration,omitzero"`
	// Processes are the settings of each class; those of general hold for all classes, field by field.
	Processes map[ProcessClass]ProcessSettings `json:"processes,omitempty"`
	// ProcessCounts are the desired numbers of process groups. 0 or absent: computed; negative: none.
	ProcessCounts map[ProcessClass]int `json:"processCounts,omitempty"`
	// SeedConnectionString is the connection string of the cluster to join.
	SeedConnectionString string `json:"seedConnectionString,omitempty"`
	// PartialConnectionString gives parts of the first connection string.
	PartialConnectionString ConnectionString `json:"partialConnectionString,omitzero"`
	FaultDomain             FaultDomainSpec  `json:"faultDomain,omitzero"`
	// ProcessGroupsToRemove are replaced, if the counts still ask for them, and removed.
	// +kubebuilder:validation:MaxItems=500
	ProcessGroupsToRemove []ProcessGroupID `json:"processGroupsToRemove,omitempty"`
	// ProcessGroupsToRemoveWithoutExclusion are removed without moving their data first.
	// +kubebuilder:validation:MaxItems=500
	ProcessGroupsToRemoveWithoutExclusion []ProcessGroupID `json:"processGroupsToRemoveWithoutExclusion,omitempty"`
	// ConfigMap is merged into the config map of the cluster.
	ConfigMap        *corev1.ConfigMap  `json:"configMap,omitempty"`
	MainContainer    ContainerOverrides `json:"mainContainer,omitzero"`
	SidecarContainer ContainerOverrides `json:"sidecarContainer,omitzero"`
	// TrustedCAs are certificates in PEM, whose lines are joined to one file.
	TrustedCAs []string `json:"trustedCAs,omitempty"`
	// SidecarVariables are further variables that the sidecar puts into the monitor's configuration.
	SidecarVariables []string `json:"sidecarVariables,omitempty"`
	// LogGroup is the log group of the servers. Default: the name of the cluster.
	LogGroup string `json:"logGroup,omitempty"`
	// DataCenter is the locality dcid of the processes.
	DataCenter string `json:"dataCenter,omitempty"`
	// DataHall is the locality data_hall of the processes.
	DataHall          string            `json:"dataHall,omitempty"`
	AutomationOptions AutomationOptions `json:"automationOptions,omitzero"`
	// ProcessGroupIDPrefix begins the ids of all process groups, and names this object as an owner of locks.
	// +kubebuilder:validation:MaxLength=43
	// +kubebuilder:validation:Pattern=`^[a-z0-9A-Z]([\-._a-z0-9A-Z])*[a-z0-9A-Z]$`
	ProcessGroupIDPrefix string        `json:"processGroupIDPrefix,omitempty"`
	LockOptions          LockOptions   `json:"lockOptions,omitzero"`
	Routing              RoutingConfig `json:"routing,omitzero"`
	// IgnoreUpgradabilityChecks lets an upgrade begin although clients cannot speak the new protocol.
	IgnoreUpgradabilityChecks bool          `json:"ignoreUpgradabilityChecks,omitempty"`
	Buggify                   BuggifyConfig `json:"buggify,omitzero"`
	// StorageServersPerPod is the number of servers in a pod of class storage. Default: 1.
	// +kubebuilder:validation:Minimum=0
	StorageServersPerPod int `json:"storageServersPerPod,omitempty"`
	// LogServersPerPod is the number of servers in a pod of class log or transaction. Default: 1.
	// +kubebuilder:validation:Minimum=0
	LogServersPerPod int `json:"logServersPerPod,omitempty"`
	// MinimumUptimeSecondsForBounce is how long the database must be up before servers are restarted.
	// +kubebuilder:default=600
	// +kubebuilder:validation:Minimum=1
	MinimumUptimeSecondsForBounce int `json:"minimumUptimeSecondsForBounce,omitempty"`
	// ReplaceInstancesWhenResourcesChange replaces groups whose resource requests grow.
	// +kubebuilder:default=false
	ReplaceInstancesWhenResourcesChange *bool `json:"replaceInstancesWhenResourcesChange,omitempty"`
	// Skip leaves the cluster as it is.
	// +kubebuilder:default=false
	Skip bool `json:"skip,omitempty"`
	// CoordinatorSelection are the classes that may be coordinators, and which are preferred. Default: all
	// stateful classes.
	CoordinatorSelection []CoordinatorSelection `json:"coordinatorSelection,omitempty"`
	Labels               LabelConfig            `json:"labels,omitzero"`
	// UseExplicitListenAddress lets servers listen on the pod's IP. Default: true.
	UseExplicitListenAddress *bool `json:"useExplicitListenAddress,omitempty"`
	// ImageType says whether monitor and sidecar are one image or two.
	// +kubebuilder:default=unified
	ImageType ImageType `json:"imageType,omitempty"`
	// MaxZonesWithUnavailablePods is how many zones may have unavailable pods when pods are updated.
	// Absent: any number.
	MaxZonesWithUnavailablePods *int `json:"maxZonesWithUnavailablePods,omitempty"`
}

// ImageType is split (a monitor and a sidecar of two images) or unified (one image).
//
// +kubebuilder:validation:Enum=split;unified
type ImageType string

// The image types.
const (
	ImageTypeSplit   ImageType = "split"
	ImageTypeUnified ImageType = "unified"
)

// ProcessClass is the class of a process, as FoundationDB names it.
type ProcessClass string

// ProcessGroupID is the id of a process group: prefix-class-number.
//
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^[\w.-]+-\d+$`
type ProcessGroupID string

// ProcessGroupTarget is the id of a process group, or * for all.
//
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^([\w.-]+-\d+|\*)$`
type ProcessGroupTarget string

// ProcessSettings are the settings of the processes of one class. Lists do not merge with those of general.
//
// +kubebuilder:pruning:PreserveUnknownFields
type ProcessSettings struct {
	PodTemplate         *corev1.PodTemplateSpec       `json:"podTemplate,omitempty"`
	VolumeClaimTemplate *corev1.PersistentVolumeClaim `json:"volumeClaimTemplate,omitempty"`
	CustomParameters    CustomParameters              `json:"customParameters,omitempty"`
}

// CustomParameters are arguments of a program: name=value.
//
// +kubebuilder:validation:MaxItems=100
type CustomParameters []CustomParameter

// CustomParameter is one argument of a program: name=value.
//
// +kubebuilder:validation:MaxLength=100
type CustomParameter string

// ConnectionString are the parts of a connection string.
//
// +kubebuilder:pruning:PreserveUnknownFields
type ConnectionString struct {
	DatabaseName string   `json:"databaseName,omitempty"`
	GenerationID string   `json:"generationID,omitempty"`
	Coordinators []string `json:"coordinators,omitempty"`
}

// FaultDomainSpec says what fails together.
//
// +kubebuilder:pruning:PreserveUnknownFields
type FaultDomainSpec struct {
	// Key is a topology key, foundationdb.org/none (each pod is a zone) or
	// foundationdb.org/kubernetes-cluster (this object is a zone). Default: kubernetes.io/hostname.
	Key string `json:"key,omitempty"`
	// Value is the zone with foundationdb.org/kubernetes-cluster.
	Value string `json:"value,omitempty"`
	// ValueFrom names a variable with the zone: $VARIABLE.
	ValueFrom string `json:"valueFrom,omitempty"`
	// ZoneCount is the number of Kubernetes clusters.
	ZoneCount int `json:"zoneCount,omitempty"`
	// ZoneIndex is the number of this Kubernetes cluster, from 0; negative: it runs nothing by default.
	ZoneIndex int `json:"zoneIndex,omitempty"`
}

// ContainerOverrides change the main container or the sidecar.
//
// +kubebuilder:pruning:PreserveUnknownFields
type ContainerOverrides struct {
	// EnableTLS of the main container is that of the servers, of the sidecar that of its HTTP interface.
	EnableTLS bool `json:"enableTls,omitempty"`
	// +kubebuilder:validation:MaxLength=10000
	PeerVerificationRules string `json:"peerVerificationRules,omitempty"`
	// +kubebuilder:validation:MaxItems=100
	ImageConfigs []ImageConfig `json:"imageConfigs,omitempty"`
	// EnableLivenessProbe of the sidecar. Default: true.
	EnableLivenessProbe *bool `json:"enableLivenessProbe,omitempty"`
	// EnableReadinessProbe of the sidecar. Default: false.
	EnableReadinessProbe *bool `json:"enableReadinessProbe,omitempty"`
}

// ImageConfig is a part of a rule that chooses an image. For each field the first entry counts that has a
// value and fits the version.
//
// +kubebuilder:pruning:PreserveUnknownFields
type ImageConfig struct {
	// Version is the only version for which the entry counts. Empty: all.
	// +kubebuilder:validation:MaxLength=20
	Version string `json:"version,omitempty"`
	// +kubebuilder:validation:MaxLength=200
	BaseImage string `json:"baseImage,omitempty"`
	// Tag is the whole tag; with it the suffix does not count.
	// +kubebuilder:validation:MaxLength=100
	Tag string `json:"tag,omitempty"`
	// TagSuffix follows the version.
	// +kubebuilder:validation:MaxLength=50
	TagSuffix string `json:"tagSuffix,omitempty"`
}

// CoordinatorSelection lets processes of a class be coordinators. A higher priority is preferred.
//
// +kubebuilder:pruning:PreserveUnknownFields
type CoordinatorSelection struct {
	// +kubebuilder:validation:Enum=storage;log;transaction;coordinator
	ProcessClass ProcessClass `json:"processClass,omitempty"`
	Priority     int          `json:"priority,omitempty"`
}
