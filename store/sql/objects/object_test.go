package objects_test

import (
	"testing"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/control/objecttest"
	"github.com/pawl-dev/pawl/store/sql/db"
	"github.com/pawl-dev/pawl/store/sql/objects"
	"github.com/pawl-dev/pawl/store/sql/pgtest"
	"github.com/pawl-dev/pawl/store/sql/sqltest"
)

func TestObjects(t *testing.T) {
	t.Run("SQLite", func(t *testing.T) {
		objecttest.Run(t, objecttest.Suite{Open: func(t *testing.T) control.Objects { return sqltest.SQLite(t).Objects() }, Forget: forget})
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		objecttest.Run(t, objecttest.Suite{
			Open: func(t *testing.T) control.Objects {
				p, _ := sqltest.Postgres(t, pgtest.Options{NoSync: true})
				return p.Objects()
			},
			Forget: forget,
		})
	})
}

// forget trims the whole feed.
func forget(t *testing.T, s control.Objects) {
	m := objects.BackendOf(s)
	var newest int64
	err := m.Read(t.Context(), func(s db.Session) error {
		return s.Query(`SELECT newest FROM feed`, nil, func(r db.Row) error { newest = r.Int(0); return nil })
	})
	if err == nil {
		err = m.Apply(t.Context(), objects.TrimTo(newest))
	}
	if err != nil {
		t.Fatal(err)
	}
}
