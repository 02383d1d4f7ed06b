package sharedstorage_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
)

// repositoryFolder makes a folder of this machine that the pods, which are its processes, archive to.
func repositoryFolder(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("pgbackrest"); err != nil {
		t.Skip("pgBackRest is missing: apt-get install pgbackrest")
	}
	dir, err := os.MkdirTemp("", "pawl-repository-")
	if err == nil {
		err = os.Chmod(dir, 0o777) //nolint:gosec // the user of the engines writes there
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "repository")
}

func (w *fixture) applyText(text string) {
	w.t.Helper()
	file := filepath.Join(w.t.TempDir(), "objects.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
	w.kubectl("apply", "-f", file)
}

// backedUp waits for a backup.
func (w *fixture) backedUp(name string) (s v1alpha1.SharedStorageBackupStatus) {
	w.t.Helper()
	w.await(3*time.Minute, name+" is complete", func(ctx context.Context) error {
		b := &v1alpha1.SharedStorageBackup{}
		err := w.client.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: name}, b)
		if s = b.Status; err == nil && s.State != "Completed" {
			err = fmt.Errorf("%s %s %s", s.State, s.Reason, s.Message)
		}
		return err
	})
	return s
}

func (w *fixture) mustQuery(cluster string, i v1alpha1.InstanceStatus, sql string) string {
	w.t.Helper()
	got, err := queryRow[string](w.t.Context(), w, cluster, i, sql)
	if err != nil {
		w.t.Fatalf("%s: %v", sql, err)
	}
	return got
}

// A cluster archives its log, encrypted by a Secret; a backup is taken while the writer is switched,
// and checked; other clusters are restored from it, to a time and to the end of the archive.
func TestBackupAndRestore(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test-long runs it")
	}
	t.Parallel()
	folder := repositoryFolder(t)
	w := newFixture(t)
	w.applyText(fmt.Sprintf(`
apiVersion: v1
kind: Secret
metadata: {name: backup-key}
stringData: {passphrase: correct horse battery staple}
---
apiVersion: pawl.dev/v1alpha1
kind: SharedStorageCluster
metadata: {name: orders}
spec:
  readers: 1
  storage: {size: 1Gi, onDelete: Delete}
  backup:
    repository: {folder: %s, encryptionKey: {secret: {name: backup-key, key: passphrase}}}
    retention: {backups: 2}
`, folder))
	archived := func(c *v1alpha1.SharedStorageCluster) error {
		at := meta.FindStatusCondition(c.Status.Conditions, "Archiving")
		if at == nil || at.Status != metav1.ConditionTrue {
			return fmt.Errorf("Archiving: %+v", at)
		}
		return nil
	}
	c := w.awaitRunning("orders", 1, archived)
	if _, err := queryRow[string](t.Context(), w, "orders", c.Status.Instances[c.Status.Writer], "CREATE TABLE rows (n text)"); !errors.Is(err, pgx.ErrNoRows) {
		t.Fatal(err)
	}
	w.mustQuery("orders", c.Status.Instances[c.Status.Writer], "INSERT INTO rows VALUES ('1') RETURNING n")
	w.applyText(`
apiVersion: pawl.dev/v1alpha1
kind: SharedStorageBackup
metadata: {name: first}
spec: {cluster: orders, verify: true}
`)
	b := w.backedUp("first")
	if b.Label == "" || b.Verified == nil || b.EndedAt == nil || b.Size == 0 || b.StopLSN == "" {
		t.Errorf("%+v", b)
	}
	t.Log(w.kubectl("get", "ssb", "-o", "wide"))
	if out, err := w.try("patch", "ssb", "first", "--type=merge", "-p", `{"spec":{"type":"incr"}}`); err == nil || !strings.Contains(out, "a backup cannot be changed") {
		t.Errorf("a backup was changed: %s", out)
	}
	w.await(10*time.Second, "the second after the backup", func(context.Context) error { // pgBackRest knows its end to the second
		if time.Since(b.EndedAt.Time) <= time.Second {
			return errors.New("it is the same second")
		}
		return nil
	})

	// After a switch the new writer archives on its own timeline.
	target := reader(c)
	w.mustQuery("orders", c.Status.Instances[c.Status.Writer], "INSERT INTO rows VALUES ('2') RETURNING n")
	w.kubectl("annotate", "ssc", "orders", "pawl.dev/switch-writer="+target)
	c = w.awaitRunning("orders", 1, func(c *v1alpha1.SharedStorageCluster) error {
		if c.Status.Writer != target {
			return fmt.Errorf("the writer is %s", c.Status.Writer)
		}
		return archived(c)
	})
	writer := c.Status.Instances[c.Status.Writer]
	at := w.mustQuery("orders", writer, `SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.USZ')`)
	w.mustQuery("orders", writer, "INSERT INTO rows VALUES ('3') RETURNING n")
	w.mustQuery("orders", writer, "SELECT pg_switch_wal()::text")
	w.await(time.Minute, "all is archived", func(ctx context.Context) error {
		n, err := queryRow[string](ctx, w, "orders", writer, "SELECT count(*)::text FROM pg_ls_archive_statusdir() WHERE name LIKE '%.ready'")
		if err == nil && n != "0" {
			err = fmt.Errorf("%s segments wait", n)
		}
		return err
	})

	for _, r := range []struct{ name, from, want string }{
		{"at-time", fmt.Sprintf("{cluster: orders, target: {time: %q}}", at), "1,2"},
		{"copy", "{backup: first}", "1,2,3"},
	} {
		w.applyText(fmt.Sprintf(`
apiVersion: pawl.dev/v1alpha1
kind: SharedStorageCluster
metadata: {name: %s}
spec: {readers: 1, storage: {size: 1Gi, onDelete: Delete}, restoreFrom: %s}
`, r.name, r.from))
		restored := w.awaitRunning(r.name, 1, nil)
		for id, i := range restored.Status.Instances {
			if got := w.mustQuery(r.name, i, "SELECT string_agg(n, ',' ORDER BY n) FROM rows"); got != r.want {
				t.Errorf("%s: instance %s has %q, want %q", r.name, id, got, r.want)
			}
		}
	}
	if out, err := w.try("patch", "ssc", "copy", "--type=merge", "-p", `{"spec":{"restoreFrom":{"target":{"name":"x"}}}}`); err == nil || !strings.Contains(out, "restoreFrom counts at creation only") {
		t.Errorf("restoreFrom was changed: %s", out)
	}

	// The archive is away: the condition says so, with the age of what is missing, and it heals.
	if err := os.Rename(folder, folder+".away"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(folder, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w.mustQuery("orders", writer, "INSERT INTO rows VALUES ('4') RETURNING n")
	w.mustQuery("orders", writer, "SELECT pg_switch_wal()::text")
	w.await(3*time.Minute, "the condition says that nothing is archived", func(ctx context.Context) error {
		c, err := w.cluster(ctx, "orders")
		if err != nil {
			return err
		}
		at := meta.FindStatusCondition(c.Status.Conditions, "Archiving")
		if at.Status != metav1.ConditionFalse || at.Reason != "ArchiveFailed" || !strings.Contains(at.Message, "wait since") {
			return fmt.Errorf("%+v", *at)
		}
		t.Log(at.Message)
		return nil
	})
	if err := os.Remove(folder); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(folder+".away", folder); err != nil {
		t.Fatal(err)
	}
	w.awaitRunning("orders", 1, archived)

	// The schedule takes one at once, and the retention removes the first.
	w.kubectl("patch", "ssc", "orders", "--type=merge", "-p", `{"spec":{"backup":{"every":"24h","retention":{"backups":1}}}}`)
	w.await(3*time.Minute, "the first backup has expired", func(ctx context.Context) error {
		b := &v1alpha1.SharedStorageBackup{}
		err := w.client.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: "first"}, b)
		if err == nil && !b.Status.Expired {
			err = errors.New("it has not")
		}
		return err
	})
	w.await(time.Minute, "the scheduled backup is complete", func(context.Context) error {
		out, err := w.try("get", "ssb", "-l", "pawl.dev/scheduled=orders", "-o", "jsonpath={.items[*].status.state}")
		if err == nil && out != "Completed" {
			err = errors.New(out)
		}
		return err
	})

	w.kubectl("delete", "ssb", "--all", "--timeout=1m")
	w.kubectl("delete", "ssc", "orders", "copy", "at-time", "--timeout=5m")
	w.await(time.Minute, "no run is left", func(ctx context.Context) error {
		var runs v1alpha1.RunList
		if err := w.client.List(ctx, &runs, client.InNamespace(w.namespace)); err != nil {
			return err
		}
		if len(runs.Items) > 0 {
			return fmt.Errorf("%d are", len(runs.Items))
		}
		return nil
	})
	var left corev1.SecretList
	if err := w.client.List(t.Context(), &left, client.InNamespace(w.namespace)); err != nil || len(left.Items) != 1 {
		t.Errorf("%d Secrets are left, want the one of the test: %v", len(left.Items), err)
	}
}
