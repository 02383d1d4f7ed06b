package runs_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/store/sql"
	"github.com/pawl-dev/pawl/store/sql/db"
	"github.com/pawl-dev/pawl/store/sql/pgtest"
	"github.com/pawl-dev/pawl/store/sql/runs"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// indexedRuns stores six runs with labels, of which two are paused by a fault and one by a person.
func indexedRuns(t *testing.T, s sql.Store) {
	t.Helper()
	for i, f := range []*runtype.Fault{{Code: "A", Message: "m"}, {Code: "B"}, nil, nil, nil, nil} {
		r := &runtype.Run{ID: workflow.RunID("kind/index/a", "F", fmt.Sprint(i)), Flow: "F", Hash: "h", Subject: fmt.Sprintf("kind/index/%d", i), CreatedAt: time.Now().UTC(),
			Labels: map[string]string{"team": fmt.Sprint("t", i%2), "n": fmt.Sprint(i)}}
		r, err := s.Create(t.Context(), r, nil)
		if err != nil {
			t.Fatal(err)
		}
		if i < 3 {
			r.Phase, r.Fault = runtype.Paused, f
			if err := s.Save(t.Context(), &runstore.Save{Run: r}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

var (
	byLabel = runstore.Query{Labels: []runstore.LabelTerm{{Key: "n", Value: "4"}}}
	byFault = runstore.Query{Fault: "A"}
)

func found(t *testing.T, s sql.Store, q runstore.Query) []*runtype.Run {
	t.Helper()
	listed, _, err := s.List(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return listed
}

func wantIndexed(t *testing.T, s sql.Store) {
	t.Helper()
	indexedRuns(t, s)
	for _, c := range []struct {
		q    runstore.Query
		want int
	}{
		{byLabel, 1},
		{runstore.Query{Labels: []runstore.LabelTerm{{Key: "team", Value: "t1"}}}, 3},
		{byFault, 1}, {runstore.Query{Fault: "B"}, 1}, {runstore.Query{Fault: "C"}, 0},
	} {
		if got := len(found(t, s, c.q)); got != c.want {
			t.Errorf("%+v finds %d runs, not %d", c.q, got, c.want)
		}
	}
}

// wantPlan checks that a list walks along an index.
func wantPlan(t *testing.T, plan, index string, not ...string) {
	t.Helper()
	if !strings.Contains(plan, index) {
		t.Errorf("the list does not use %q:\n%s", index, plan)
	}
	for _, n := range not {
		if strings.Contains(plan, n) {
			t.Errorf("%s: the list does not walk along the index:\n%s", n, plan)
		}
	}
}

func TestListsWalkAlongIndexesSQLite(t *testing.T) {
	s, err := sql.OpenSQLite(t.Context(), sql.Options{Path: t.TempDir() + "/a.db"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	wantIndexed(t, s)
	for index, q := range map[string]runstore.Query{"SEARCH c USING PRIMARY KEY (key=? AND value=?)": byLabel, "run_fault (fault=?)": byFault} {
		var plan []string
		list, args := runs.ListSQL(s.Store, q)
		if err := s.DB.Read(t.Context(), func(x db.Session) error {
			return x.Query("EXPLAIN QUERY PLAN "+list, args, func(r db.Row) error { plan = append(plan, r.Text(3)); return nil })
		}); err != nil {
			t.Fatal(err)
		}
		wantPlan(t, strings.Join(plan, "\n"), index, "B-TREE", "SCAN")
	}
	end := found(t, s, byLabel)[0]
	end.Phase, end.EndedAt = runtype.Succeeded, time.Now().UTC()
	if err := s.Save(t.Context(), &runstore.Save{Run: end}); err != nil {
		t.Fatal(err)
	}
	if err := s.Remove(t.Context(), []string{end.ID}); err != nil {
		t.Fatal(err)
	}
	left := 0
	if err := s.DB.Read(t.Context(), func(x db.Session) error {
		return x.Query("SELECT count(*) FROM run_label", nil, func(r db.Row) error { left = int(r.Int(0)); return nil })
	}); err != nil || left != 10 {
		t.Errorf("%d labels are left of five runs with two each, %v", left, err)
	}
}

func TestListsWalkAlongIndexesPostgres(t *testing.T) {
	s, err := sql.OpenPostgres(t.Context(), sql.Options{DSN: pgtest.Start(t, pgtest.Options{NoSync: true}).Database(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	wantIndexed(t, s)
	var plan []string
	list, args := runs.ListSQL(s.Store, byLabel)
	if err := s.DB.Read(t.Context(), func(x db.Session) error {
		return x.Query("EXPLAIN "+list, args, func(r db.Row) error { plan = append(plan, r.Text(0)); return nil })
	}); err != nil {
		t.Fatal(err)
	}
	wantPlan(t, strings.Join(plan, "\n"), "run_label_pkey on run_label", "Seq Scan")
}
