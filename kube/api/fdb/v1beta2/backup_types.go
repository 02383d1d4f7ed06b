package v1beta2

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FoundationDBBackup is a backup of a cluster.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:resource:shortName=fdbbackup,categories=pawl
// +kubebuilder:printcolumn:name="Generation",type=integer,JSONPath=`.metadata.generation`
// +kubebuilder:printcolumn:name="Reconciled",type=integer,JSONPath=`.status.generations.reconciled`
// +kubebuilder:printcolumn:name="Running",type=boolean,JSONPath=`.status.backupDetails.running`
// +kubebuilder:printcolumn:name="Restorable",type=boolean,JSONPath=`.status.backupDetails.restorable`
// +kubebuilder:printcolumn:name="Paused",type=boolean,JSONPath=`.status.backupDetails.paused`
// +kubebuilder:printcolumn:name="Tag",type=string,JSONPath=`.status.backupDetails.tag`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type FoundationDBBackup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   FoundationDBBackupSpec   `json:"spec,omitzero"`
	Status FoundationDBBackupStatus `json:"status,omitzero"`
}

// FoundationDBBackupList is a list of backups.
//
// +kubebuilder:object:root=true
type FoundationDBBackupList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []FoundationDBBackup `json:"items"`
}

// FoundationDBBackupSpec is the desired state of a backup.
//
// +kubebuilder:pruning:PreserveUnknownFields
// +kubebuilder:validation:XValidation:rule="(has(self.tag) ? self.tag : 'default') == (has(oldSelf.tag) ? oldSelf.tag : 'default')",message="tag cannot be changed",fieldPath=".tag"
type FoundationDBBackupSpec struct {
	// Version is that of the cluster.
	Version string `json:"version"`
	// ClusterName is the cluster, in the same namespace.
	ClusterName string `json:"clusterName"`
	DataCenter  string `json:"dataCenter,omitempty"`
	// BackupState. Default: Running.
	BackupState BackupState `json:"backupState,omitempty"`
	// AgentCount is the number of agents. Default: 2.
	AgentCount *int `json:"agentCount,omitempty"`
	// SnapshotPeriodSeconds is the time between two snapshots. Default: 864000, ten days.
	SnapshotPeriodSeconds *int `json:"snapshotPeriodSeconds,omitempty"`
	// BackupDeploymentMetadata is merged into the deployment of the agents.
	BackupDeploymentMetadata *metav1.ObjectMeta `json:"backupDeploymentMetadata,omitempty"`
	// PodTemplateSpec is that of the agents.
	PodTemplateSpec  *corev1.PodTemplateSpec `json:"podTemplateSpec,omitempty"`
	CustomParameters CustomParameters        `json:"customParameters,omitempty"`
	// AllowTagOverride lets an image of podTemplateSpec have a tag of its own, instead of one that follows from the version.
	// +kubebuilder:default=false
	AllowTagOverride       *bool                   `json:"allowTagOverride,omitempty"`
	BlobStoreConfiguration *BlobStoreConfiguration `json:"blobStoreConfiguration,omitempty"`
	// EncryptionKeyPath is a file in the pods.
	// +kubebuilder:validation:MaxLength=4096
	EncryptionKeyPath string             `json:"encryptionKeyPath,omitempty"`
	MainContainer     ContainerOverrides `json:"mainContainer,omitzero"`
	SidecarContainer  ContainerOverrides `json:"sidecarContainer,omitzero"`
	// +kubebuilder:default=split
	ImageType ImageType `json:"imageType,omitempty"`
	// +kubebuilder:default=backup_agent
	BackupType BackupType `json:"backupType,omitempty"`
	// DeletionPolicy says what becomes of the backup when the object is deleted.
	// +kubebuilder:default=noop
	DeletionPolicy BackupDeletionPolicy `json:"deletionPolicy,omitempty"`
	// +kubebuilder:default=continuous
	BackupMode BackupMode `json:"backupMode,omitempty"`
	// Tag names the backup in the database. Default: default.
	// +kubebuilder:validation:MaxLength=64
	Tag string `json:"tag,omitempty"`
}

// BackupState is what a backup should be.
//
// +kubebuilder:validation:Enum=Running;Stopped;Paused
type BackupState string

// The states of backups.
const (
	BackupRunning BackupState = "Running"
	BackupStopped BackupState = "Stopped"
	BackupPaused  BackupState = "Paused"
)

// BackupType says how mutations are written: by agents, by the backup workers of the database, or by a
// backup that the operator does not start or stop.
//
// +kubebuilder:validation:Enum=backup_agent;partitioned_log;unmanaged
type BackupType string

// The types of backups.
const (
	BackupTypeAgent          BackupType = "backup_agent"
	BackupTypePartitionedLog BackupType = "partitioned_log"
	BackupTypeUnmanaged      BackupType = "unmanaged"
)

// BackupDeletionPolicy says what becomes of a backup whose object is deleted: nothing, it is aborted, or it
// is aborted and its files are deleted.
//
// +kubebuilder:validation:Enum=noop;stop;cleanup
type BackupDeletionPolicy string

// The deletion policies.
const (
	BackupDeletionNoop    BackupDeletionPolicy = "noop"
	BackupDeletionStop    BackupDeletionPolicy = "stop"
	BackupDeletionCleanup BackupDeletionPolicy = "cleanup"
)

// BackupMode says whether a backup goes on, or ends when it is restorable.
//
// +kubebuilder:validation:Enum=continuous;oneTime
type BackupMode string

// The modes of backups.
const (
	BackupContinuous BackupMode = "continuous"
	BackupOneTime    BackupMode = "oneTime"
)

// BlobStoreConfiguration is where a backup is written to.
//
// +kubebuilder:pruning:PreserveUnknownFields
type BlobStoreConfiguration struct {
	// AccountName is account@host, with an optional port.
	// +kubebuilder:validation:MaxLength=100
	// +kubebuilder:validation:Pattern=`@`
	AccountName string `json:"accountName"`
	// Bucket. Default: fdb-backups.
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=63
	Bucket string `json:"bucket,omitempty"`
	// BackupName. Default: the name of the object.
	// +kubebuilder:validation:MaxLength=1024
	BackupName string `json:"backupName,omitempty"`
	// URLParameters are name=value.
	// +kubebuilder:validation:MaxItems=100
	URLParameters []URLParameter `json:"urlParameters,omitempty"`
}

// URLParameter is a parameter of a blob store's URL: name=value.
//
// +kubebuilder:validation:MaxLength=1024
type URLParameter string

// FoundationDBBackupStatus is the observed state of a backup.
type FoundationDBBackupStatus struct {
	AgentCount int `json:"agentCount,omitempty"`
	// DeploymentConfigured: the deployment of the agents is as it should be.
	DeploymentConfigured bool                   `json:"deploymentConfigured,omitempty"`
	BackupDetails        *BackupDetails         `json:"backupDetails,omitempty"`
	Generations          BackupGenerationStatus `json:"generations,omitzero"`

	// What follows is Pawl's own.

	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// BackupDetails is what `fdbbackup status` tells.
type BackupDetails struct {
	URL     string `json:"url,omitempty"`
	Running bool   `json:"running,omitempty"`
	Paused  bool   `json:"paused,omitempty"`
	// SnapshotTime is the period of snapshots in seconds.
	SnapshotTime int    `json:"snapshotTime,omitempty"`
	Restorable   bool   `json:"restorable,omitempty"`
	Tag          string `json:"tag,omitempty"`
}

// BackupGenerationStatus has the generation of the object in each field whose statement is true.
type BackupGenerationStatus struct {
	Reconciled              int64 `json:"reconciled,omitempty"`
	NeedsBackupAgentUpdate  int64 `json:"needsBackupAgentUpdate,omitempty"`
	NeedsBackupStart        int64 `json:"needsBackupStart,omitempty"`
	NeedsBackupStop         int64 `json:"needsBackupStop,omitempty"`
	NeedsBackupPauseToggle  int64 `json:"needsBackupPauseToggle,omitempty"`
	NeedsBackupModification int64 `json:"needsBackupModification,omitempty"`
}
