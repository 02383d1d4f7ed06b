package admin_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/lock"
	"github.com/pawl-dev/pawl/store/sql/sqltest"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"

	"github.com/pawl-dev/pawl/store/sql"
)

func TestExportKeepsObjectsAndLocks(t *testing.T) {
	dir := t.TempDir()
	s := sqltest.OpenSQLite(t, sql.Options{Path: filepath.Join(dir, "pawl.db")})
	ref := control.Ref{Kind: "demo", Namespace: "default", Name: "c1"}
	gone := control.Ref{Kind: "demo", Namespace: "default", Name: "gone"}
	object, err := s.Objects().Apply(t.Context(), control.Object{Ref: ref, Spec: []byte(`{"when":"a < b && c","n":12345678901234567890}`), Labels: map[string]string{"tier": "gold"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Objects().Apply(t.Context(), control.Object{Ref: gone, Spec: []byte(`{}`)}); err != nil {
		t.Fatal(err)
	}
	last, err := s.Objects().Delete(t.Context(), gone, 0)
	if err != nil {
		t.Fatal(err)
	}
	locker := lock.Locker{Backend: s.Locks(), Owner: "me"}
	if _, err := locker.Take(t.Context(), "demo/default/c1"); err != nil {
		t.Fatal(err)
	}
	var lines bytes.Buffer
	if err := s.Export(t.Context(), &lines); err != nil {
		t.Fatal(err)
	}
	restored := sqltest.OpenSQLite(t, sql.Options{Path: filepath.Join(dir, "restored.db")})
	if err := restored.Restore(t.Context(), bytes.NewReader(lines.Bytes())); err != nil {
		t.Fatal(err)
	}
	if err := restored.Restore(t.Context(), bytes.NewReader(lines.Bytes())); fault.Of(err) != runtype.InputInvalid {
		t.Errorf("restore into a store with objects: %v", err)
	}
	got, err := restored.Objects().Get(t.Context(), ref)
	if diff := cmp.Diff(object, got); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	want, _ := s.Locks().Read(t.Context(), "demo/default/c1")
	if value, err := restored.Locks().Read(t.Context(), "demo/default/c1"); err != nil || len(want) == 0 || !bytes.Equal(value, want) {
		t.Errorf("lock %q, want %q, %v", value, want, err)
	}
	// A reused name continues after its old revisions, and readers must list again.
	again, err := restored.Objects().Apply(t.Context(), control.Object{Ref: gone, Spec: []byte(`{}`)})
	if err != nil || again.Revision <= last.Revision {
		t.Errorf("revision %d after %d, %v", again.Revision, last.Revision, err)
	}
	for _, err := range restored.Objects().Feed("").Watch(t.Context(), "1") {
		if !errors.Is(err, control.ErrGap) {
			t.Errorf("a position from before: %v", err)
		}
		break
	}
}

// A file that is not an export, or an incomplete one, is refused and leaves nothing
// behind.
func TestRestoreIsAllOrNothing(t *testing.T) {
	dir := t.TempDir()
	s := sqltest.OpenSQLite(t, sql.Options{Path: filepath.Join(dir, "pawl.db")})
	for i := range 3 {
		r := sqltest.Start(t, s, i, "w")
		for n := range 3 {
			if err := sqltest.Step(t, s, r, n); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := s.Objects().Apply(t.Context(), control.Object{Ref: control.Ref{Kind: "demo", Namespace: "default", Name: "c1"}, Spec: []byte(`{}`)}); err != nil {
		t.Fatal(err)
	}
	if err := s.PutDefinition(t.Context(), runstore.Definition{Hash: "h", Flow: "Flow", Data: []byte(`{}`)}); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := s.Export(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	whole := b.String()
	restored := sqltest.OpenSQLite(t, sql.Options{Path: filepath.Join(dir, "restored.db")})
	refused := func(what, text string) {
		t.Helper()
		if err := restored.Restore(t.Context(), strings.NewReader(text)); fault.Of(err) != runtype.InputInvalid {
			t.Errorf("%s: %v", what, err)
		}
		var left bytes.Buffer
		if err := restored.Export(t.Context(), &left); err != nil || strings.Contains(left.String(), `"run"`) ||
			strings.Contains(left.String(), `"object"`) || strings.Contains(left.String(), `"definition"`) {
			t.Fatalf("%s left something behind: %v %s", what, err, left.String())
		}
	}
	refused("nothing", "")
	refused("no export", "hello")
	lines := strings.SplitAfter(whole, "\n")
	for n := 1; n < len(lines)-1; n++ {
		refused(fmt.Sprintf("%d lines of %d", n, len(lines)-1), strings.Join(lines[:n], ""))
		refused(fmt.Sprintf("half a line behind %d", n), strings.Join(lines[:n], "")+lines[n][:len(lines[n])/2])
		if n > 1 {
			refused(fmt.Sprintf("all but line %d", n), strings.Join(append(slices.Clone(lines[:n-1]), lines[n:]...), ""))
		}
	}
	refused("two of them", whole+whole)
	if err := restored.Restore(t.Context(), strings.NewReader(whole)); err != nil {
		t.Fatalf("the whole export, after all: %v", err)
	}
	var again bytes.Buffer
	if err := restored.Export(t.Context(), &again); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(again.String(), "\n"); got != len(lines)-1 {
		t.Errorf("%d lines of %d came back", got, len(lines)-1)
	}
}

// Runs contain the input of flows: only the owner may read the files.
func TestFilesAreTheOwnersOnly(t *testing.T) {
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	dir := t.TempDir()
	s := sqltest.OpenSQLite(t, sql.Options{Path: filepath.Join(dir, "pawl.db")})
	sqltest.Start(t, s, 1, "w")
	if err := s.Backup(t.Context(), filepath.Join(dir, "backup.db")); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, f := range files {
		info, err := f.Info()
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", f.Name(), info.Mode())
		}
		seen[f.Name()] = true
	}
	for _, name := range []string{"pawl.db", "pawl.db-wal", "pawl.db-shm", "pawl.db.lock", "backup.db"} {
		if !seen[name] {
			t.Errorf("there is no %s: %v", name, seen)
		}
	}
}

func TestAClosedStoreAnswers(t *testing.T) {
	s := sqltest.OpenSQLite(t, sql.Options{Path: filepath.Join(t.TempDir(), "pawl.db")})
	r := sqltest.Start(t, s, 1, "")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for name, call := range map[string]func() error{
		"Load": func() error { _, _, err := s.Load(ctx, r.ID); return err },
		"List": func() error { _, _, err := s.List(ctx, runstore.Query{}); return err },
		"Send": func() error { return s.Send(ctx, r.ID, runtype.Signal{ID: "a", Name: "go"}) },
		"Object": func() error {
			_, err := s.Objects().Get(ctx, control.Ref{Kind: "a", Namespace: "b", Name: "c"})
			return err
		},
	} {
		if err := call(); fault.Of(err) != runstore.StoreUnavailable {
			t.Errorf("%s: %v", name, err)
		}
	}
}
