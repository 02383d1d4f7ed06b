package fdb

import (
	"bytes"
	"encoding/json"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/fault"
)

var (
	// BlobStoreInvalid is the fault of a blob store that has no URL.
	BlobStoreInvalid = fault.Declare(fault.Kind{
		Code: "FDB_BLOB_STORE_INVALID", Class: fault.Invalid,
		Title:  "the blob store of a backup or a restore has no URL",
		Remedy: "Set accountName to <key>@<host>[:<port>] and check bucket, backupName and urlParameters.",
		Guide:  "foundationdb.md#back-up-and-restore",
	})
	// AnswerUnreadable is the fault of a tool that printed something else than it was asked for.
	AnswerUnreadable = fault.Declare(fault.Kind{
		Code: "FDB_ANSWER_UNREADABLE", Class: fault.Transient,
		Title:  "a tool of FoundationDB printed something else than it was asked for",
		Remedy: "Run the same tool by hand and compare. If it prints the same, report it with the version of the tool.",
		Guide:  "foundationdb.md#if-it-does-not-go-on",
	})
)

// Defaults of a backup.
const (
	DefaultBackupTag      = "default"
	DefaultBucket         = "fdb-backups"
	DefaultSnapshotPeriod = 864000 // seconds
)

// BlobStore is where backups lie.
type BlobStore struct {
	AccountName   string   `json:"accountName"`             // [<key>[:<secret>[:<token>]]]@<host>[:<port>]
	Bucket        string   `json:"bucket,omitempty"`        // empty: DefaultBucket
	BackupName    string   `json:"backupName,omitempty"`    // empty: the name of the object
	URLParameters []string `json:"urlParameters,omitempty"` // name=value; others are left out, as the published operator does
}

// BackupURL is the URL of a backup: blobstore://<account>@<host:port>/<name>?bucket=<bucket> and the
// parameters, in the order of their names. name stands in for an empty BackupName. The URL is, byte by
// byte, that of the published operator (api/v1beta2/foundationdbbackup_types.go at 2.33.0), so that a
// backup that was taken over has not changed; but it does not escape the values of parameters, since
// FoundationDB does not unescape them.
//
// The URL holds what the account holds. Tools get WithoutSecret and a file of Credentials.
func BackupURL(b BlobStore, name string) (string, error) {
	if b.AccountName == "" {
		return "", BlobStoreInvalid.Errorf("accountName is missing").With("field", "accountName")
	}
	user, host, ok := strings.Cut(b.AccountName, "@")
	if !ok {
		return "", BlobStoreInvalid.Errorf("accountName has no @").With("field", "accountName")
	}
	if b.BackupName != "" {
		name = b.BackupName
	}
	parameters, insecure, err := b.parameters()
	if err != nil {
		return "", err
	}
	u := url.URL{Scheme: "blobstore", Host: host, Path: name}
	if host == "" || u.Hostname() == "" || strings.ContainsAny(host, "/?#@ \t\n\"'\\;") {
		return "", BlobStoreInvalid.Errorf("accountName names no host").With("field", "accountName")
	}
	if u.Port() == "" {
		u.Host = net.JoinHostPort(u.Hostname(), "443")
		if insecure {
			u.Host = net.JoinHostPort(u.Hostname(), "80")
		}
	}
	u.User = url.User(user)
	if key, secret, ok := strings.Cut(user, ":"); ok {
		u.User = url.UserPassword(key, secret)
	}
	u.RawQuery = strings.Join(parameters, "&")
	return u.String(), nil
}

// parameters are the query of the URL. insecure: http, whose port is 80.
func (b BlobStore) parameters() (list []string, insecure bool, err error) {
	bucket := b.Bucket
	if bucket == "" {
		bucket = DefaultBucket
	}
	values := map[string]string{"bucket": bucket}
	for _, parameter := range b.URLParameters {
		name, value, ok := strings.Cut(parameter, "=")
		if !ok {
			continue
		}
		values[name] = value
		if (name == "sc" || name == "secure_connection") && value == "0" {
			insecure = true
		}
	}
	for name, value := range values {
		if strings.ContainsAny(name+value, "&#? \t\r\n\"'`\\;") || name == "" {
			return nil, false, BlobStoreInvalid.Errorf("urlParameters: %s cannot stand in a URL", name).With("field", "urlParameters")
		}
		list = append(list, name+"="+value)
	}
	slices.Sort(list)
	return list, insecure, nil
}

// WithoutSecret is a URL without secret and token: tools, status and log show only this.
func WithoutSecret(blobURL string) string {
	scheme, rest, ok := strings.Cut(blobURL, "://")
	if !ok {
		return blobURL
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	at := strings.LastIndexByte(rest[:end], '@')
	if at < 0 {
		at = strings.IndexByte(rest, '@') // a secret may hold slashes: what stands before the first @ is the account
	}
	colon := strings.IndexByte(rest, ':')
	if at < 0 || colon < 0 || colon > at {
		return blobURL
	}
	return scheme + "://" + rest[:colon] + rest[at:]
}

// Credentials is the content of the credentials file for an account that holds a secret: FoundationDB
// looks up key@host, without port (updateSecret_impl in fdbclient/S3BlobStore.actor.cpp at 7.3.69).
func (b BlobStore) Credentials() (content []byte, needed bool) {
	user, host, ok := strings.Cut(b.AccountName, "@")
	key, rest, hasSecret := strings.Cut(user, ":")
	if !ok || !hasSecret {
		return nil, false
	}
	type account struct {
		Secret string `json:"secret"`
		Token  string `json:"token,omitempty"`
	}
	var a account
	a.Secret, a.Token, _ = strings.Cut(rest, ":")
	u := url.URL{Host: host}
	content, _ = json.Marshal(map[string]any{"accounts": map[string]account{key + "@" + u.Hostname(): a}}) // strings always have a JSON form
	return content, true
}

// Backup is what fdbbackup is told about a backup.
type Backup struct {
	Tag                   string `json:"tag,omitempty"`                   // empty: DefaultBackupTag
	URL                   string `json:"url,omitempty"`                   // without secrets
	SnapshotPeriodSeconds int    `json:"snapshotPeriodSeconds,omitempty"` // 0: DefaultSnapshotPeriod
	OneTime               bool   `json:"oneTime,omitempty"`               // ends with its first snapshot
	PartitionedLog        bool   `json:"partitionedLog,omitempty"`
	EncryptionKeyPath     string `json:"encryptionKeyPath,omitempty"`
}

func (b Backup) defaulted() Backup {
	if b.Tag == "" {
		b.Tag = DefaultBackupTag
	}
	if b.SnapshotPeriodSeconds == 0 {
		b.SnapshotPeriodSeconds = DefaultSnapshotPeriod
	}
	return b
}

// StartBackup starts a backup.
func StartBackup(b Backup) Call { return Call{Command: CommandStartBackup, Backup: b} }

// ModifyBackup changes URL and period of a running backup.
func ModifyBackup(b Backup) Call { return Call{Command: CommandModifyBackup, Backup: b} }

// DiscontinueBackup ends a backup at its next restorable version.
func DiscontinueBackup(tag string) Call {
	return Call{Command: CommandDiscontinueBackup, Backup: Backup{Tag: tag}}
}

// AbortBackup ends a backup at once.
func AbortBackup(tag string) Call {
	return Call{Command: CommandAbortBackup, Backup: Backup{Tag: tag}}
}

// PauseBackups makes all agents of the cluster pause, for all tags.
func PauseBackups() Call { return Call{Command: CommandPauseBackups} }

// ResumeBackups makes all agents of the cluster go on.
func ResumeBackups() Call { return Call{Command: CommandResumeBackups} }

// ReadBackupStatus reads the status of a tag; ParseBackupStatus reads what it prints.
func ReadBackupStatus(tag string) Call {
	return Call{Command: CommandBackupStatus, Backup: Backup{Tag: tag}}
}

// DeleteBackup deletes what was written to a URL.
func DeleteBackup(blobURL string) Call {
	return Call{Command: CommandDeleteBackup, Backup: Backup{URL: blobURL}}
}

// BackupState is the state of a backup, as FoundationDB names it (getStateName in
// fdbclient/BackupAgentBase.actor.cpp at 7.1.67, 7.3.69 and 7.4.6).
type BackupState string

// The states of a backup.
const (
	BackupNeverRan     BackupState = "NeverRan" // also: nothing is known of the tag
	BackupSubmitted    BackupState = "Submitted"
	BackupRunning      BackupState = "Running"
	BackupDifferential BackupState = "RunningDifferentially" // restorable, and going on
	BackupCompleted    BackupState = "Completed"
	BackupAborting     BackupState = "Aborting"
	BackupAborted      BackupState = "Aborted"
	BackupErrored      BackupState = "Errored"
)

// Running reports whether the tag is in use: it cannot be started then.
func (s BackupState) Running() bool {
	return s == BackupSubmitted || s == BackupRunning || s == BackupDifferential || s == BackupAborting
}

// BackupStatus is what fdbbackup status --json says.
type BackupStatus struct {
	Tag                   string      `json:"tag"`
	State                 BackupState `json:"state"`
	URL                   string      `json:"url,omitempty"` // without secrets
	Paused                bool        `json:"paused"`        // all agents, for all tags
	Restorable            bool        `json:"restorable"`
	RestorableVersion     uint64      `json:"restorableVersion,omitempty"`
	SnapshotPeriodSeconds int         `json:"snapshotPeriodSeconds,omitempty"` // only while it runs
}

// ParseBackupStatus reads what fdbbackup status --json printed (getStatusJSON in
// fdbclient/FileBackupAgent.actor.cpp at 7.1.67, 7.3.69 and 7.4.6). Lines before and after the document are ignored.
func ParseBackupStatus(output []byte) (BackupStatus, error) {
	begin, end := bytes.IndexByte(output, '{'), bytes.LastIndexByte(output, '}')
	if begin < 0 || end < begin {
		return BackupStatus{}, AnswerUnreadable.Errorf("the status of a backup is no document")
	}
	var d struct {
		SchemaVersion           string
		Tag                     *string
		BackupAgentsPaused      *bool
		DestinationURL          string
		Restorable              bool
		SnapshotIntervalSeconds int
		Status                  *struct{ Name BackupState }
		LatestRestorablePoint   struct{ Version uint64 }
	}
	if err := json.Unmarshal(output[begin:end+1], &d); err != nil {
		return BackupStatus{}, AnswerUnreadable.Errorf("the status of a backup: %w", err)
	}
	if d.SchemaVersion == "" || d.Tag == nil || d.BackupAgentsPaused == nil {
		return BackupStatus{}, AnswerUnreadable.Errorf("the status of a backup lacks SchemaVersion, Tag or BackupAgentsPaused")
	}
	s := BackupStatus{
		Tag: *d.Tag, State: BackupNeverRan, URL: WithoutSecret(d.DestinationURL), Paused: *d.BackupAgentsPaused,
		Restorable: d.Restorable, RestorableVersion: d.LatestRestorablePoint.Version, SnapshotPeriodSeconds: d.SnapshotIntervalSeconds,
	}
	if d.Status != nil {
		s.State = d.Status.Name
	}
	switch s.State {
	case BackupNeverRan, BackupSubmitted, BackupRunning, BackupDifferential, BackupCompleted, BackupAborting, BackupAborted, BackupErrored:
		return s, nil
	default:
		return BackupStatus{}, AnswerUnreadable.Errorf("the status of a backup has the state %q", s.State)
	}
}
