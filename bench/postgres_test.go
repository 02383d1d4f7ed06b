package main

import (
	"os"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/store/sql/pgtest"
)

// The server flushes every commit: otherwise the figures would be worthless.
func TestPostgresIsDurable(t *testing.T) {
	if os.Getenv(pgtest.Skip) == "1" {
		t.Skip(pgtest.Install)
	}
	p, err := startPostgres(t.Context())
	t.Cleanup(func() {
		if err := stopPostgres(); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if p.version == "" {
		t.Error("its version is unknown")
	}
	dsn, drop, err := p.database()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"fsync", "synchronous_commit", "full_page_writes"} {
		var value string
		if err := conn.QueryRow(t.Context(), "SHOW "+name).Scan(&value); err != nil || value != "on" {
			t.Errorf("%s is %q (%v)", name, value, err)
		}
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := drop(); err != nil {
		t.Error(err)
	}
	if gone, err := pgx.Connect(t.Context(), dsn); err == nil {
		gone.Close(t.Context())
		t.Error("the database was not dropped")
	}
}
