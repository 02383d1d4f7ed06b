package sim_test

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/fdb/sim"
)

// TestDeletedWhileItRuns: a backup whose container is deleted under it begins its snapshot anew.
func TestDeletedWhileItRuns(t *testing.T) {
	f := newFixture(t, shape{options: sim.Options{Seed: 1}, version: "7.3.69", storage: 3, log: 3, stateless: 3})
	f.do("configure new single ssd")
	f.settle()
	f.SetAgents(1)
	f.must(fdb.StartBackup(fdb.Backup{URL: backupURL}))
	for f.backup("default").State != fdb.BackupRunning {
		f.Advance(time.Second)
	}
	f.must(fdb.DeleteBackup(backupURL))
	f.Advance(5 * time.Minute)
	if s := f.backup("default"); s.State != fdb.BackupDifferential || !s.Restorable {
		t.Errorf("%+v", s)
	}
}
