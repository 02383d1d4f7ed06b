package foundationdb_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/fdb/sim"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/test/foundationdb"
)

// The published samples of a backup and a restore: paused, resumed, with another period, beside a second one, stopped; and
// restored twice.
func TestBackup(t *testing.T) {
	whole(t)
	backupFile, restoreFile := sample(t, "samples/backup.yaml"), sample(t, "samples/restore.yaml")
	l := newLife(t, foundationdb.Options{})
	l.name = "test-cluster"
	l.credentials()
	l.operate()
	l.apply(backupFile)
	l.reconciled("created", 2*time.Minute)
	l.write("7.3.69")
	l.backup("test-cluster", "runs", func(b *v1beta2.BackupDetails) bool {
		return b.Running && b.Restorable && !b.Paused && b.SnapshotTime == 3600
	})

	state := func(state v1beta2.BackupState) {
		l.Helper()
		l.changeBackup("test-cluster", func(s *v1beta2.FoundationDBBackupSpec) { s.BackupState = state })
	}
	state(v1beta2.BackupPaused)
	l.backup("test-cluster", "is paused", func(b *v1beta2.BackupDetails) bool { return b.Running && b.Paused })
	state(v1beta2.BackupRunning)
	l.backup("test-cluster", "is resumed", func(b *v1beta2.BackupDetails) bool { return b.Running && !b.Paused })
	l.changeBackup("test-cluster", func(s *v1beta2.FoundationDBBackupSpec) { s.SnapshotPeriodSeconds = new(1800) })
	l.backup("test-cluster", "has another period", func(b *v1beta2.BackupDetails) bool { return b.SnapshotTime == 1800 })

	second := &v1beta2.FoundationDBBackup{}
	l.must(l.admin.Get(t.Context(), client.ObjectKey{Namespace: l.namespace, Name: "test-cluster"}, second))
	second = &v1beta2.FoundationDBBackup{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: "second"}, Spec: *second.Spec.DeepCopy()}
	second.Spec.Tag = "second"
	l.must(l.admin.Create(t.Context(), second))
	l.backup("second", "runs beside the first", func(b *v1beta2.BackupDetails) bool { return b.Running && b.Restorable && b.Tag == "second" })
	l.changeBackup("second", func(s *v1beta2.FoundationDBBackupSpec) { s.BackupState = v1beta2.BackupStopped })
	l.backup("second", "is stopped", func(b *v1beta2.BackupDetails) bool { return !b.Running })
	l.backup("test-cluster", "goes on", func(b *v1beta2.BackupDetails) bool { return b.Running })

	l.judge(0, 0)
	l.database(func(d *sim.Cluster) { d.Disconnect(writer) })
	want := l.keys()
	state(v1beta2.BackupStopped)
	l.backup("test-cluster", "is stopped", func(b *v1beta2.BackupDetails) bool { return !b.Running && b.Restorable })

	for _, time := range []string{"once", "twice"} {
		l.wipe()
		l.apply(restoreFile)
		l.restored(time)
		if got := l.keys(); got != want || got == 0 {
			t.Errorf("restored %s: %d keys are there, want %d", time, got, want)
		}
		if out, err := kubectl(t, l.namespace, "", "delete", "fdbrestore", "test-cluster"); err != nil {
			t.Fatalf("kubectl delete: %v\n%s", err, out)
		}
	}
	if out, err := kubectl(t, l.namespace, "", "delete", "fdbbackup", "--all"); err != nil {
		t.Fatalf("kubectl delete: %v\n%s", err, out)
	}
	l.remove()
}

// blobCredentials is what the tools read of the samples' blob store.
const blobCredentials = `{"accounts": {"seaweedfs@seaweedfs:8333": {"secret": "tot4llys3cure"}}}`

// credentials makes the secrets that the samples mount, and tells the operator's tools the same.
func (l *life) credentials() {
	l.Helper()
	for name, data := range map[string]map[string]string{
		"backup-credentials":              {"credentials": blobCredentials},
		"fdb-kubernetes-operator-secrets": {"tls.crt": "none", "tls.key": "none"},
	} {
		l.must(l.admin.Create(l.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: name}, StringData: data}))
	}
	file := filepath.Join(l.TempDir(), "credentials")
	l.must(os.WriteFile(file, []byte(blobCredentials), 0o600))
	l.environment.Env = append(l.environment.Env, "FDB_BLOB_CREDENTIALS="+file)
}

func (l *life) changeBackup(name string, change func(*v1beta2.FoundationDBBackupSpec)) {
	l.Helper()
	b := &v1beta2.FoundationDBBackup{}
	l.must(l.admin.Get(l.Context(), client.ObjectKey{Namespace: l.namespace, Name: name}, b))
	before := b.DeepCopy()
	change(&b.Spec)
	l.must(l.admin.Patch(l.Context(), b, client.MergeFrom(before)))
}

// backup waits until a backup is as its spec says, and what a test wants.
func (l *life) backup(name, what string, holds func(*v1beta2.BackupDetails) bool) {
	l.Helper()
	l.until(name+" "+what, time.Minute, func() error {
		b := &v1beta2.FoundationDBBackup{}
		if err := l.admin.Get(l.Context(), client.ObjectKey{Namespace: l.namespace, Name: name}, b); err != nil {
			return err
		}
		s := b.Status
		if s.Generations.Reconciled != b.Generation || s.BackupDetails == nil || !holds(s.BackupDetails) || !meta.IsStatusConditionTrue(s.Conditions, "Ready") {
			return fmt.Errorf("generation %d: %+v %+v %v", b.Generation, s.Generations, s.BackupDetails, s.Conditions)
		}
		return nil
	})
}

func (l *life) restored(how string) {
	l.Helper()
	l.until("restored "+how, time.Minute, func() error {
		r := &v1beta2.FoundationDBRestore{}
		if err := l.admin.Get(l.Context(), client.ObjectKey{Namespace: l.namespace, Name: "test-cluster"}, r); err != nil {
			return err
		}
		if r.Status.State != "completed" || r.Status.Running || !meta.IsStatusConditionTrue(r.Status.Conditions, "Ready") {
			return fmt.Errorf("%+v", r.Status)
		}
		return nil
	})
}

// keys counts the keys of clients.
func (l *life) keys() (n int) {
	l.Helper()
	l.database(func(d *sim.Cluster) {
		found, err := d.Transaction().GetRange(fdb.PrefixRange("client/"), 0)
		l.must(err)
		n = len(found)
	})
	return n
}

// wipe clears all keys of users, as a mistake does.
func (l *life) wipe() {
	l.Helper()
	l.database(func(d *sim.Cluster) {
		t := d.Transaction()
		t.Write(fdb.Clear(fdb.Range{Begin: "", End: "\xff"}))
		l.must(t.Commit())
	})
	if n := l.keys(); n > 0 {
		l.Fatalf("%d keys are left", n)
	}
}
