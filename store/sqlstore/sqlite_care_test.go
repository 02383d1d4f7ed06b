package sqlstore_test

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/lock"
	"github.com/pawl-dev/pawl/store/sqlstore"
	"github.com/pawl-dev/pawl/workflow"
)

func TestExportKeepsObjectsAndLocks(t *testing.T) {
	dir := t.TempDir()
	s := openSQLite(t, sqlstore.Options{Path: filepath.Join(dir, "pawl.db")})
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
	locker := lock.Locker{Medium: s.Locks(), Owner: "me"}
	if _, err := locker.Take(t.Context(), "demo/default/c1"); err != nil {
		t.Fatal(err)
	}
	var lines bytes.Buffer
	if err := s.Export(t.Context(), &lines); err != nil {
		t.Fatal(err)
	}
	restored := openSQLite(t, sqlstore.Options{Path: filepath.Join(dir, "restored.db")})
	if err := restored.Restore(t.Context(), bytes.NewReader(lines.Bytes())); err != nil {
		t.Fatal(err)
	}
	if err := restored.Restore(t.Context(), bytes.NewReader(lines.Bytes())); fault.Of(err) != workflow.InputInvalid {
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
	// A name used again goes on above its former life, and readers list anew.
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

func TestAClosedStoreAnswers(t *testing.T) {
	s := openSQLite(t, sqlstore.Options{Path: filepath.Join(t.TempDir(), "pawl.db")})
	r := start(t, s, 1, "")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for name, call := range map[string]func() error{
		"Load": func() error { _, _, err := s.Load(ctx, r.ID); return err },
		"List": func() error { _, _, err := s.List(ctx, workflow.Query{}); return err },
		"Send": func() error { return s.Send(ctx, r.ID, workflow.Signal{ID: "a", Name: "go"}) },
		"Object": func() error {
			_, err := s.Objects().Get(ctx, control.Ref{Kind: "a", Namespace: "b", Name: "c"})
			return err
		},
	} {
		if err := call(); fault.Of(err) != workflow.StoreUnavailable {
			t.Errorf("%s: %v", name, err)
		}
	}
}
