package v1beta2

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// FoundationDBRestore is one restore of a backup into a cluster.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:resource:shortName=fdbrestore,categories=pawl
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Tag",type=string,JSONPath=`.status.tag`
// +kubebuilder:printcolumn:name="Started",type=date,JSONPath=`.status.startedAt`
// +kubebuilder:printcolumn:name="Completed",type=date,JSONPath=`.status.completedAt`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type FoundationDBRestore struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   FoundationDBRestoreSpec   `json:"spec,omitzero"`
	Status FoundationDBRestoreStatus `json:"status,omitzero"`
}

// FoundationDBRestoreList is a list of restores.
//
// +kubebuilder:object:root=true
type FoundationDBRestoreList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []FoundationDBRestore `json:"items"`
}

// FoundationDBRestoreSpec says what is restored, and where.
//
// +kubebuilder:pruning:PreserveUnknownFields
type FoundationDBRestoreSpec struct {
	// DestinationClusterName is the cluster, in the same namespace.
	DestinationClusterName string `json:"destinationClusterName"`
	// KeyRanges that are restored. Absent: all keys.
	KeyRanges              []KeyRange              `json:"keyRanges,omitempty"`
	BlobStoreConfiguration *BlobStoreConfiguration `json:"blobStoreConfiguration,omitempty"`
	CustomParameters       CustomParameters        `json:"customParameters,omitempty"`
	// EncryptionKeyPath is a file that the tools of the operator can read.
	// +kubebuilder:validation:MaxLength=4096
	EncryptionKeyPath string `json:"encryptionKeyPath,omitempty"`
	// BackupVersion is the version of the database that is restored. Absent: the newest.
	// +nullable
	BackupVersion *int64 `json:"backupVersion,omitempty"`
	// Tag names the restore in the database. Default: restore- and the first 8 characters of the object's
	// UID.
	// +kubebuilder:validation:MaxLength=64
	Tag string `json:"tag,omitempty"`
}

// KeyRange is a range of keys; bytes may be written as \xNN.
//
// +kubebuilder:pruning:PreserveUnknownFields
type KeyRange struct {
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9\/\\-]+$`
	Start string `json:"start"`
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9\/\\-]+$`
	End string `json:"end"`
}

// FoundationDBRestoreStatus is the observed state of a restore.
type FoundationDBRestoreStatus struct {
	// Running is true in the states queued, starting and running.
	Running bool         `json:"running,omitempty"`
	State   RestoreState `json:"state,omitempty"`

	// What follows is Pawl's own.

	Tag         string       `json:"tag,omitempty"`
	StartedAt   *metav1.Time `json:"startedAt,omitempty"`
	CompletedAt *metav1.Time `json:"completedAt,omitempty"`
	Message     string       `json:"message,omitempty"`

	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// RestoreState is uninitialized, queued, starting, running, completed, aborted or Unknown.
//
// +kubebuilder:validation:MaxLength=50
type RestoreState string
