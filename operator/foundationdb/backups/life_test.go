package backups

import (
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb/sim"
)

// TestLife: the sample backup is started, paused, resumed, gets another period, and is stopped; once it is as it should
// be nothing is written.
func TestLife(t *testing.T) {
	w := newWorld(t)
	w.make(sample("orders"))
	if out := w.pass("orders"); out.Reason() != "AgentsComing" || !w.backup("orders").Status.BackupDetails.Running {
		t.Errorf("the first pass does not show what it has started: %s, %+v", out, w.backup("orders").Status)
	}
	w.settle("orders")
	const url = "blobstore://seaweedfs@seaweedfs:8333/orders?bucket=fdb-backups&secure_connection=0"
	if s := w.state("default"); s.State != fdb.BackupDifferential || s.URL != url || s.SnapshotPeriodSeconds != 3600 {
		t.Errorf("%+v", s)
	}
	w.expect("orders", ReadyCondition, "True Running")
	w.expect("orders", ProgressingCondition, "False Done")
	w.expect("orders", FieldsIgnoredCondition, "False None")
	w.expect("orders", PauseIsGlobalCondition, "False NotRefused")
	want := v1beta2.BackupDetails{URL: url, Running: true, SnapshotTime: 3600, Restorable: true, Tag: "default"}
	if s := w.backup("orders").Status; *s.BackupDetails != want || s.AgentCount != 2 || !s.DeploymentConfigured || s.Generations != (v1beta2.BackupGenerationStatus{Reconciled: 1}) {
		t.Errorf("%+v %+v", s, s.BackupDetails)
	}

	for _, step := range []struct {
		name   string
		change func(*v1beta2.FoundationDBBackup)
		ready  string
		holds  func(fdb.BackupStatus) bool
	}{
		{"paused", func(b *v1beta2.FoundationDBBackup) { b.Spec.BackupState = v1beta2.BackupPaused }, "True Paused", func(s fdb.BackupStatus) bool { return s.Paused && s.State.Running() }},
		{"resumed", func(b *v1beta2.FoundationDBBackup) { b.Spec.BackupState = v1beta2.BackupRunning }, "True Running", func(s fdb.BackupStatus) bool { return !s.Paused && s.State.Running() }},
		{"period", func(b *v1beta2.FoundationDBBackup) { b.Spec.SnapshotPeriodSeconds = new(7200) }, "True Running", func(s fdb.BackupStatus) bool { return s.SnapshotPeriodSeconds == 7200 }},
		{"place", func(b *v1beta2.FoundationDBBackup) { b.Spec.BlobStoreConfiguration.Bucket = "other" }, "True Running", func(s fdb.BackupStatus) bool { return strings.Contains(s.URL, "bucket=other") }},
		{"stopped", func(b *v1beta2.FoundationDBBackup) { b.Spec.BackupState = v1beta2.BackupStopped }, "True Stopped", func(s fdb.BackupStatus) bool { return s.State == fdb.BackupCompleted }},
		{"started again", func(b *v1beta2.FoundationDBBackup) { b.Spec.BackupState = "" }, "True Running", func(s fdb.BackupStatus) bool { return s.State.Running() }},
	} {
		w.edit("orders", step.change)
		w.settle("orders")
		w.expect("orders", ReadyCondition, step.ready)
		if s := w.state("default"); !step.holds(s) {
			t.Errorf("%s: %+v", step.name, s)
		}
	}

	before := len(w.effects)
	for range 10 {
		w.ResetCalls()
		if out := w.pass("orders"); !out.IsDone() {
			t.Errorf("a settled backup: %s", out)
		}
		if calls := w.Calls(); len(calls) > 10 || w.Writes() > 0 || calls[sim.Call{Verb: "Run", Kind: "backup status"}] != 1 {
			t.Errorf("a steady pass has the calls %v", calls)
		}
		w.Advance(time.Hour)
	}
	if len(w.effects) != before {
		t.Errorf("a settled backup was written: %v", w.effects[before:])
	}
	for event, n := range map[string]int{"BackupStarted": 2, "BackupStopped": 1, "BackupsPaused": 1, "BackupsResumed": 1, "BackupModified": 2, "AgentsCreated": 1} {
		if got := w.told(event); got != n {
			t.Errorf("%d events %s, not %d:\n%s", got, event, n, w.events())
		}
	}
}

// TestSecondTag: a second tag lives beside the first one; a pause of one of them alone is refused, of both is done.
func TestSecondTag(t *testing.T) {
	w := newWorld(t)
	w.make(sample("orders"))
	second := sample("second")
	second.Spec.Tag = "second"
	w.make(second)
	w.settle("orders", "second")
	for _, tag := range []string{"default", "second"} {
		if s := w.state(tag); !s.State.Running() {
			t.Errorf("%+v", s)
		}
	}

	pause := func(b *v1beta2.FoundationDBBackup) { b.Spec.BackupState = v1beta2.BackupPaused }
	w.edit("second", pause)
	for range 5 {
		w.pass("second")
		w.pass("orders")
		w.Advance(time.Minute)
	}
	w.expect("second", PauseIsGlobalCondition, "True FdbPauseIsGlobal")
	w.expect("second", ReadyCondition, "False FdbPauseIsGlobal")
	w.expect("second", ProgressingCondition, "False FdbPauseIsGlobal")
	w.expect("orders", ReadyCondition, "True Running")
	if w.did("pause backups") != 0 || w.told("FdbPauseIsGlobal") != 1 {
		t.Errorf("%v %v", w.effects, w.events())
	}
	w.edit("orders", pause)
	w.settle("orders", "second")
	w.expect("second", PauseIsGlobalCondition, "False NotRefused")
	w.expect("second", ReadyCondition, "True Paused")
	if !w.state("default").Paused || w.did("pause backups") != 1 {
		t.Errorf("%v", w.effects)
	}
	// A stopped backup leaves the pause of the other one alone.
	w.edit("orders", func(b *v1beta2.FoundationDBBackup) { b.Spec.BackupState = v1beta2.BackupStopped })
	for range 5 {
		w.pass("orders")
		w.pass("second")
		w.Advance(time.Minute)
	}
	if w.did("resume backups") != 0 {
		t.Errorf("%v", w.effects)
	}
	w.expect("second", ReadyCondition, "True Paused")
	w.edit("second", func(b *v1beta2.FoundationDBBackup) { b.Spec.BackupState = v1beta2.BackupRunning })
	w.settle("orders", "second")
	w.expect("orders", ReadyCondition, "True Completed")
	w.expect("second", ReadyCondition, "True Running")
}

// TestTagTaken: of two backups with one tag the older one has it, and they do not fight.
func TestTagTaken(t *testing.T) {
	w := newWorld(t)
	w.make(sample("orders"))
	w.settle("orders")
	w.Advance(time.Minute)
	other := sample("other")
	other.Spec.DeletionPolicy = v1beta2.BackupDeletionStop
	other.Finalizers = []string{Finalizer}
	w.make(other)
	before := len(w.effects)
	for range 3 {
		w.pass("other")
		w.pass("orders")
	}
	w.expect("other", ReadyCondition, "False FdbBackupTagTaken")
	if d := w.backup("other").Status.BackupDetails; d != nil {
		t.Errorf("it shows the backup of another object: %+v", d)
	}
	if strings.Join(w.effects[before:], ", ") != "SaveStatus FoundationDBBackup/default/other" {
		t.Errorf("%v", w.effects[before:])
	}
	w.remove("other") // it does not end the backup of the first one
	w.pass("other")
	if w.did("abort backup") != 0 || !w.state("default").State.Running() {
		t.Errorf("%v", w.effects)
	}
	if w.there("other") {
		t.Error("it is not let go")
	}
}

// TestAlreadyRunning: a backup that runs already, because the first reply was lost or another operator has started it,
// is taken over as it is.
func TestAlreadyRunning(t *testing.T) {
	w := newWorld(t)
	call := fdb.StartBackup(fdb.Backup{URL: "blobstore://seaweedfs@seaweedfs:8333/orders?bucket=fdb-backups&secure_connection=0", SnapshotPeriodSeconds: 3600})
	call.ClusterFile = "/tmp/fdb.cluster"
	w.db.SetAgents(2)
	w.db.Call(call, w.version, w.db.Connection())
	w.make(sample("orders"))
	w.settle("orders")
	w.expect("orders", ReadyCondition, "True Running")
	if w.did("start backup") != 0 || w.did("modify backup") != 0 {
		t.Errorf("%v", w.effects)
	}
}

// TestStopOfEnded is flaw 4: a backup that has ended by itself while it was to be stopped is stopped. What the tool says
// then ("in not running") is no trouble.
func TestStopOfEnded(t *testing.T) {
	w := newWorld(t)
	w.make(sample("orders"))
	w.settle("orders")
	w.edit("orders", func(b *v1beta2.FoundationDBBackup) { b.Spec.BackupState = v1beta2.BackupStopped })
	w.crash = func(effect string, after bool) bool {
		if effect == "discontinue backup" && !after {
			call := fdb.AbortBackup("default")
			call.ClusterFile = "/tmp/fdb.cluster"
			w.db.Call(call, w.version, w.db.Connection())
		}
		return false
	}
	if out := w.pass("orders"); !out.IsDone() {
		t.Errorf("%s", out)
	}
	w.expect("orders", ReadyCondition, "True Stopped")
	if w.did("discontinue backup") != 1 || w.told("BackupStopped") != 0 || w.state("default").State != fdb.BackupAborted {
		t.Errorf("%v\n%s", w.effects, w.events())
	}
}

// TestOneTime: a backup that runs once ends by itself and is not started again.
func TestOneTime(t *testing.T) {
	w := newWorld(t)
	b := sample("orders")
	b.Spec.BackupMode = v1beta2.BackupOneTime
	w.make(b)
	w.settle("orders")
	for range 10 {
		w.pass("orders")
		w.Advance(time.Hour)
	}
	w.expect("orders", ReadyCondition, "True Completed")
	w.expect("orders", FieldsIgnoredCondition, "True NotActedUpon")
	if w.did("start backup") != 1 || w.did("stop backup") != 0 || w.state("default").State != fdb.BackupCompleted {
		t.Errorf("%v %+v", w.effects, w.state("default"))
	}
}

// TestUnmanaged: only agents are run, and what people do with the database is left alone.
func TestUnmanaged(t *testing.T) {
	w := newWorld(t)
	b := sample("orders")
	b.Spec.BackupType, b.Spec.BlobStoreConfiguration, b.Spec.DeletionPolicy = v1beta2.BackupTypeUnmanaged, nil, v1beta2.BackupDeletionCleanup
	w.make(b)
	w.settle("orders")
	w.expect("orders", ReadyCondition, "True AgentsReady")
	for _, e := range w.effects {
		if strings.HasSuffix(e, "backup") || strings.HasSuffix(e, "backups") {
			t.Errorf("%v", w.effects)
		}
	}
	if w.backup("orders").Finalizers != nil {
		t.Error("it has a finalizer")
	}
}

// TestNoAgents: agentCount 0 is honoured. The backup is submitted and waits.
func TestNoAgents(t *testing.T) {
	w := newWorld(t)
	b := sample("orders")
	b.Spec.AgentCount = new(0)
	w.make(b)
	w.settle("orders")
	if s := w.state("default"); s.State != fdb.BackupSubmitted {
		t.Errorf("%+v", s)
	}
	if w.deployment() != nil {
		t.Error("there is a deployment")
	}
	if !strings.Contains(w.events(), "no agent answers yet") {
		t.Errorf("%v", w.events())
	}
	w.edit("orders", func(b *v1beta2.FoundationDBBackup) { b.Spec.AgentCount = new(3) })
	w.settle("orders")
	if s := w.backup("orders").Status; s.AgentCount != 3 || w.state("default").State != fdb.BackupDifferential {
		t.Errorf("%+v", s)
	}
	w.edit("orders", func(b *v1beta2.FoundationDBBackup) { b.Spec.AgentCount = new(0) })
	w.settle("orders")
	if w.deployment() != nil {
		t.Error("the deployment stays")
	}
}
