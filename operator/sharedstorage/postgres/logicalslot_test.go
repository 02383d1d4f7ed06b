package postgres

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/host"
)

// Only a logical slot keeps the level, and PostgreSQL's own file of a slot tells which it is.
func TestLogicalSlots(t *testing.T) {
	const binaries = "/usr/lib/postgresql/15/bin"
	if _, err := os.Stat(filepath.Join(binaries, "postgres")); err != nil {
		t.Skipf("PostgreSQL 15 is not installed: %v", err)
	}
	dir, err := os.MkdirTemp("/tmp", "slots")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	must(t, os.Chmod(dir, 0o755)) //nolint:gosec // the user of the engine enters it
	must(t, host.WriteFile(filepath.Join(dir, "password"), []byte("secret")))
	s, err := newServer(dir, Config{Binaries: binaries, PasswordFile: filepath.Join(dir, "password")})
	must(t, err)
	if logicalSlots(s.data()) {
		t.Error("there are no data, and a slot in them")
	}
	must(t, s.initialize(t.Context()))
	// single runs a statement in an engine without others.
	single := func(level, sql string) (string, error) {
		cmd := s.command(t.Context(), "postgres", "--single", "-D", s.data(), "-c", "wal_level="+level, "postgres")
		cmd.Stdin = strings.NewReader(sql + "\n")
		text, err := cmd.CombinedOutput()
		return string(text), err
	}
	for _, step := range []struct {
		sql  string
		want bool
	}{
		{"SELECT pg_create_physical_replication_slot('plain', true)", false},
		{"SELECT pg_create_logical_replication_slot('stream', 'pgoutput')", true},
	} {
		if text, err := single("logical", step.sql); err != nil || strings.Contains(text, "ERROR") {
			t.Fatalf("%s: %v\n%s", step.sql, err, text)
		}
		if got := logicalSlots(s.data()); got != step.want {
			t.Errorf("after %s: %t", step.sql, got)
		}
	}
	if text, err := single("replica", "SELECT 1"); err == nil || !strings.Contains(text, "wal_level < logical") {
		t.Errorf("PostgreSQL starts with a logical slot and the level replica: %v\n%s", err, text)
	}
	if text, err := single("logical", "SELECT pg_drop_replication_slot('stream')"); err != nil || logicalSlots(s.data()) {
		t.Errorf("a slot that was dropped is there: %v\n%s", err, text)
	}
}

func TestLevelOfTheLog(t *testing.T) {
	for _, c := range []struct {
		in   setup
		want string
	}{
		{setup{}, "wal_level = 'replica'"},
		{setup{Params: map[string]string{"WAL_level": "logical"}}, "wal_level = 'logical'"},
		{setup{Params: map[string]string{"wal_level": "replica"}, LogicalSlots: true}, "wal_level = 'logical'"},
	} {
		if text := configuration(c.in); strings.Count(text, "wal_level") != 1 || !strings.Contains(text, c.want) {
			t.Errorf("%+v: no %s in\n%s", c.in, c.want, text)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
