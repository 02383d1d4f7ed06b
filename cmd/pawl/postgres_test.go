package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/store/sql/pgtest"
)

// The verbs work on a real PostgreSQL server as they do on a file.
func TestPostgres(t *testing.T) {
	dsn := pgtest.New(t, pgtest.Options{}).Database(t)
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("XDG_STATE_HOME", filepath.Join(dir, "state"))
	t.Setenv("PAWL_DSN", dsn)
	flow := "flowName: Gated\nsteps:\n- {stepName: Gate, wait: {signal: go, deadline: 10m}}\n"
	if err := os.WriteFile("gate.yaml", []byte(flow), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		line string
		code int
		says string
	}{
		{"run gate.yaml --subject demo/default/a --request-id a --wait 200ms", 3, "signal go"},
		{"get --active", 0, "Gated  demo/default/a  Waiting"},
		{"signal qdrc go --id 1", 0, "accepted 1"},
		{"resume qdrc", 0, "succeeded in"},
		{"history qdrc", 0, "RunSucceeded"},
		{"resume qdrc", 1, "RUN_FINISHED"},
		{"store backup copy.db", 2, "pg_dump"},
	} {
		code, out, said := called(t, "", strings.Fields(step.line)...)
		if code != step.code || !strings.Contains(out+said, step.says) {
			t.Errorf("pawl %s: exit code %d, want %d, and %q in\n%s%s", step.line, code, step.code, step.says, out, said)
		}
	}
}
