package foundationdb

import (
	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

// BackupVerdict says what a backup should be, and what it still needs for that.
type BackupVerdict struct {
	Run    bool `json:"run"`    // it is wanted: Running or Paused, and no backup that has ended once
	Pause  bool `json:"pause"`  // agents are to rest
	Modify bool `json:"modify"` // it runs with another period or URL
	// Generations has the generation of the object in each field whose statement is true.
	Generations v1beta2.BackupGenerationStatus `json:"generations"`
	Reconciled  bool                           `json:"reconciled"`
}

// BackupWish judges a backup by its spec and the status that was read last. Nothing but agents is wanted of an
// unmanaged backup.
func BackupWish(b *v1beta2.FoundationDBBackup) BackupVerdict {
	details := v1beta2.BackupDetails{}
	if b.Status.BackupDetails != nil {
		details = *b.Status.BackupDetails
	}
	var v BackupVerdict
	var g v1beta2.BackupGenerationStatus
	need := func(field *int64, when bool) {
		if when {
			*field = b.Generation
		}
	}
	need(&g.NeedsBackupAgentUpdate, !b.Status.DeploymentConfigured || b.Status.AgentCount != or(b.Spec.AgentCount, defaultAgents))
	if b.Spec.BackupType != v1beta2.BackupTypeUnmanaged {
		state := either(b.Spec.BackupState, v1beta2.BackupRunning)
		oneTime := b.Spec.BackupMode == v1beta2.BackupOneTime
		v.Run = state != v1beta2.BackupStopped && (!oneTime || !ended(b, details))
		v.Pause = state == v1beta2.BackupPaused
		v.Modify = v.Run && !oneTime && details.Running && differs(b, details)
		need(&g.NeedsBackupStart, v.Run && !details.Running)
		need(&g.NeedsBackupStop, !v.Run && details.Running)
		need(&g.NeedsBackupPauseToggle, v.Pause != details.Paused)
		need(&g.NeedsBackupModification, v.Modify)
	}
	v.Reconciled = g == v1beta2.BackupGenerationStatus{}
	g.Reconciled = b.Status.Generations.Reconciled
	need(&g.Reconciled, v.Reconciled)
	v.Generations = g
	return v
}

// ended reports whether a backup that runs once is complete. One of the same tag at another place is not it.
func ended(b *v1beta2.FoundationDBBackup, details v1beta2.BackupDetails) bool {
	wanted, err := backupURL(b)
	return details.Restorable && !details.Running && (details.URL == "" || err != nil || fdb.WithoutSecret(details.URL) == wanted)
}

// differs reports whether a backup that runs has another period or another URL than the spec says. What the
// status does not tell does not differ.
func differs(b *v1beta2.FoundationDBBackup, details v1beta2.BackupDetails) bool {
	wanted, err := backupURL(b)
	return details.SnapshotTime != 0 && details.SnapshotTime != or(b.Spec.SnapshotPeriodSeconds, fdb.DefaultSnapshotPeriod) ||
		err == nil && details.URL != "" && fdb.WithoutSecret(details.URL) != wanted
}

// backupURL returns the URL of a backup without secrets. It fails with fdb.BlobStoreInvalid.
func backupURL(b *v1beta2.FoundationDBBackup) (string, error) {
	url, _, err := BackupStore(b.Spec.BlobStoreConfiguration, b.Name)
	return url, err
}

func blobStore(c v1beta2.BlobStoreConfiguration) fdb.BlobStore {
	store := fdb.BlobStore{AccountName: c.AccountName, Bucket: c.Bucket, BackupName: c.BackupName}
	for _, p := range c.URLParameters {
		store.URLParameters = append(store.URLParameters, string(p))
	}
	return store
}

// BackupStore returns where a backup lies: the URL without secrets, as tools, status and log may show it, and the
// content of the credentials file if the account holds a secret. name stands in for an empty backupName. It fails
// with fdb.BlobStoreInvalid.
func BackupStore(c *v1beta2.BlobStoreConfiguration, name string) (url string, credentials fdb.Secret, err error) {
	store := fdb.BlobStore{}
	if c != nil {
		store = blobStore(*c)
	}
	url, err = fdb.BackupURL(store, name)
	if err != nil {
		return "", "", err
	}
	content, _ := store.Credentials()
	return fdb.WithoutSecret(url), fdb.Secret(content), nil
}
