package objects_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/store/sql/db"
	"github.com/pawl-dev/pawl/store/sql/objects"
	"github.com/pawl-dev/pawl/store/sql/pgtest"
	"github.com/pawl-dev/pawl/store/sql/sqltest"
)

// eachBackend runs a test on both databases. The second store acts as another process on
// the same data.
func eachBackend(t *testing.T, ask func(t *testing.T, one, two control.Objects)) {
	t.Run("SQLite", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "pawl.db")
		one := sqltest.Reopen(t, path)
		ask(t, one.Objects(), sqltest.Reopen(t, path).Objects())
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		one, dsn := sqltest.Postgres(t, pgtest.Options{NoSync: true})
		ask(t, one.Objects(), sqltest.ReopenPostgres(t, dsn).Objects())
	})
}

func demo(name string, n int) control.Object {
	return control.Object{Ref: control.Ref{Kind: "demo", Namespace: "default", Name: name}, Spec: fmt.Appendf(nil, `{"n":%d}`, n)}
}

// The feed keeps a limited number of changes. A reader that is further behind gets a
// gap.
func TestFeedIsTrimmed(t *testing.T) {
	eachBackend(t, func(t *testing.T, one, _ control.Objects) {
		one = objects.Limited(one, 10)
		const changes = objects.TrimInterval + 20
		for i := range changes {
			if _, err := one.Apply(t.Context(), demo("c1", i)); err != nil {
				t.Fatal(err)
			}
		}
		var rows int64
		err := objects.BackendOf(one).Read(t.Context(), func(s db.Session) error {
			return s.Query(`SELECT count(*) FROM change`, nil, func(r db.Row) error { rows = r.Int(0); return nil })
		})
		if err != nil || rows < 10 || rows > 10+objects.TrimInterval {
			t.Fatalf("%d changes are kept of %d, %v", rows, changes, err)
		}
		for c, err := range one.Feed("").Watch(t.Context(), "1") {
			if !errors.Is(err, control.ErrGap) {
				t.Fatalf("watch from a trimmed position: %v, %v", c, err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		for c, err := range one.Feed("").Watch(ctx, strconv.Itoa(changes-10)) {
			if err != nil || c.Version != strconv.Itoa(changes-9) {
				t.Fatalf("watch from a kept position: %v, %v", c, err)
			}
			break
		}
	})
}

// A watch in the owner of the data gets changes of another process at once.
func TestFeedIsWokenByOtherProcesses(t *testing.T) {
	eachBackend(t, func(t *testing.T, one, two control.Objects) {
		ctx, cancel := context.WithTimeout(t.Context(), objects.PollInterval/2)
		defer cancel()
		_, version, err := one.Feed("demo").List(ctx)
		if err != nil {
			t.Fatal(err)
		}
		heard := make(chan control.Change[control.Object])
		go func() {
			defer close(heard)
			for c, err := range one.Feed("demo").Watch(ctx, version) {
				if err != nil {
					return
				}
				heard <- c
			}
		}()
		for i := range 3 { // the later changes find the watch waiting
			if _, err := two.Apply(ctx, demo("c1", i)); err != nil {
				t.Fatal(err)
			}
			if c, ok := <-heard; !ok || string(c.Item.Value.Spec) != fmt.Sprintf(`{"n":%d}`, i) {
				t.Fatalf("change %d: %v, %v", i, c, ok)
			}
		}
		cancel()
		<-heard
	})
}

// Readers do not skip a transaction that took its number early and commits late: no
// other transaction gets a number meanwhile.
func TestPostgresFeedIsNeverOvertaken(t *testing.T) {
	p, dsn := sqltest.Postgres(t, pgtest.Options{NoSync: true})
	one, two := p.Objects(), sqltest.ReopenPostgres(t, dsn).Objects()
	_, version, err := one.Feed("").List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	numbered, finish := make(chan struct{}), make(chan struct{})
	slow, quick := make(chan error, 1), make(chan error, 1)
	go func() {
		c, err := pgx.Connect(t.Context(), dsn)
		if err != nil {
			slow <- err
			return
		}
		defer c.Close(t.Context())
		slow <- pgx.BeginFunc(t.Context(), c, func(tx pgx.Tx) error {
			o := demo("slow", 1)
			create, err := objects.CreateChange(one, &o)
			for _, st := range create.List {
				_, failed := tx.Exec(t.Context(), st.SQL, st.Args...)
				err = errors.Join(err, failed)
			}
			close(numbered)
			<-finish
			return err
		})
	}()
	<-numbered
	go func() {
		_, err := two.Apply(t.Context(), demo("quick", 1))
		quick <- err
	}()
	waiting := func() (n int64) {
		err := objects.BackendOf(one).Read(t.Context(), func(s db.Session) error {
			return s.Query(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`, nil, func(r db.Row) error { n = r.Int(0); return nil })
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for waiting() == 0 {
		select {
		case err := <-quick:
			t.Fatalf("the quick writer overtook the slow one: %v", err)
		default:
		}
	}
	close(finish)
	if err := errors.Join(<-slow, <-quick); err != nil {
		t.Fatal(err)
	}
	var received []string
	for c, err := range two.Feed("").Watch(t.Context(), version) {
		if err != nil {
			t.Fatal(err)
		}
		if received = append(received, c.Item.Value.Name); len(received) == 2 {
			break
		}
	}
	if received[0] != "slow" || received[1] != "quick" {
		t.Fatalf("received: %v", received)
	}
}
