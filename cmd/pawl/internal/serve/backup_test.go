package serve

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres"
)

// status reads the status of an object.
func status[S any](h *fixture, ref control.Ref) (s S) {
	h.t.Helper()
	o, err := h.objects.Get(h.t.Context(), ref)
	h.must(err)
	if len(o.Status) > 0 {
		h.must(json.Unmarshal(o.Status, &s))
	}
	return s
}

func (h *fixture) create(ref control.Ref, spec map[string]any) {
	h.t.Helper()
	raw, err := json.Marshal(spec)
	h.must(err)
	_, err = h.objects.Apply(h.t.Context(), control.Object{Ref: ref, Spec: raw})
	h.must(err)
}

// completed waits for a backup.
func (h *fixture) completed(ref control.Ref) (s v1alpha1.SharedStorageBackupStatus) {
	h.t.Helper()
	h.eventually(ref.Name+" is complete", func() bool {
		s = status[v1alpha1.SharedStorageBackupStatus](h, ref)
		if s.Run != nil && s.Run.Code != "" {
			h.must(fmt.Errorf("%+v", *s.Run))
		}
		return s.State == "Completed"
	})
	return s
}

func (h *fixture) clusterRuns(ref control.Ref, readers int32) (s v1alpha1.SharedStorageClusterStatus) {
	h.t.Helper()
	h.eventually(ref.Name+" runs", func() bool {
		s = status[v1alpha1.SharedStorageClusterStatus](h, ref)
		return s.State == "Running" && s.Readers == readers && meta.IsStatusConditionTrue(s.Conditions, sharedstorage.AvailableCondition)
	})
	return s
}

// A cluster archives its log to an encrypted repository, a backup is taken, checked and scheduled,
// and other clusters begin with it: one at a time before some rows, one at the end of the archive.
func TestBackUpAndRestore(t *testing.T) {
	if _, err := exec.LookPath("pgbackrest"); err != nil {
		t.Skip("pgBackRest is missing: apt-get install pgbackrest")
	}
	h := newFixture(t)
	repository, key := filepath.Join(h.dir, "repository"), filepath.Join(h.dir, "backup.key")
	h.must(os.Mkdir(repository, 0o700))
	as, err := postgres.Runner("")
	h.must(err)
	if as != nil {
		h.must(os.Chown(repository, int(as.Uid), int(as.Gid)))
	}
	h.must(os.WriteFile(key, []byte("correct horse battery staple\n"), 0o600))
	spec := example(t)
	spec["readers"] = 1
	spec["backup"] = map[string]any{"repository": map[string]any{"folder": repository, "encryptionKey": map[string]any{"file": key}}, "retention": map[string]any{"backups": 1}}
	h.must(h.apply(spec))
	s := h.running(1)
	h.eventually("the log is archived", func() bool {
		s = status[v1alpha1.SharedStorageClusterStatus](h, orders)
		return meta.IsStatusConditionTrue(s.Conditions, sharedstorage.ArchivingCondition)
	})
	writer := s.Instances[s.Writer]
	h.sql(writer, "CREATE TABLE rows (n text)")
	h.sql(writer, "INSERT INTO rows VALUES ('1')")

	first := control.Ref{Kind: sharedstorage.BackupKind, Namespace: "default", Name: "orders-first"}
	h.create(first, map[string]any{"cluster": "orders", "verify": true})
	second := control.Ref{Kind: sharedstorage.BackupKind, Namespace: "default", Name: "orders-second"}
	h.create(second, map[string]any{"cluster": "orders", "type": "incr"}) // it waits for the first, or goes before it
	b := h.completed(first)
	if s := h.completed(second); s.Label == b.Label {
		t.Errorf("two backups are %s", s.Label)
	}
	if b.Label == "" || b.Size == 0 || b.Stored == 0 || b.EndedAt == nil || b.Verified == nil || b.StopLSN == "" || b.Repository == nil || b.Repository.Stanza != "default-orders" {
		t.Errorf("%+v", b)
	}
	raw, err := json.Marshal(map[string]any{"cluster": "orders", "type": "incr"})
	h.must(err)
	if _, err := h.objects.Apply(t.Context(), control.Object{Ref: first, Spec: raw}); fault.Of(err) != sharedstorage.SpecInvalid {
		t.Errorf("a backup was changed: %v", err)
	}
	h.eventually("a second after the backup", func() bool { return time.Since(b.EndedAt.Time) > time.Second })
	h.sql(writer, "INSERT INTO rows VALUES ('2')")
	at, err := time.Parse("2006-01-02 15:04:05.999999-07", h.sql(writer, "SELECT clock_timestamp()::text"))
	h.must(err)
	h.sql(writer, "INSERT INTO rows VALUES ('3')")
	h.sql(writer, "SELECT pg_switch_wal()::text")
	h.eventually("all is archived", func() bool {
		return h.sql(writer, "SELECT count(*)::text FROM pg_ls_archive_statusdir() WHERE name LIKE '%.ready'") == "0"
	})

	for name, c := range map[string]struct {
		from map[string]any
		want string
	}{
		"orders-at-noon": {map[string]any{"cluster": "orders", "target": map[string]any{"time": at.Format(time.RFC3339Nano)}}, "1,2"},
		"orders-copy":    {map[string]any{"backup": "orders-first"}, "1,2,3"},
	} {
		ref := control.Ref{Kind: sharedstorage.Kind, Namespace: "default", Name: name}
		h.create(ref, map[string]any{"readers": 1, "restoreFrom": c.from, "storage": map[string]any{"size": "1Gi", "onDelete": "Delete"}})
		s := h.clusterRuns(ref, 1)
		for id, i := range s.Instances {
			if got := h.sqlOf(ref, i, "SELECT string_agg(n, ',' ORDER BY n) FROM rows"); got != c.want {
				t.Errorf("%s: instance %s has %q, want %q", name, id, got, c.want)
			}
		}
		h.remove(ref)
	}

	late := control.Ref{Kind: sharedstorage.Kind, Namespace: "default", Name: "orders-late"}
	h.create(late, map[string]any{"readers": 0, "restoreFrom": map[string]any{"cluster": "orders", "target": map[string]any{"time": "2020-01-01T00:00:00Z"}}, "storage": map[string]any{"size": "1Gi", "onDelete": "Delete"}})
	h.eventually("the restore to a time before the backup is refused", func() bool {
		s := status[v1alpha1.SharedStorageClusterStatus](h, late)
		return s.Run != nil && s.Run.Code == string(port.BackupMissing.Code) && s.Run.Remedy != ""
	})
	h.remove(late)

	// The schedule takes one, and the retention removes the first.
	spec["backup"].(map[string]any)["every"] = "1m"
	h.must(h.apply(spec))
	h.eventuallyWithin(3*time.Minute, "the scheduled backup expires the first", func() bool { return status[v1alpha1.SharedStorageBackupStatus](h, first).Expired })

	h.must(h.delete(first))
	h.must(h.delete(second))
	h.remove(orders)
}

func (h *fixture) delete(ref control.Ref) error {
	_, err := h.objects.Delete(h.t.Context(), ref, 0)
	return err
}

// remove deletes an object and waits until it is gone.
func (h *fixture) remove(ref control.Ref) {
	h.t.Helper()
	h.must(h.delete(ref))
	h.eventually(ref.Name+" is gone", func() bool {
		_, err := h.objects.Get(h.t.Context(), ref)
		return fault.Of(err) == control.NotFound
	})
}
