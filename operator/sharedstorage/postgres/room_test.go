package postgres

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// A check that would fill the volume is refused, because an engine writes its log there.
func TestACheckLeavesRoomForTheLog(t *testing.T) {
	dir, bin := t.TempDir(), t.TempDir()
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil {
		t.Fatal(err)
	}
	size := int64(stat.Bavail)*stat.Bsize - min(int64(stat.Blocks)*stat.Bsize/8, 1<<30)/2
	if size <= 0 {
		t.Skip("this machine has no room either")
	}
	info := fmt.Sprintf(`[{"backup":[{"label":"20261126-120000F","type":"full","info":{"size":%d}}]}]`, size)
	program := fmt.Sprintf("#!/bin/sh\ncase \"$*\" in *info*) echo '%s';; *) echo 'P00 ERROR: [099]: it began'; exit 99;; esac\n", info)
	if err := os.WriteFile(filepath.Join(bin, "pgbackrest"), []byte(program), 0o755); err != nil { //nolint:gosec // it is a program
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	s := &server{dir: dir}
	for _, folder := range []string{confName, runName} {
		if err := s.mkdir(s.path(folder)); err != nil {
			t.Fatal(err)
		}
	}
	a := &archiver{srv: s}
	order := port.Restore{Repository: port.Repository{Stanza: "blue", Folder: t.TempDir()}}
	if _, err := a.restore(t.Context(), order, verifyConf, s.path(verifyName)); fault.Of(err) != port.StorageFull {
		t.Errorf("a check: %v", err)
	}
	if _, err := a.restore(t.Context(), order, restoreConf, s.path(newName)); fault.Of(err) != port.RestoreFailed {
		t.Errorf("a first restore has the volume for itself: %v", err)
	}
	for _, name := range []string{verifyConf, restoreConf} {
		if _, err := os.Stat(s.path(confName, name)); err == nil {
			t.Errorf("%s is left, with the secrets of the repository", name)
		}
	}
}
