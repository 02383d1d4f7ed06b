package postgres_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pawl-dev/pawl/store/sql/db"
	"github.com/pawl-dev/pawl/store/sql/pgtest"
	"github.com/pawl-dev/pawl/store/sql/sqltest"
)

// A transaction that the server ends because of a deadlock is executed again.
func TestPostgresWritesAgainAfterADeadlock(t *testing.T) {
	p, _ := sqltest.Postgres(t, pgtest.Options{NoSync: true})
	m := p.DB
	put := func(name string) db.Statement {
		return db.Statement{SQL: `INSERT INTO setting (name, value, at) VALUES ($1, '1', 0) ON CONFLICT (name) DO UPDATE SET value = setting.value || '1'`, Args: []any{name}}
	}
	for round := 0; ; round++ {
		a, b := fmt.Sprint("a", round), fmt.Sprint("b", round)
		for _, name := range []string{a, b} {
			if err := m.Apply(t.Context(), db.Change{List: []db.Statement{put(name)}}); err != nil {
				t.Fatal(err)
			}
		}
		var tries atomic.Int64
		var all sync.WaitGroup
		for _, names := range [][]string{{a, b}, {b, a}} { // both transactions have their first row before they request the other's
			all.Go(func() {
				err := m.Apply(t.Context(), db.Change{List: []db.Statement{put(names[0]), {SQL: `SELECT pg_sleep(0.2)`}, put(names[1])}, Begin: func() { tries.Add(1) }})
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		for _, name := range []string{a, b} {
			if v, err := p.Clusters().Setting(t.Context(), name); err != nil || v != "111" {
				t.Errorf("%s was written %q, %v; want once by each", name, v, err)
			}
		}
		switch {
		case tries.Load() > 2:
			return
		case round == 20:
			t.Fatal("there was no deadlock: the test proves nothing")
		}
	}
}
