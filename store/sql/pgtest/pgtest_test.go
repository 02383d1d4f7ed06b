package pgtest_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/pawl-dev/pawl/store/sql/pgtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(pgtest.Main(m)) }

func TestTheServerIsDurable(t *testing.T) {
	dsn := pgtest.Start(t, pgtest.Options{}).Database(t)
	for setting, want := range map[string]string{"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"} {
		if got := query(t, dsn, "SHOW "+setting); got != want {
			t.Errorf("%s is %q, want %q", setting, got, want)
		}
	}
}

func TestEachDatabaseIsFresh(t *testing.T) {
	s := pgtest.Start(t, pgtest.Options{NoSync: true})
	for range 2 {
		dsn := s.Database(t)
		query(t, dsn, "CREATE TABLE here (); SELECT 'made'")
	}
	if s != pgtest.Start(t, pgtest.Options{NoSync: true}) {
		t.Error("a second Start began a second server")
	}
}

func TestCommittedRowsSurviveACrash(t *testing.T) {
	s := pgtest.New(t, pgtest.Options{})
	dsn := s.Database(t)
	query(t, dsn, "CREATE TABLE kept AS SELECT 'there' AS v; SELECT v FROM kept")
	s.Crash(t)
	if got := query(t, dsn, "SELECT v FROM kept"); got != "there" {
		t.Fatalf("after a crash: %q", got)
	}
}

func TestTerminateEndsConnections(t *testing.T) {
	s := pgtest.Start(t, pgtest.Options{NoSync: true})
	dsn := s.Database(t)
	c, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	if n := s.Terminate(t, dsn); n != 1 {
		t.Fatalf("%d connections were ended, want 1", n)
	}
	if err := c.Ping(t.Context()); err == nil {
		t.Fatal("the connection still answers")
	}
}

// query returns the last value of the last statement.
func query(t *testing.T, dsn, sql string) string {
	t.Helper()
	c, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	results, err := c.PgConn().Exec(t.Context(), sql).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	last := results[len(results)-1]
	if len(last.Rows) == 0 {
		t.Fatalf("%s returned no row", sql)
	}
	return string(last.Rows[0][0])
}
