package sqlstore_test

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/clustertest"
	"github.com/pawl-dev/pawl/store/sqlstore"
	"github.com/pawl-dev/pawl/store/sqlstore/pgtest"
)

var masterKey = bytes.Repeat([]byte{7}, sqlstore.KeySize)

func TestClustersSQLite(t *testing.T) {
	clustertest.Run(t, func(t testing.TB) cluster.Store {
		return openSQLite(t, sqlstore.Options{Path: filepath.Join(t.TempDir(), "pawl.db"), MasterKey: masterKey}).Clusters()
	})
}

func TestClustersPostgres(t *testing.T) {
	pgtest.Start(t, pgtest.Options{NoSync: true}) // the server outlives the suite
	clustertest.Run(t, func(t testing.TB) cluster.Store {
		return openPostgres(t, sqlstore.Options{MasterKey: masterKey}).Clusters()
	})
}

// openPostgres opens a store on a database of its own.
func openPostgres(t testing.TB, o sqlstore.Options) sqlstore.Store {
	t.Helper()
	o.DSN = pgtest.Start(t, pgtest.Options{NoSync: true}).Database(t)
	s, err := sqlstore.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}
