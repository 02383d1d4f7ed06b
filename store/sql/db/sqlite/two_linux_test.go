package sqlite_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/pawl-dev/pawl/store/sql"
	"github.com/pawl-dev/pawl/store/sql/admin"
	"github.com/pawl-dev/pawl/store/sql/sqltest"
)

const probeEnv = "PAWL_TEST_LOCKS"

// TestProbe is the body of another process. It prints which locks are held on a file and
// on its index. Only another process can see that, and may close the files.
func TestProbe(t *testing.T) {
	path, ok := os.LookupEnv(probeEnv)
	if !ok {
		t.Skip("runs in a process of its own")
	}
	for name, lock := range map[string]struct {
		file        string
		start, size int64
	}{
		"file":  {path, 0x40000002, 510},       // SQLite's shared lock: a process has the file open
		"index": {path + "-shm", 22*4 + 40, 1}, // the lock on the log's index, which the first process clears
	} {
		f, err := os.OpenFile(lock.file, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		held := syscall.Flock_t{Type: syscall.F_WRLCK, Whence: io.SeekStart, Start: lock.start, Len: lock.size}
		if err := syscall.FcntlFlock(f.Fd(), syscall.F_GETLK, &held); err != nil {
			t.Fatal(err)
		}
		fmt.Printf("%s locked: %t\n", name, held.Type != syscall.F_UNLCK)
		f.Close()
	}
}

// Closing any descriptor of a file releases all locks of the process on it. So a second
// store of one process must not open and close a file that the first has locked: a new
// process would take itself for the owner.
func TestStoresOfOneProcessKeepTheirLocks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pawl.db")
	locked := func(when string) {
		t.Helper()
		cmd := exec.Command(os.Args[0], "-test.run=^TestProbe$")
		cmd.Env = append(os.Environ(), probeEnv+"="+path)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		for _, what := range []string{"file", "index"} {
			if !strings.Contains(string(out), what+" locked: true") {
				t.Errorf("%s: the %s is not locked any more\n%s", when, what, out)
			}
		}
	}
	owner := sqltest.OpenSQLite(t, sql.Options{Path: path})
	run := sqltest.Start(t, owner, 1, "w")
	locked("one store")
	client, err := sql.OpenSQLite(t.Context(), sql.Options{Path: path, Client: true})
	if err != nil {
		t.Fatal(err)
	}
	locked("a second one is open")
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	locked("the second one is closed")
	if err := sqltest.Step(t, owner, run, 0); err != nil {
		t.Fatal(err)
	}
	if report, err := owner.Check(t.Context()); err != nil || !report.Healthy {
		t.Errorf("check: %+v, %v", report, err)
	}
	backup := filepath.Join(t.TempDir(), "backup.db")
	if err := owner.Backup(t.Context(), backup); err != nil {
		t.Fatal(err)
	}
	locked("a backup was made")
	if _, err := admin.CheckFile(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	locked("the file was checked")
}
