package backups

import (
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
)

// wish is what the backup should be. The pause holds for all tags of a cluster, so the other backups have a say in it:
//
//	some backup wants Running    the agents work, and Paused is refused
//	else some one wants Paused   they rest, whatever a stopped backup says
//	else                         they work: a stopped backup needs them to come to its end
//
// While the database is silent nothing is judged but the agents.
func (f *facts) wish() foundationdb.BackupVerdict {
	v := foundationdb.BackupWish(f.backup)
	old := f.backup.Status.Generations
	if f.managed() {
		v.Pause = f.rests(v)
		v.Generations.NeedsBackupPauseToggle = 0
		if paused := f.live.Paused; v.Pause != paused || f.pauseRefused() && !paused {
			v.Generations.NeedsBackupPauseToggle = f.backup.Generation
		}
		if f.silence != nil {
			agents := v.Generations.NeedsBackupAgentUpdate
			v.Generations = old
			v.Generations.NeedsBackupAgentUpdate = agents
		}
	}
	v.Generations.Reconciled = 0
	v.Reconciled = v.Generations == v1beta2.BackupGenerationStatus{} && (f.silence == nil || !f.managed())
	v.Generations.Reconciled = old.Reconciled
	if v.Reconciled {
		v.Generations.Reconciled = f.backup.Generation
	}
	return v
}

func (f *facts) rests(own foundationdb.BackupVerdict) bool {
	if own.Run && !own.Pause {
		return false
	}
	rests := own.Run && own.Pause
	for _, other := range f.siblings() {
		v := foundationdb.BackupWish(&other)
		if v.Run && !v.Pause {
			return false
		}
		rests = rests || v.Run && v.Pause
	}
	return rests
}

// pauseRefused reports whether Paused is wanted and others run.
func (f *facts) pauseRefused() bool {
	own := foundationdb.BackupWish(f.backup)
	return f.managed() && own.Run && own.Pause && len(f.running()) > 0
}

// running are the other backups of the cluster that want to run.
func (f *facts) running() []string {
	var names []string
	for _, other := range f.siblings() {
		if v := foundationdb.BackupWish(&other); v.Run && !v.Pause {
			names = append(names, other.Name)
		}
	}
	return names
}

// ignored are the fields in use that the operator does not act upon.
func (f *facts) ignored() []string {
	s := f.backup.Spec
	var paths []string
	add := func(path string, used bool) {
		if used {
			paths = append(paths, path)
		}
	}
	add("spec.encryptionKeyPath", s.EncryptionKeyPath != "" && !f.knowsEncryption())
	add("spec.snapshotPeriodSeconds", s.SnapshotPeriodSeconds != nil && s.BackupMode == v1beta2.BackupOneTime)
	for path, c := range map[string]v1beta2.ContainerOverrides{"spec.mainContainer.": s.MainContainer, "spec.sidecarContainer.": s.SidecarContainer} {
		add(path+"enableTls", c.EnableTLS)
		add(path+"peerVerificationRules", c.PeerVerificationRules != "")
		add(path+"enableLivenessProbe", c.EnableLivenessProbe != nil)
		add(path+"enableReadinessProbe", c.EnableReadinessProbe != nil)
	}
	add("spec.sidecarContainer.imageConfigs", unified(f.backup) && len(s.SidecarContainer.ImageConfigs) > 0)
	slices.Sort(paths)
	return paths
}

func list(names []string) string { return strings.Join(names, ", ") }
