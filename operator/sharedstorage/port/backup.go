package port

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"path"
	"time"

	"github.com/pawl-dev/pawl/fault"
)

// Archiver is an optional interface of Engine: archiving of the log, base backups and their checks.
// A restore is an Install with Source.Restore.
//
//	log ──archive──▶ ┌────────────┐
//	                 │ Repository │ ──Install, Verify──▶ data of another instance, at any time since the oldest backup
//	data ──Backup──▶ └────────────┘
type Archiver interface {
	// Archive makes the engine send its log to this repository while it is the writer; nil: to none.
	// It needs no restart, and takes effect after the call. Status.Archive says how it goes.
	Archive(ctx context.Context, id Ref, to *Repository) error
	// Backup begins a base backup in the repository of Archive, or returns the one of this key. It
	// goes on in the background; repeat the call to follow it. A failed backup is tried again by the
	// next call, unless follow is set.
	Backup(ctx context.Context, id Ref, want BackupOrder) (Backup, error)
	// Backups returns the complete backups in the repository of Archive, oldest first.
	Backups(ctx context.Context, id Ref) ([]Backup, error)
	// Verify restores a backup into a scratch folder of this instance, recovers it, reads each page
	// against its checksum and removes it; the engine goes on meanwhile. It behaves like Backup.
	Verify(ctx context.Context, id Ref, want VerifyOrder) (Backup, error)
}

// Repository is where the log and the backups of a cluster are kept: a folder, or an object store.
type Repository struct {
	Stanza     string `json:"stanza"`           // name of the cluster in the repository
	Folder     string `json:"folder,omitempty"` // absolute path, on the machine or in the pods; of an object store: path in the bucket
	S3         *S3    `json:"s3,omitempty"`
	Passphrase string `json:"passphrase,omitempty"` // everything is encrypted with it; empty: nothing is

	KeepBackups int `json:"keepBackups,omitempty"` // full backups that stay; 0: all, unless KeepDays
	KeepDays    int `json:"keepDays,omitempty"`    // days that can be restored; instead of KeepBackups

	MaxWaiting int64 `json:"maxWaiting,omitempty"` // bytes of log that may wait for it; what is beyond is given up. 0: nothing is
}

// S3 is an object store with the protocol of S3.
type S3 struct {
	Bucket    string `json:"bucket"`
	Endpoint  string `json:"endpoint"` // host or host:port; TLS is always used
	Region    string `json:"region"`
	KeyID     string `json:"keyID,omitempty"`
	Secret    string `json:"secret,omitempty"`
	CA        string `json:"ca,omitempty"`        // certificates that sign the endpoint's, in PEM; empty: those of the system
	PathStyle bool   `json:"pathStyle,omitempty"` // the bucket is part of the path, not of the host name
}

// Hash identifies the repository with its secrets and retention, and reveals none of them. nil has
// the hash "".
func (r *Repository) Hash() string {
	if r == nil {
		return ""
	}
	raw, err := json.Marshal(r)
	if err != nil {
		panic("port: " + err.Error()) // it consists of strings and numbers
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8])
}

// Same reports whether two repositories are one place: whatever is written to one is in the other.
func (r *Repository) Same(other *Repository) bool {
	return r != nil && other != nil && r.Place() == other.Place()
}

// Place says where a repository is, without its secrets and retention: s3://endpoint/bucket/folder#stanza,
// or /folder#stanza. nil has the place "".
func (r *Repository) Place() string {
	if r == nil {
		return ""
	}
	place := path.Clean("/"+r.Folder) + "#" + r.Stanza
	if r.S3 != nil {
		place = "s3://" + r.S3.Endpoint + "/" + r.S3.Bucket + place
	}
	return place
}

// ArchiveStatus is how the archiving of an engine goes.
type ArchiveStatus struct {
	Repository string    `json:"repository,omitempty"` // Hash of the repository that was set
	Last       string    `json:"last,omitempty"`       // the newest segment of the log that is archived
	LastAt     time.Time `json:"lastAt,omitzero"`
	Waiting    int       `json:"waiting,omitempty"` // complete segments that are not archived
	Bytes      int64     `json:"bytes,omitempty"`   // of them
	Free       int64     `json:"free,omitempty"`    // bytes of the volume that are free; 0: unknown
	Since      time.Time `json:"since,omitzero"`    // age of the oldest of them
	Dropped    string    `json:"dropped,omitempty"` // the last segment that was given up for Repository.MaxWaiting
	DroppedAt  time.Time `json:"droppedAt,omitzero"`
	Failing    bool      `json:"failing,omitempty"`    // the last try failed
	Code       string    `json:"code,omitempty"`       // why
	Message    string    `json:"message,omitempty"`    // why
	Backup     string    `json:"backup,omitempty"`     // label of the newest backup that this agent knows
	BackupAt   time.Time `json:"backupAt,omitzero"`    // its end
	Unreadable bool      `json:"unreadable,omitempty"` // the repository could not be prepared yet
}

// BackupType is what a backup copies.
type BackupType string

// The types of backups. The first one in a repository is always full.
const (
	FullBackup         BackupType = "full"
	DifferentialBackup BackupType = "diff" // what changed since the last full one
	IncrementalBackup  BackupType = "incr" // what changed since the last one
)

// BackupOrder is a base backup to take.
type BackupOrder struct {
	Key    string     `json:"key"` // the same key never takes two
	Type   BackupType `json:"type,omitempty"`
	Follow bool       `json:"follow,omitempty"` // only say how it goes
}

// VerifyOrder is a backup to check.
type VerifyOrder struct {
	Key        string     `json:"key"`
	Repository Repository `json:"repository"`
	Label      string     `json:"label"`
	Follow     bool       `json:"follow,omitempty"`
}

// JobState is the state of a backup or of its check.
type JobState string

// The states of a backup. None means that nobody has ordered it here, Waiting that it begins when
// another one has ended: repeat the call.
const (
	JobNone    JobState = ""
	JobWaiting JobState = "Waiting"
	JobRunning JobState = "Running"
	JobDone    JobState = "Done"
	JobFailed  JobState = "Failed"
)

// Backup is one base backup.
type Backup struct {
	State    JobState   `json:"state,omitempty"`
	Key      string     `json:"key,omitempty"`
	Label    string     `json:"label,omitempty"` // its name in the repository
	Type     BackupType `json:"type,omitempty"`
	Started  time.Time  `json:"started,omitzero"`
	Ended    time.Time  `json:"ended,omitzero"`
	StartLSN string     `json:"startLSN,omitempty"`
	StopLSN  string     `json:"stopLSN,omitempty"` // a restore needs the log up to here at least
	Size     int64      `json:"size,omitempty"`    // bytes of the database
	Stored   int64      `json:"stored,omitempty"`  // bytes that it added to the repository
	Code     string     `json:"code,omitempty"`    // of a failed one
	Message  string     `json:"message,omitempty"`
}

// Restore is a backup and the point up to which the log is applied to it. Without Time and Name
// everything in the archive is applied.
type Restore struct {
	Repository Repository `json:"repository"`
	Label      string     `json:"label,omitempty"`      // empty: the newest backup that is old enough for the target
	Time       time.Time  `json:"time,omitzero"`        // commits up to this time, included
	Name       string     `json:"name,omitempty"`       // up to this restore point (pg_create_restore_point)
	Consistent bool       `json:"consistent,omitempty"` // no further than the backup needs
}

func declareBackup(code fault.Code, class fault.Class, title, remedy string) *fault.Kind {
	return fault.Declare(fault.Kind{Code: code, Class: class, Title: title, Remedy: remedy, Guide: "backup-and-restore.md"})
}

// The faults of archiving, backups and restores.
var (
	BackupToolMissing = declareBackup("BACKUP_TOOL_MISSING", fault.Blocked, "pgBackRest is not installed where the engine runs",
		"Install it (apt-get install pgbackrest), or use an image that has it; then resume.")
	RepositoryFailed = declareBackup("BACKUP_REPOSITORY_FAILED", fault.Blocked, "the repository of backups cannot be used",
		"The message is that of pgBackRest: mend the folder, the object store, its credentials or the passphrase that it names. The log waits on the volume meanwhile, and is archived by itself.")
	RepositoryTaken = declareBackup("BACKUP_REPOSITORY_TAKEN", fault.Blocked, "the repository has backups of another database under this name",
		"Nothing there is changed. Give the cluster another spec.backup.repository.stanza, or move the old backups away.")
	ArchiveFailed = declareBackup("ARCHIVE_FAILED", fault.Blocked, "the log is not archived",
		"What is newer than the last archived segment cannot be restored. Mend what the message names; the log waits on the volume and is archived by itself. See to the space there.")
	ArchiveConflict = declareBackup("ARCHIVE_CONFLICT", fault.Blocked, "the archive has another file under the name of one of the log",
		"Two writers were promoted to one timeline, and the first has archived its history; trying again does not help. Set another spec.backup.repository.stanza: the log goes there, and with a schedule a backup at once; otherwise take one. The old stanza can be restored up to the first promotion.")
	BackupFailed = declareBackup("BACKUP_FAILED", fault.Blocked, "a base backup has failed",
		"Mend what the message names and resume the run: what is complete in the repository is used again. Earlier backups are as they were.")
	BackupMissing = declareBackup("BACKUP_MISSING", fault.Invalid, "the repository has no backup that fits",
		"Name a backup that is there (status of the SharedStorageBackups), or a time after the end of the oldest one.")
	RestoreFailed = declareBackup("RESTORE_FAILED", fault.Blocked, "the data could not be restored",
		"Mend what the message names and resume the run: the restore begins again. The repository and its cluster are not touched.")
	RestoreTargetMissing = declareBackup("RESTORE_TARGET_MISSING", fault.Invalid, "the log in the archive does not reach the target",
		"Delete the new cluster, and create it with a target that the archive has: an earlier time, or none for everything that was archived.")
	BackupDamaged = declareBackup("BACKUP_DAMAGED", fault.Blocked, "a backup could not be restored, or its pages do not fit their checksums",
		"Take a full backup now, and check it too. Keep the damaged one until that has succeeded.")
)
