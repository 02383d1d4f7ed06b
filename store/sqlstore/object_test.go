package sqlstore

import (
	"path/filepath"
	"testing"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/control/objecttest"
	"github.com/pawl-dev/pawl/lock"
	"github.com/pawl-dev/pawl/lock/locktest"
	"github.com/pawl-dev/pawl/store/sqlstore/pgtest"
)

// file opens a store on a new SQLite file.
func file(t testing.TB) *SQLite {
	t.Helper()
	s, err := OpenSQLite(t.Context(), Options{Path: filepath.Join(t.TempDir(), "pawl.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

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
	o := s.(objects)
	var newest int64
	err := o.m.read(t.Context(), func(s session) error {
		return s.query(`SELECT newest FROM feed`, nil, func(r row) error { newest = r.int(0); return nil })
	})
	if err == nil {
		err = o.m.apply(t.Context(), trim(newest))
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestLocks(t *testing.T) {
	t.Run("SQLite", func(t *testing.T) {
		locktest.Run(t, func(t *testing.T) lock.Backend { return file(t).Locks() })
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		locktest.Run(t, func(t *testing.T) lock.Backend {
			p, _ := postgres(t, pgtest.Options{NoSync: true})
			return p.Locks()
		})
	})
}
