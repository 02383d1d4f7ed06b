package postgres_test

import (
	"sync"
	"testing"

	"github.com/pawl-dev/pawl/store/sql"
	"github.com/pawl-dev/pawl/store/sql/pgtest"
	"github.com/pawl-dev/pawl/store/sql/sqltest"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runstore/storetest"
)

func TestPostgresSuite(t *testing.T) {
	pgtest.Start(t, pgtest.Options{NoSync: true}) // the server outlives the suite
	var dsns sync.Map                             // *sql.Postgres → its DSN
	storetest.Run(t, storetest.Harness{
		Open: func(t testing.TB) runstore.Store {
			p, dsn := sqltest.Postgres(t, pgtest.Options{NoSync: true})
			dsns.Store(p, dsn)
			return p
		},
		Reopen: func(t testing.TB, s runstore.Store) runstore.Store {
			dsn, _ := dsns.Load(s)
			cut(s.(*sql.Postgres))
			p := sqltest.ReopenPostgres(t, dsn.(string))
			dsns.Store(p, dsn)
			return p
		},
		DiskFull: func(t testing.TB, s runstore.Store) func() { return full(t, s.(*sql.Postgres)) },
	})
}

// cut ends a store as a crash would: it sends no goodbye to the server.
func cut(p *sql.Postgres) {
	p.DB.End()
	p.DB.Pool.Close()
}

// full makes the server refuse writes as if its disk were full.
func full(t testing.TB, p *sql.Postgres) (heal func()) {
	t.Helper()
	exec := func(sql string) {
		t.Helper()
		if _, err := p.DB.Pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	exec(`CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = 'disk_full'; END $$`)
	tables := []string{"run", "event", "signal", "worker", "input", "definition", "run_log", "run_log_size"}
	for _, table := range tables {
		exec(`CREATE TRIGGER refuse BEFORE INSERT OR UPDATE OR DELETE ON ` + table + ` FOR EACH STATEMENT EXECUTE FUNCTION refuse()`)
	}
	return func() {
		for _, table := range tables {
			exec(`DROP TRIGGER refuse ON ` + table)
		}
	}
}

func BenchmarkPostgresLimits(b *testing.B) {
	storetest.BenchmarkLimits(b, func(t testing.TB) runstore.Store {
		p, _ := sqltest.Postgres(t, pgtest.Options{NoSync: true})
		return p
	})
}
