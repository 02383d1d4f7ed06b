package backups

import (
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/fdb/sim"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

// TestDeletionPolicy: noop leaves the backup alone, stop aborts it, cleanup deletes what it has written as well.
func TestDeletionPolicy(t *testing.T) {
	for policy, want := range map[v1beta2.BackupDeletionPolicy]struct {
		state   fdb.BackupState
		effects string
	}{
		"":                            {fdb.BackupDifferential, ""},
		v1beta2.BackupDeletionNoop:    {fdb.BackupDifferential, ""},
		v1beta2.BackupDeletionStop:    {fdb.BackupAborted, "abort backup, Patch FoundationDBBackup/default/orders"},
		v1beta2.BackupDeletionCleanup: {fdb.BackupAborted, "abort backup, delete backup, Patch FoundationDBBackup/default/orders"},
	} {
		t.Run(string(policy), func(t *testing.T) {
			w := deleted(t, policy, nil)
			before := len(w.effects)
			out := w.pass("orders")
			if got := strings.Join(w.effects[before:], ", "); got != want.effects || !out.IsDone() {
				t.Errorf("%s: %s", got, out)
			}
			if there := w.there("orders"); there || w.state("default").State != want.state {
				t.Errorf("there=%t %+v", there, w.state("default"))
			}
			if len(w.db.Violations()) > 0 {
				t.Errorf("%v", w.db.Violations())
			}
		})
	}
}

// deleted is a world in which a running backup was just deleted.
func deleted(t *testing.T, policy v1beta2.BackupDeletionPolicy, more func(*world)) *world {
	w := newWorld(t)
	b := sample("orders")
	b.Spec.DeletionPolicy = policy
	w.make(b)
	w.settle("orders")
	if more != nil {
		more(w)
	}
	w.remove("orders")
	return w
}

// TestPolicyChanges: the finalizer follows the policy.
func TestPolicyChanges(t *testing.T) {
	w := newWorld(t)
	w.make(sample("orders"))
	w.settle("orders")
	for _, step := range []struct {
		policy v1beta2.BackupDeletionPolicy
		want   int
	}{{v1beta2.BackupDeletionStop, 1}, {v1beta2.BackupDeletionCleanup, 1}, {v1beta2.BackupDeletionNoop, 0}} {
		w.edit("orders", func(b *v1beta2.FoundationDBBackup) { b.Spec.DeletionPolicy = step.policy })
		w.settle("orders")
		if got := w.backup("orders").Finalizers; len(got) != step.want || step.want == 1 && got[0] != "foundationdb.org/fdb-kubernetes-operator" {
			t.Errorf("%s: %v", step.policy, got)
		}
	}
}

// TestCleanupSparesOthers: what another backup or a restore uses is not deleted.
func TestCleanupSparesOthers(t *testing.T) {
	for name, other := range map[string]func(*world) func(){
		"a backup of another cluster": func(w *world) func() {
			b := sample("same")
			b.Spec.ClusterName, b.Spec.BlobStoreConfiguration.BackupName = "elsewhere", "orders"
			b.Spec.BlobStoreConfiguration.URLParameters = append(b.Spec.BlobStoreConfiguration.URLParameters, "tcpnodelay=1")
			w.make(b)
			return func() { w.drop(b) }
		},
		"a restore that runs": func(w *world) func() {
			r := &v1beta2.FoundationDBRestore{}
			r.Name, r.Namespace = "orders", "default"
			r.Spec.BlobStoreConfiguration, r.Spec.DestinationClusterName = sample("orders").Spec.BlobStoreConfiguration, "elsewhere"
			r.Status.Running = true
			w.make(r)
			return func() { w.drop(r) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			var leave func()
			w := deleted(t, v1beta2.BackupDeletionCleanup, func(w *world) { leave = other(w) })
			w.pass("orders")
			w.pass("orders")
			w.expect("orders", ProgressingCondition, "False FdbBackupStillUsed")
			w.expect("orders", ReadyCondition, "False Deleting")
			if w.did("delete backup") != 0 || w.did("abort backup") != 1 {
				t.Errorf("%v", w.effects)
			}
			leave()
			w.pass("orders")
			if there := w.there("orders"); there || w.did("delete backup") != 1 {
				t.Errorf("%v", w.effects)
			}
		})
	}
}

// TestDeletionWaits: a database that does not answer, and a store that refuses, keep the object; a cluster that is gone
// does not.
func TestDeletionWaits(t *testing.T) {
	w := deleted(t, v1beta2.BackupDeletionCleanup, nil)
	w.db.Inject(sim.Fault{Kind: sim.FaultTimedOut, Command: "status", Before: true, For: time.Hour})
	before := len(w.effects)
	w.pass("orders")
	w.expect("orders", ProgressingCondition, "Unknown FdbDatabaseSilent")
	if got := strings.Join(w.effects[before:], ", "); got != "SaveStatus FoundationDBBackup/default/orders" {
		t.Errorf("%s", got)
	}
	w.db.Clear("")
	w.db.Inject(sim.Fault{Kind: sim.FaultStoreRefuses})
	w.pass("orders")
	w.pass("orders")
	w.db.Clear("")
	if w.did("Patch FoundationDBBackup/default/orders") != 1 {
		t.Errorf("it is let go although nothing was deleted: %v", w.effects)
	}
	w.drop(clusterOf())
	w.pass("orders")
	if there := w.there("orders"); there || w.did("abort backup") != 1 {
		t.Errorf("%v", w.effects)
	}
}
