package foundationdb

import (
	"fmt"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

// ValidateBackup returns all that the operator refuses in a backup. nil: nothing.
func ValidateBackup(b *v1beta2.FoundationDBBackup) []Problem {
	var p problems
	s := b.Spec
	if version, err := fdb.ParseVersion(s.Version); err != nil {
		p.fails(err, "spec.version")
	} else {
		p.add(!version.Supported(), "spec.version", "%s is not supported: at least 7.1.0, and no release candidate of it", version)
	}
	p.add(s.ClusterName == "", "spec.clusterName", "it is required")
	oneOf(&p, "spec.backupState", s.BackupState, v1beta2.BackupRunning, v1beta2.BackupStopped, v1beta2.BackupPaused)
	oneOf(&p, "spec.backupType", s.BackupType, v1beta2.BackupTypeAgent, v1beta2.BackupTypePartitionedLog, v1beta2.BackupTypeUnmanaged)
	oneOf(&p, "spec.backupMode", s.BackupMode, v1beta2.BackupContinuous, v1beta2.BackupOneTime)
	oneOf(&p, "spec.deletionPolicy", s.DeletionPolicy, v1beta2.BackupDeletionNoop, v1beta2.BackupDeletionStop, v1beta2.BackupDeletionCleanup)
	oneOf(&p, "spec.imageType", s.ImageType, v1beta2.ImageTypeSplit, v1beta2.ImageTypeUnified)
	p.add(or(s.AgentCount, 0) < 0, "spec.agentCount", "%d is negative", or(s.AgentCount, 0))
	period := or(s.SnapshotPeriodSeconds, fdb.DefaultSnapshotPeriod)
	p.add(period < 1, "spec.snapshotPeriodSeconds", "%d is less than 1", period)
	if s.BackupType != v1beta2.BackupTypeUnmanaged {
		p.store(s.BlobStoreConfiguration, b.Name)
	}
	p.word(fdb.WordTag, "spec.tag", s.Tag)
	p.parameters("spec.customParameters", s.CustomParameters)
	p.line("spec.encryptionKeyPath", s.EncryptionKeyPath)
	return p
}

// ValidateRestore returns all that the operator refuses in a restore. nil: nothing.
func ValidateRestore(r *v1beta2.FoundationDBRestore) []Problem {
	var p problems
	s := r.Spec
	p.add(s.DestinationClusterName == "", "spec.destinationClusterName", "it is required")
	for i, keys := range s.KeyRanges {
		path := fmt.Sprintf("spec.keyRanges[%d].", i)
		p.fails(fdb.CheckWord(fdb.WordKey, keys.Start), path+"start")
		p.fails(fdb.CheckWord(fdb.WordKey, keys.End), path+"end")
	}
	p.store(s.BlobStoreConfiguration, r.Name)
	p.word(fdb.WordTag, "spec.tag", s.Tag)
	p.add(or(s.BackupVersion, 0) < 0, "spec.backupVersion", "%d is negative", or(s.BackupVersion, 0))
	p.parameters("spec.customParameters", s.CustomParameters)
	p.line("spec.encryptionKeyPath", s.EncryptionKeyPath)
	return p
}

// store refuses a blob store without a URL.
func (p *problems) store(given *v1beta2.BlobStoreConfiguration, name string) {
	const path = "spec.blobStoreConfiguration"
	if given == nil {
		p.add(true, path, "it is required")
		return
	}
	_, err := fdb.BackupURL(blobStore(*given), name)
	p.fails(err, path)
	n := len(given.Bucket)
	p.add(n > 0 && (n < 3 || n > 63), path+".bucket", "it has %d characters: 3 to 63", n)
}
