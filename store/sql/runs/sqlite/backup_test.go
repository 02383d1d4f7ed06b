package sqlite_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"sync"
	"testing"

	"github.com/pawl-dev/pawl/store/sql"
	"github.com/pawl-dev/pawl/store/sql/admin"
	"github.com/pawl-dev/pawl/store/sql/sqltest"
)

// TestBackupUnderLoad: while another process works on a thousand runs, this one backs up
// the file. The copy is undamaged and holds every save that was answered before the
// backup began.
func TestBackupUnderLoad(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "pawl.db")
	cmd, out := child(t, path)
	var mu sync.Mutex
	saved := map[int]int64{} // run → newest revision that was answered
	busy := make(chan struct{})
	var reading sync.WaitGroup
	reading.Go(func() {
		for out.Scan() {
			var run, n int
			var revision int64
			if _, err := fmt.Sscanf(out.Text(), "saved %d %d %d", &run, &revision, &n); err != nil {
				continue
			}
			mu.Lock()
			saved[run] = max(saved[run], revision)
			if len(saved) == 500 {
				select {
				case <-busy:
				default:
					close(busy)
				}
			}
			mu.Unlock()
		}
	})
	<-busy
	client := sqltest.OpenSQLite(t, sql.Options{Path: path, Client: true})
	total := func() (n int64) {
		mu.Lock()
		defer mu.Unlock()
		for _, revision := range saved {
			n += revision
		}
		return n
	}
	mu.Lock()
	before := maps.Clone(saved)
	mu.Unlock()
	began := total()
	copied := filepath.Join(dir, "copy.db")
	if err := client.Backup(t.Context(), copied); err != nil {
		t.Fatal(err)
	}
	during := total() - began
	_ = cmd.Process.Kill()
	reading.Wait()
	report, err := admin.CheckFile(t.Context(), copied)
	if err != nil || !report.Healthy || report.Runs < len(before) {
		t.Fatalf("%+v %v, %d runs were answered before", report, err, len(before))
	}
	restored := sqltest.OpenSQLite(t, sql.Options{Path: copied})
	for run, revision := range before {
		r, _, err := restored.Load(t.Context(), fmt.Sprintf("r%025d", run))
		if err != nil || r.Revision < revision {
			t.Fatalf("run %d: %+v %v, but revision %d was answered before the backup", run, r, err, revision)
		}
	}
	if during == 0 {
		t.Error("nothing was saved while the backup was written")
	}
	t.Logf("%d runs, %d saves answered meanwhile", report.Runs, during)
}
