package sim_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/fdb/sim"
)

// call runs a call and judges it.
func (f *fixture) call(call fdb.Call) (fdb.Result, sim.Answer) {
	f.t.Helper()
	call.ClusterFile = "/tmp/fdb.cluster"
	a := f.Call(call, f.version, f.Connection())
	return fdb.Judge(call, f.version, a.Exit, a.Stdout, a.Stderr), a
}

// must runs a call that is Ok.
func (f *fixture) must(call fdb.Call) sim.Answer {
	f.t.Helper()
	r, a := f.call(call)
	if r.Outcome != fdb.Ok {
		f.t.Fatalf("%s: %s\n%s%s\n%s", call.Command, r, a.Stdout, a.Stderr, f.lines())
	}
	return a
}

func (f *fixture) backup(tag string) fdb.BackupStatus {
	f.t.Helper()
	s, err := fdb.ParseBackupStatus([]byte(f.must(fdb.ReadBackupStatus(tag)).Stdout))
	if err != nil {
		f.t.Fatal(err)
	}
	return s
}

func (f *fixture) restore(tag string) fdb.RestoreState {
	f.t.Helper()
	return fdb.RestoreStateOf(f.must(fdb.ReadRestoreStatus(tag)).Stdout, tag)
}

// TestBackupAndRestore: a backup is taken, the data are cleared, and restored twice, to two versions.
func TestBackupAndRestore(t *testing.T) {
	for _, v := range []string{"7.1.67", "7.3.69", "7.4.6"} {
		t.Run(v, func(t *testing.T) {
			f := newFixture(t, shape{options: sim.Options{Seed: 1}, version: v, storage: 3, log: 3, stateless: 3})
			f.do("configure new single ssd")
			f.settle()
			for n := range 20 {
				f.write(fmt.Sprintf("key/%02d", n), []byte("old"))
			}
			if s := f.backup("default"); s.State != fdb.BackupNeverRan || s.Restorable {
				t.Errorf("%+v", s)
			}
			if r, _ := f.call(fdb.StartBackup(fdb.Backup{URL: backupURL})); r.Outcome != fdb.Ok || r.Reason != fdb.NoAgents {
				t.Error(r)
			}
			f.Advance(5 * time.Minute)
			if s := f.backup("default"); s.State != fdb.BackupSubmitted {
				t.Errorf("without agents: %+v", s)
			}
			f.SetAgents(2)
			f.Advance(5 * time.Minute)
			if s := f.backup("default"); s.State != fdb.BackupDifferential || !s.Restorable || s.SnapshotPeriodSeconds != 864000 || s.URL != backupURL {
				t.Errorf("%+v", s)
			}
			if r, _ := f.call(fdb.StartBackup(fdb.Backup{URL: backupURL})); r.Reason != fdb.AlreadyRunning {
				t.Error(r)
			}
			f.must(fdb.ModifyBackup(fdb.Backup{URL: backupURL, SnapshotPeriodSeconds: 3600}))
			if s := f.backup("default"); s.SnapshotPeriodSeconds != 3600 {
				t.Errorf("%+v", s)
			}
			f.Advance(time.Minute)
			older := f.backup("default").RestorableVersion
			f.write("key/00", []byte("new"))
			f.Advance(time.Minute)

			f.must(fdb.PauseBackups())
			paused := f.backup("default")
			f.Advance(time.Minute)
			if now := f.backup("default"); !now.Paused || now.RestorableVersion != paused.RestorableVersion {
				t.Errorf("it goes on while it is paused: %+v", now)
			}
			f.must(fdb.ResumeBackups())
			f.Advance(time.Minute)
			if now := f.backup("default"); now.Paused || now.RestorableVersion <= paused.RestorableVersion {
				t.Errorf("it does not go on: %+v", now)
			}

			if r, _ := f.call(fdb.StartRestore(fdb.Restore{Tag: "r1", URL: backupURL})); r.Reason != fdb.RangeNotEmpty {
				t.Error(r)
			}
			if f.restore("r1") != fdb.RestoreUnknown {
				t.Error("a restore that was refused has a state")
			}
			f.clear()
			f.must(fdb.StartRestore(fdb.Restore{Tag: "r1", URL: backupURL, BackupVersion: &older}))
			if r, _ := f.call(fdb.StartRestore(fdb.Restore{Tag: "r2", URL: backupURL})); r.Reason != fdb.DatabaseLocked && r.Reason != fdb.RangeNotEmpty {
				t.Error(r)
			}
			if _, _, err := f.Transaction().Get("key/00"); err == nil {
				t.Error("the database is not locked")
			}
			f.Advance(10 * time.Second)
			if got := f.restore("r1"); got != fdb.RestoreRunning {
				t.Error(got)
			}
			if got := f.status().Cluster.DatabaseLockState.Locked; got == nil || !*got {
				t.Error("the status does not show the lock")
			}
			f.Advance(5 * time.Minute)
			if got := f.restore("r1"); got != fdb.RestoreCompleted {
				t.Error(got)
			}
			if got := get(t, f.Transaction(), "key/00") + get(t, f.Transaction(), "key/19"); got != "oldold" {
				t.Error(got)
			}
			f.clear()
			f.must(fdb.StartRestore(fdb.Restore{Tag: "r2", URL: backupURL, BackupVersion: &paused.RestorableVersion, KeyRanges: []fdb.KeyRange{{Start: "key/0", End: "key/1"}}}))
			f.Advance(5 * time.Minute)
			if got := f.restore("r2"); got != fdb.RestoreCompleted || f.restore("r1") != fdb.RestoreCompleted {
				t.Error(got, f.restore("r1"))
			}
			if got := get(t, f.Transaction(), "key/00") + get(t, f.Transaction(), "key/19"); got != "new-" {
				t.Error(got)
			}

			f.must(fdb.DiscontinueBackup("default"))
			if r, _ := f.call(fdb.DiscontinueBackup("default")); r.Outcome != fdb.Ok || r.Reason != fdb.NoChange {
				t.Error(r)
			}
			f.Advance(time.Minute)
			if s := f.backup("default"); s.State != fdb.BackupCompleted {
				t.Errorf("%+v", s)
			}
			if r, _ := f.call(fdb.DiscontinueBackup("default")); r.Reason != fdb.NotRunning {
				t.Error(r)
			}
			f.must(fdb.DeleteBackup(backupURL))
			if r, _ := f.call(fdb.DeleteBackup(backupURL)); r.Reason != fdb.NoChange {
				t.Error(r)
			}
			if r, _ := f.call(fdb.StartRestore(fdb.Restore{Tag: "r3", URL: backupURL})); r.Reason != fdb.BackupMissing {
				t.Error(r)
			}
		})
	}
}

// clear removes all keys of users.
func (f *fixture) clear() {
	f.t.Helper()
	tr := f.Transaction()
	tr.Write(fdb.Clear(fdb.Range{End: "\xff"}))
	if err := tr.Commit(); err != nil {
		f.t.Fatal(err)
	}
}

// TestBackupRefused: the refusals of the blob store and of the tools.
func TestBackupRefused(t *testing.T) {
	for _, tt := range []struct {
		name   string
		fault  sim.FaultKind
		call   fdb.Call
		reason fdb.Reason
	}{
		{"wrong credentials", sim.FaultWrongCredentials, fdb.StartBackup(fdb.Backup{URL: backupURL}), fdb.StoreRefused},
		{"the store refuses", sim.FaultStoreRefuses, fdb.StartBackup(fdb.Backup{URL: backupURL}), fdb.StoreRefused},
		{"nothing to modify", "", fdb.ModifyBackup(fdb.Backup{URL: backupURL}), fdb.BackupMissing},
		{"nothing to abort", "", fdb.AbortBackup("default"), fdb.NotRunning},
		{"nothing to restore", "", fdb.StartRestore(fdb.Restore{Tag: "r1", URL: backupURL}), fdb.BackupMissing},
		{"no agents", sim.FaultNoAgents, fdb.StartBackup(fdb.Backup{URL: backupURL}), fdb.NoAgents},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := sample(t, sim.Options{Seed: 1})
			f.SetAgents(1)
			if tt.fault != "" {
				f.Inject(sim.Fault{Kind: tt.fault})
			}
			if r, a := f.call(tt.call); r.Reason != tt.reason {
				t.Errorf("%s\n%s%s", r, a.Stdout, a.Stderr)
			}
		})
	}
	f := sample(t, sim.Options{Seed: 1})
	f.SetAgents(1)
	f.must(fdb.StartBackup(fdb.Backup{Tag: "once", URL: backupURL, OneTime: true}))
	f.Advance(5 * time.Minute)
	if s := f.backup("once"); s.State != fdb.BackupCompleted || !s.Restorable {
		t.Errorf("%+v", s)
	}
	f.must(fdb.StartBackup(fdb.Backup{Tag: "on", URL: strings.Replace(backupURL, "/b?", "/c?", 1)}))
	f.must(fdb.AbortBackup("on"))
	if r, _ := f.call(fdb.ModifyBackup(fdb.Backup{Tag: "on", URL: backupURL})); r.Reason != fdb.BackupNotRunning {
		t.Error(r)
	}
	early := uint64(5)
	if r, _ := f.call(fdb.StartRestore(fdb.Restore{Tag: "r1", URL: backupURL, BackupVersion: &early})); r.Reason != fdb.VersionNotRestorable {
		t.Error(r)
	}
	f.must(fdb.StartRestore(fdb.Restore{Tag: "r1", URL: backupURL}))
	f.must(fdb.AbortRestore("r1"))
	if got := f.restore("r1"); got != fdb.RestoreAborted {
		t.Error(got)
	}
}
