package sql

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"zombiezen.com/go/sqlite"

	"github.com/pawl-dev/pawl/store/sql/db"
	"github.com/pawl-dev/pawl/store/sql/pgtest"
	"github.com/pawl-dev/pawl/workflow"
)

func labelledRuns(t *testing.T, s Store, n int) {
	t.Helper()
	for i := range n {
		r := &workflow.Run{ID: workflow.RunID("kind/label/a", "F", fmt.Sprint(i)), Flow: "F", Hash: "h", Subject: fmt.Sprintf("kind/label/%d", i), CreatedAt: time.Now().UTC(),
			Labels: map[string]string{"team": fmt.Sprint("t", i%2), "n": fmt.Sprint(i)}}
		if _, err := s.Create(t.Context(), r, nil); err != nil {
			t.Fatal(err)
		}
	}
}

func withLabel(t *testing.T, s Store, key, value string) int {
	t.Helper()
	runs, _, err := s.List(t.Context(), workflow.Query{Labels: []workflow.LabelTerm{{Key: key, Value: value}}})
	if err != nil {
		t.Fatal(err)
	}
	return len(runs)
}

// isMigration checks that the migration exists after which the code indexes the labels
// of earlier runs.
func isMigration(t *testing.T, dialect string) {
	t.Helper()
	if !slices.ContainsFunc(db.Migrations(dialect), func(m db.Migration) bool { return m.Name == db.LabelMigration }) {
		t.Errorf("%s has no migration %s", dialect, db.LabelMigration)
	}
}

func TestFinding12LabelsOfEarlierRunsAreIndexedSQLite(t *testing.T) {
	path := t.TempDir() + "/a.db"
	s, err := Open(t.Context(), Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	labelledRuns(t, s, 6)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	conn, err := sqlite.OpenConn(path)
	if err != nil {
		t.Fatal(err)
	}
	isMigration(t, "sqlite")
	if err := script(conn, "DELETE FROM run_label;"); err != nil {
		t.Fatal(err)
	}
	if err := sqliteLabels(conn); err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(t.Context(), Options{Path: path}); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if a, b := withLabel(t, s, "team", "t1"), withLabel(t, s, "n", "4"); a != 3 || b != 1 {
		t.Errorf("found %d and %d of the runs that were there before the index", a, b)
	}
	var plan []string
	err = s.(*SQLite).read(t.Context(), func(conn *sqlite.Conn) error {
		return query(conn, "EXPLAIN QUERY PLAN "+sqlLabelled+"WHERE chosen.key = 'n' AND chosen.value = '4' ORDER BY chosen.run DESC LIMIT 2", func(row *sqlite.Stmt) error {
			plan = append(plan, row.ColumnText(3))
			return nil
		})
	})
	text := strings.Join(plan, "\n")
	if err != nil || !strings.Contains(text, "SEARCH chosen USING PRIMARY KEY (key=? AND value=?)") || strings.Contains(text, "B-TREE") || strings.Contains(text, "SCAN") {
		t.Errorf("%v: the list does not walk along the index:\n%s", err, text)
	}
	runs, _, err := s.List(t.Context(), workflow.Query{Labels: []workflow.LabelTerm{{Key: "n", Value: "4"}}})
	if err != nil {
		t.Fatal(err)
	}
	end := runs[0]
	end.Phase, end.EndedAt = workflow.Succeeded, time.Now().UTC()
	if err := s.Save(t.Context(), &workflow.Save{Run: end}); err != nil {
		t.Fatal(err)
	}
	if err := s.Remove(t.Context(), []string{end.ID}); err != nil {
		t.Fatal(err)
	}
	left := 0
	_ = s.(*SQLite).read(t.Context(), func(conn *sqlite.Conn) error {
		return query(conn, "SELECT count(*) FROM run_label", func(row *sqlite.Stmt) error { left = row.ColumnInt(0); return nil })
	})
	if left != 10 {
		t.Errorf("%d labels are left of five runs with two each", left)
	}
}

func TestFinding12LabelsOfEarlierRunsAreIndexedPostgres(t *testing.T) {
	dsn := pgtest.Start(t, pgtest.Options{NoSync: true}).Database(t)
	s, err := Open(t.Context(), Options{DSN: dsn})
	if err != nil {
		t.Fatal(err)
	}
	labelledRuns(t, s, 6)
	p := s.(*Postgres)
	defer s.Close()
	isMigration(t, "postgres")
	err = pgx.BeginFunc(t.Context(), p.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), "DELETE FROM run_label"); err != nil {
			return err
		}
		return postgresLabels(t.Context(), tx)
	})
	if err != nil {
		t.Fatal(err)
	}
	if a, b := withLabel(t, s, "team", "t1"), withLabel(t, s, "n", "4"); a != 3 || b != 1 {
		t.Errorf("found %d and %d of the runs that were there before the index", a, b)
	}
	rows, err := s.(*Postgres).Pool.Query(context.Background(), "EXPLAIN SELECT r.id FROM run_label c JOIN run r ON r.k = c.run WHERE c.key = $1 AND c.value = $2 ORDER BY c.run DESC LIMIT 2", "n", "4")
	if err != nil {
		t.Fatal(err)
	}
	plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
	text := strings.Join(plan, "\n")
	if err != nil || !strings.Contains(text, "run_label_pkey on run_label") || strings.Contains(text, "Seq Scan") {
		t.Errorf("%v: the list does not walk along the index:\n%s", err, text)
	}
}
