package runs_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	driver "zombiezen.com/go/sqlite"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/store/sql"
	"github.com/pawl-dev/pawl/store/sql/db"
	"github.com/pawl-dev/pawl/store/sql/db/postgres"
	"github.com/pawl-dev/pawl/store/sql/db/sqlite"
	"github.com/pawl-dev/pawl/store/sql/pgtest"
	"github.com/pawl-dev/pawl/store/sql/runs"
	runspostgres "github.com/pawl-dev/pawl/store/sql/runs/postgres"
	runssqlite "github.com/pawl-dev/pawl/store/sql/runs/sqlite"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// pausedRuns stores three runs: one paused by A, one by B, one by a person.
func pausedRuns(t *testing.T, s sql.Store) {
	t.Helper()
	for i, f := range []*runtype.Fault{{Code: "A", Message: "m"}, {Code: "B"}, nil} {
		r := &runtype.Run{ID: workflow.RunID("kind/fault/a", "F", fmt.Sprint(i)), Flow: "F", Hash: "h", Subject: fmt.Sprintf("kind/fault/%d", i), CreatedAt: time.Now().UTC()}
		r, err := s.Create(t.Context(), r, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Phase, r.Fault = runtype.Paused, f
		if err := s.Save(t.Context(), &runstore.Save{Run: r}); err != nil {
			t.Fatal(err)
		}
	}
}

func wantFaults(t *testing.T, s sql.Store) {
	t.Helper()
	for code, want := range map[fault.Code]int{"A": 1, "B": 1, "C": 0} {
		listed, _, err := s.List(t.Context(), runstore.Query{Fault: code})
		if err != nil || len(listed) != want {
			t.Errorf("%d runs are paused by %s, %v", len(listed), code, err)
		}
	}
}

func TestFaultsOfEarlierRunsAreFilledSQLite(t *testing.T) {
	path := t.TempDir() + "/a.db"
	s, err := sql.Open(t.Context(), sql.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	pausedRuns(t, s)
	wantFaults(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	conn, err := driver.OpenConn(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := sqlite.Execute(conn, "UPDATE run SET fault = NULL"); err != nil {
		t.Fatal(err)
	}
	if err := runssqlite.Fills[db.FaultMigration](sqlite.NewSession(conn)); err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = sql.Open(t.Context(), sql.Options{Path: path}); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	wantFaults(t, s)
	isMigration(t, "sqlite", db.FaultMigration)
	var plan []string
	list, args := runs.ListSQL(s.(*sql.SQLite).Store, runstore.Query{Fault: "A"})
	err = s.(*sql.SQLite).DB.Read(t.Context(), func(x db.Session) error {
		return x.Query("EXPLAIN QUERY PLAN "+list, args, func(r db.Row) error { plan = append(plan, r.Text(3)); return nil })
	})
	if text := strings.Join(plan, "\n"); err != nil || !strings.Contains(text, "run_fault (fault=?)") || strings.Contains(text, "B-TREE") || strings.Contains(text, "SCAN") {
		t.Errorf("%v: the list does not walk along the index:\n%s", err, text)
	}
}

func TestFaultsOfEarlierRunsAreFilledPostgres(t *testing.T) {
	s, err := sql.Open(t.Context(), sql.Options{DSN: pgtest.Start(t, pgtest.Options{NoSync: true}).Database(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	pausedRuns(t, s)
	wantFaults(t, s)
	err = pgx.BeginFunc(t.Context(), s.(*sql.Postgres).DB.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), "UPDATE run SET fault = NULL"); err != nil {
			return err
		}
		return runspostgres.Fills[db.FaultMigration](postgres.NewSession(t.Context(), tx))
	})
	if err != nil {
		t.Fatal(err)
	}
	wantFaults(t, s)
	isMigration(t, "postgres", db.FaultMigration)
}
