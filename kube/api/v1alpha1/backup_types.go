package v1alpha1

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SharedStorageBackup is one base backup of a SharedStorageCluster.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:resource:shortName=ssb,categories={pawl,all}
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.cluster`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Label",type=string,JSONPath=`.status.label`
// +kubebuilder:printcolumn:name="Ended",type=date,JSONPath=`.status.endedAt`
// +kubebuilder:printcolumn:name="Size",type=integer,JSONPath=`.status.size`,priority=1
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type SharedStorageBackup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   SharedStorageBackupSpec   `json:"spec"`
	Status SharedStorageBackupStatus `json:"status,omitempty"`
}

// SharedStorageBackupList is a list of backups.
//
// +kubebuilder:object:root=true
type SharedStorageBackupList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []SharedStorageBackup `json:"items"`
}

// SharedStorageBackupSpec says what to back up.
//
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a backup cannot be changed: create another one"
type SharedStorageBackupSpec struct {
	// Cluster of the same namespace; its spec.backup says where the backup goes.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Cluster string `json:"cluster"`
	// Type is full, diff (what changed since the last full one) or incr (since the last one).
	// +kubebuilder:default=full
	// +kubebuilder:validation:Enum=full;diff;incr
	Type string `json:"type,omitempty"`
	// Verify restores the backup into a scratch folder of a reader, or of the writer if there is
	// none, recovers it and reads each page against its checksum.
	Verify bool `json:"verify,omitempty"`
}

// SharedStorageBackupStatus is how the backup goes.
type SharedStorageBackupStatus struct {
	// State is Pending, BackingUp, Completed, Interrupted, Cancelled or Deleting.
	State   string      `json:"state,omitempty"`
	Since   metav1.Time `json:"since,omitempty"`
	Reason  string      `json:"reason,omitempty"`
	Message string      `json:"message,omitempty"`
	// Position is the position of the machine: the checkpoint of the operator.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	Position           json.RawMessage `json:"position,omitempty"`
	ObservedGeneration int64           `json:"observedGeneration,omitempty"`
	Run                *CurrentRun     `json:"run,omitempty"`

	Label     string       `json:"label,omitempty"` // name of the backup in the repository
	Type      string       `json:"type,omitempty"`  // the first one in a repository is always full
	StartedAt *metav1.Time `json:"startedAt,omitempty"`
	EndedAt   *metav1.Time `json:"endedAt,omitempty"` // a restore to a later time can begin with it
	StartLSN  string       `json:"startLSN,omitempty"`
	StopLSN   string       `json:"stopLSN,omitempty"`
	Size      int64        `json:"size,omitempty"`   // bytes of the database
	Stored    int64        `json:"stored,omitempty"` // bytes that it added to the repository
	Verified  *metav1.Time `json:"verified,omitempty"`
	// Expired: the retention has removed it from the repository.
	Expired bool `json:"expired,omitempty"`
	// Repository is where it is, without any secret.
	Repository *RepositorySpec `json:"repository,omitempty"`

	// LastRequest is the answer to the newest annotation with a request to the run.
	LastRequest *RunRequest `json:"lastRequest,omitempty"`
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// BackupSpec makes a cluster archive its log, and take backups.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.every) && has(self.cron))",message="backup: either every or cron"
// +kubebuilder:validation:XValidation:rule="!has(self.timeZone) || has(self.cron)",message="backup.timeZone is that of backup.cron, which is missing"
type BackupSpec struct {
	Repository RepositorySpec `json:"repository"`
	// Every is the time between two scheduled full backups, such as 24h. Without it only
	// SharedStorageBackups that somebody creates are taken.
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m')",message="backup.every is at least 1m"
	Every *metav1.Duration `json:"every,omitempty"`
	// Cron says when full backups are taken, instead of every: minute, hour, day of month, month, day
	// of week, such as "30 2 * * *", or @daily and its like.
	// +kubebuilder:validation:MaxLength=200
	Cron string `json:"cron,omitempty"`
	// TimeZone of cron by its IANA name, such as Europe/Berlin; default UTC.
	// +kubebuilder:validation:MaxLength=100
	TimeZone string `json:"timeZone,omitempty"`
	// +kubebuilder:default={backups: 7}
	Retention RetentionSpec `json:"retention,omitempty"`
	// MaxWaiting is how much log may wait on the volume for an archive that cannot be reached. What
	// is beyond is given up, the oldest first: no time from then until the end of the next backup,
	// which is taken by itself, can be restored (status.backup.gap). Without it nothing is given up,
	// and the log fills the volume in the end, which stops the writer.
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('64Mi')) >= 0",message="backup.maxWaiting is 64Mi at least"
	MaxWaiting *resource.Quantity `json:"maxWaiting,omitempty"`
}

// RetentionSpec says what is kept: a number of full backups, or some days. Either keeps the log
// that a restore to any time since then needs.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.backups) && has(self.days))",message="retention: either backups or days"
type RetentionSpec struct {
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	Backups int32 `json:"backups,omitempty"`
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	Days int32 `json:"days,omitempty"`
}

// RepositorySpec is where the log and the backups of a cluster are kept.
//
// +kubebuilder:validation:XValidation:rule="has(self.folder) || has(self.s3)",message="repository: name a folder or s3"
type RepositorySpec struct {
	// Folder is an absolute path on the machine of the instances (in their pods, on a volume that
	// all of them mount), where the user of PostgreSQL may write. With s3 it is a path in the bucket.
	// +kubebuilder:validation:Pattern=`^/`
	// +kubebuilder:validation:MaxLength=1000
	Folder string `json:"folder,omitempty"`
	// Stanza is the name of the cluster in the repository; default <namespace>-<name>.
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][A-Za-z0-9_.-]*$`
	// +kubebuilder:validation:MaxLength=100
	Stanza string  `json:"stanza,omitempty"`
	S3     *S3Spec `json:"s3,omitempty"`
	// EncryptionKey is a passphrase; everything is encrypted with it (AES-256). It cannot be changed
	// later. nil: nothing is encrypted.
	EncryptionKey *SecretSource `json:"encryptionKey,omitempty"`
}

// S3Spec is an object store with the protocol of S3, over TLS.
type S3Spec struct {
	// +kubebuilder:validation:MinLength=1
	Bucket string `json:"bucket"`
	// Endpoint is a host, or host:port.
	// +kubebuilder:validation:MinLength=1
	Endpoint string `json:"endpoint"`
	// +kubebuilder:default=us-east-1
	Region string `json:"region,omitempty"`
	// PathStyle puts the bucket into the path instead of the host name.
	PathStyle bool         `json:"pathStyle,omitempty"`
	KeyID     SecretSource `json:"keyID"`
	SecretKey SecretSource `json:"secretKey"`
	// CA holds the certificates that sign the endpoint's, in PEM; nil: those of the system.
	CA *SecretSource `json:"ca,omitempty"`
}

// SecretSource is where a secret is read: a key of a Secret of the namespace, or, without
// Kubernetes, a file that only its owner may read.
type SecretSource struct {
	Secret *SecretKey `json:"secret,omitempty"`
	File   string     `json:"file,omitempty"`
}

// SecretKey is a key of a Secret.
type SecretKey struct {
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
	// +kubebuilder:validation:MinLength=1
	Key string `json:"key"`
}

// RestoreSpec is the backup that a new cluster begins with, and the point up to which the log is
// applied to it. Without a target that is everything in the archive.
//
// +kubebuilder:validation:XValidation:rule="[has(self.cluster), has(self.backup), has(self.repository)].filter(x, x).size() == 1",message="restoreFrom: name one of cluster, backup and repository"
type RestoreSpec struct {
	// Cluster whose repository is used: of the same namespace, and still there.
	Cluster string `json:"cluster,omitempty"`
	// Backup is a SharedStorageBackup of the same namespace. Its cluster may be gone.
	Backup string `json:"backup,omitempty"`
	// Repository to use; it needs a stanza.
	Repository *RepositorySpec `json:"repository,omitempty"`
	// Label of a backup in the repository; default: the newest one that is old enough.
	Label  string        `json:"label,omitempty"`
	Target RestoreTarget `json:"target,omitempty"`
}

// RestoreTarget is the last change that the new cluster has.
//
// +kubebuilder:validation:XValidation:rule="[has(self.time), has(self.name), has(self.backupOnly)].filter(x, x).size() <= 1",message="target: at most one of time, name and backupOnly"
type RestoreTarget struct {
	// Time, such as 2026-11-26T21:00:00Z: the transactions that were committed up to it.
	// +kubebuilder:validation:Format=date-time
	Time string `json:"time,omitempty"`
	// Name of a restore point, made with pg_create_restore_point.
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name,omitempty"`
	// BackupOnly applies no more of the log than the backup needs.
	BackupOnly bool `json:"backupOnly,omitempty"`
}

// BackupStatus is the observed state of archiving and backups.
type BackupStatus struct {
	// ArchivedUntil is a time up to which everything is in the archive, to 5 minutes.
	ArchivedUntil *metav1.Time `json:"archivedUntil,omitempty"`
	// Scheduled is the time of the last scheduled backup.
	Scheduled *metav1.Time `json:"scheduled,omitempty"`
	// Next is the time of the next scheduled backup.
	Next *metav1.Time `json:"next,omitempty"`
	// ScheduledTo is the place of that backup. Another place gets a backup at once.
	ScheduledTo string `json:"scheduledTo,omitempty"`
	// Gap is the newest part of the log that was given up (spec.backup.maxWaiting).
	Gap *ArchiveGap `json:"gap,omitempty"`
}

// ArchiveGap is a time that cannot be restored.
type ArchiveGap struct {
	// From is the last time that an earlier backup can be restored to, to 5 minutes.
	From *metav1.Time `json:"from,omitempty"`
	// Until is when the last segment was given up.
	Until metav1.Time `json:"until"`
	// Segment is the last one that was given up.
	Segment string `json:"segment"`
	// Place is the repository that lacks this part. The gap is forgotten when the log goes to another one.
	Place string `json:"place,omitempty"`
	// Backup is the SharedStorageBackup that the operator has created to close the gap.
	Backup string `json:"backup,omitempty"`
	// Closed is the end of the first backup that began after Until: later times can be restored.
	Closed *metav1.Time `json:"closed,omitempty"`
}
