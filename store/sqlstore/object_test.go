package sqlstore

import (
	"testing"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/control/objecttest"
	"github.com/pawl-dev/pawl/store/sqlstore/pgtest"
)

func TestObjects(t *testing.T) {
	t.Run("SQLite", func(t *testing.T) {
		objecttest.Run(t, objecttest.Suite{Open: func(t *testing.T) control.Objects { return file(t).Objects() }, Forget: forget})
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		objecttest.Run(t, objecttest.Suite{
			Open: func(t *testing.T) control.Objects {
				p, _ := postgres(t, pgtest.Options{NoSync: true})
				return p.Objects()
			},
			Forget: forget,
		})
	})
}

// forget trims the whole feed.
func forget(t *testing.T, s control.Objects) {
	m := BackendOf(s)
	var newest int64
	err := m.read(t.Context(), func(s session) error {
		return s.query(`SELECT newest FROM feed`, nil, func(r row) error { newest = r.int(0); return nil })
	})
	if err == nil {
		err = m.apply(t.Context(), TrimTo(newest))
	}
	if err != nil {
		t.Fatal(err)
	}
}
