package backups

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb/port"
)

// TestWhoPauses: the agents of a cluster rest when some backup wants Paused and none wants Running. A stopped backup, one
// of another cluster, an unmanaged one and one that is being deleted have no say.
func TestWhoPauses(t *testing.T) {
	const running, paused, stopped = v1beta2.BackupRunning, v1beta2.BackupPaused, v1beta2.BackupStopped
	other := func(state v1beta2.BackupState, change func(*v1beta2.FoundationDBBackup)) v1beta2.FoundationDBBackup {
		b := sample("other-" + string(state))
		b.Spec.BackupState, b.Spec.Tag = state, string(state)
		if change != nil {
			change(b)
		}
		return *b
	}
	for name, c := range map[string]struct {
		own     v1beta2.BackupState
		others  []v1beta2.FoundationDBBackup
		rests   bool
		refused bool
	}{
		"alone, running":             {own: running},
		"alone, paused":              {own: paused, rests: true},
		"alone, stopped":             {own: stopped},
		"paused beside a running":    {own: paused, others: []v1beta2.FoundationDBBackup{other(running, nil)}, refused: true},
		"paused beside a default":    {own: paused, others: []v1beta2.FoundationDBBackup{other("", nil)}, refused: true},
		"paused beside a stopped":    {own: paused, others: []v1beta2.FoundationDBBackup{other(stopped, nil)}, rests: true},
		"paused beside a paused":     {own: paused, others: []v1beta2.FoundationDBBackup{other(paused, nil)}, rests: true},
		"running beside a paused":    {own: running, others: []v1beta2.FoundationDBBackup{other(paused, nil)}},
		"stopped beside a paused":    {own: stopped, others: []v1beta2.FoundationDBBackup{other(paused, nil)}, rests: true},
		"stopped beside both":        {own: stopped, others: []v1beta2.FoundationDBBackup{other(paused, nil), other(running, nil)}},
		"beside another cluster's":   {own: paused, others: []v1beta2.FoundationDBBackup{other(running, func(b *v1beta2.FoundationDBBackup) { b.Spec.ClusterName = "else" })}, rests: true},
		"beside an unmanaged":        {own: paused, others: []v1beta2.FoundationDBBackup{other(running, func(b *v1beta2.FoundationDBBackup) { b.Spec.BackupType = v1beta2.BackupTypeUnmanaged })}, rests: true},
		"beside one that is deleted": {own: paused, others: []v1beta2.FoundationDBBackup{other(running, func(b *v1beta2.FoundationDBBackup) { b.DeletionTimestamp = &metav1.Time{} })}, rests: true},
		"beside one that has ended": {own: paused, others: []v1beta2.FoundationDBBackup{other(running, func(b *v1beta2.FoundationDBBackup) {
			b.Spec.BackupMode = v1beta2.BackupOneTime
			b.Status.BackupDetails = &v1beta2.BackupDetails{Restorable: true}
		})}, rests: true},
	} {
		for _, now := range []bool{false, true} {
			f := facts{backup: sample("own"), others: c.others, live: fdb.BackupStatus{Paused: now}}
			f.backup.Generation, f.backup.Spec.BackupState = 4, c.own
			v := f.wish()
			if v.Pause != c.rests || f.pauseRefused() != c.refused {
				t.Errorf("%s: rests=%t refused=%t", name, v.Pause, f.pauseRefused())
			}
			if needs := v.Generations.NeedsBackupPauseToggle == 4; needs != (now != c.rests || c.refused && !now) {
				t.Errorf("%s, paused=%t: needs a toggle: %t", name, now, needs)
			}
		}
	}
}

// TestWishInSilence: while the database is silent, what was needed stays needed, and nothing becomes reconciled.
func TestWishInSilence(t *testing.T) {
	f := facts{backup: sample("own"), silence: port.DatabaseSilent.Errorf("no answer")}
	f.backup.Generation = 4
	f.backup.Status = v1beta2.FoundationDBBackupStatus{
		AgentCount: 2, DeploymentConfigured: true, BackupDetails: &v1beta2.BackupDetails{Running: true, SnapshotTime: 3600},
		Generations: v1beta2.BackupGenerationStatus{Reconciled: 3, NeedsBackupStop: 3},
	}
	if v := f.wish(); v.Reconciled || v.Generations != (v1beta2.BackupGenerationStatus{Reconciled: 3, NeedsBackupStop: 3}) {
		t.Errorf("%+v", v)
	}
	f.backup.Status.Generations.NeedsBackupStop = 0
	f.backup.Status.AgentCount = 1
	if v := f.wish(); v.Reconciled || v.Generations != (v1beta2.BackupGenerationStatus{Reconciled: 3, NeedsBackupAgentUpdate: 4}) {
		t.Errorf("%+v", v)
	}
	f.backup.Status.AgentCount = 2
	if v := f.wish(); v.Reconciled || v.Generations.Reconciled != 3 {
		t.Errorf("%+v", v)
	}
	f.backup.Spec.BackupType = v1beta2.BackupTypeUnmanaged
	if v := f.wish(); !v.Reconciled || v.Generations.Reconciled != 4 {
		t.Errorf("only agents are wanted: %+v", v)
	}
}

// TestIgnored: what is accepted and has no effect is named.
func TestIgnored(t *testing.T) {
	b := sample("own")
	b.Spec.EncryptionKeyPath, b.Spec.BackupMode = "/key", v1beta2.BackupOneTime
	b.Spec.MainContainer.EnableTLS = true
	b.Spec.SidecarContainer.ImageConfigs = []v1beta2.ImageConfig{{BaseImage: "x"}}
	f := facts{backup: b}
	want := []string{"spec.encryptionKeyPath", "spec.mainContainer.enableTls", "spec.sidecarContainer.imageConfigs", "spec.snapshotPeriodSeconds"}
	if got := f.ignored(); !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	b.Spec.Version, b.Spec.ImageType = "7.3.73", v1beta2.ImageTypeSplit
	if got := f.ignored(); !slices.Equal(got, []string{"spec.mainContainer.enableTls", "spec.snapshotPeriodSeconds"}) {
		t.Errorf("%v", got)
	}
}
