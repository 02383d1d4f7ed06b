package runs_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	driver "zombiezen.com/go/sqlite"

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

func labelledRuns(t *testing.T, s sql.Store, n int) {
	t.Helper()
	for i := range n {
		r := &runtype.Run{ID: workflow.RunID("kind/label/a", "F", fmt.Sprint(i)), Flow: "F", Hash: "h", Subject: fmt.Sprintf("kind/label/%d", i), CreatedAt: time.Now().UTC(),
			Labels: map[string]string{"team": fmt.Sprint("t", i%2), "n": fmt.Sprint(i)}}
		if _, err := s.Create(t.Context(), r, nil); err != nil {
			t.Fatal(err)
		}
	}
}

func withLabel(t *testing.T, s sql.Store, key, value string) int {
	t.Helper()
	listed, _, err := s.List(t.Context(), runstore.Query{Labels: []runstore.LabelTerm{{Key: key, Value: value}}})
	if err != nil {
		t.Fatal(err)
	}
	return len(listed)
}

// isMigration checks that the migration exists after which the program fills in what earlier
// runs hold.
func isMigration(t *testing.T, dialect, title string) {
	t.Helper()
	if !slices.ContainsFunc(db.Migrations(dialect), func(m db.Migration) bool { return m.Title() == title }) {
		t.Errorf("%s has no migration %s", dialect, title)
	}
}

func TestFinding12LabelsOfEarlierRunsAreIndexedSQLite(t *testing.T) {
	path := t.TempDir() + "/a.db"
	s, err := sql.Open(t.Context(), sql.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	labelledRuns(t, s, 6)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	conn, err := driver.OpenConn(path)
	if err != nil {
		t.Fatal(err)
	}
	isMigration(t, "sqlite", db.LabelMigration)
	if err := sqlite.Execute(conn, "DELETE FROM run_label"); err != nil {
		t.Fatal(err)
	}
	if err := runssqlite.Fills[db.LabelMigration](sqlite.NewSession(conn)); err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = sql.Open(t.Context(), sql.Options{Path: path}); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if a, b := withLabel(t, s, "team", "t1"), withLabel(t, s, "n", "4"); a != 3 || b != 1 {
		t.Errorf("found %d and %d of the runs that were there before the index", a, b)
	}
	var plan []string
	list, args := runs.ListSQL(s.(*sql.SQLite).Store, runstore.Query{Labels: []runstore.LabelTerm{{Key: "n", Value: "4"}}})
	err = s.(*sql.SQLite).DB.Read(t.Context(), func(x db.Session) error {
		return x.Query("EXPLAIN QUERY PLAN "+list, args, func(r db.Row) error { plan = append(plan, r.Text(3)); return nil })
	})
	text := strings.Join(plan, "\n")
	if err != nil || !strings.Contains(text, "SEARCH c USING PRIMARY KEY (key=? AND value=?)") || strings.Contains(text, "B-TREE") || strings.Contains(text, "SCAN") {
		t.Errorf("%v: the list does not walk along the index:\n%s", err, text)
	}
	listed, _, err := s.List(t.Context(), runstore.Query{Labels: []runstore.LabelTerm{{Key: "n", Value: "4"}}})
	if err != nil {
		t.Fatal(err)
	}
	end := listed[0]
	end.Phase, end.EndedAt = runtype.Succeeded, time.Now().UTC()
	if err := s.Save(t.Context(), &runstore.Save{Run: end}); err != nil {
		t.Fatal(err)
	}
	if err := s.Remove(t.Context(), []string{end.ID}); err != nil {
		t.Fatal(err)
	}
	left := 0
	_ = s.(*sql.SQLite).DB.Read(t.Context(), func(x db.Session) error {
		return x.Query("SELECT count(*) FROM run_label", nil, func(r db.Row) error { left = int(r.Int(0)); return nil })
	})
	if left != 10 {
		t.Errorf("%d labels are left of five runs with two each", left)
	}
}

func TestFinding12LabelsOfEarlierRunsAreIndexedPostgres(t *testing.T) {
	dsn := pgtest.Start(t, pgtest.Options{NoSync: true}).Database(t)
	s, err := sql.Open(t.Context(), sql.Options{DSN: dsn})
	if err != nil {
		t.Fatal(err)
	}
	labelledRuns(t, s, 6)
	p := s.(*sql.Postgres)
	defer s.Close()
	isMigration(t, "postgres", db.LabelMigration)
	err = pgx.BeginFunc(t.Context(), p.DB.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), "DELETE FROM run_label"); err != nil {
			return err
		}
		return runspostgres.Fills[db.LabelMigration](postgres.NewSession(t.Context(), tx))
	})
	if err != nil {
		t.Fatal(err)
	}
	if a, b := withLabel(t, s, "team", "t1"), withLabel(t, s, "n", "4"); a != 3 || b != 1 {
		t.Errorf("found %d and %d of the runs that were there before the index", a, b)
	}
	list, args := runs.ListSQL(p.Store, runstore.Query{Labels: []runstore.LabelTerm{{Key: "n", Value: "4"}}})
	rows, err := s.(*sql.Postgres).DB.Pool.Query(context.Background(), "EXPLAIN "+list, args...)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
	text := strings.Join(plan, "\n")
	if err != nil || !strings.Contains(text, "run_label_pkey on run_label") || strings.Contains(text, "Seq Scan") {
		t.Errorf("%v: the list does not walk along the index:\n%s", err, text)
	}
}
