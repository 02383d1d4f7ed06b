package clusters_test

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/clustertest"

	"github.com/pawl-dev/pawl/store/sql"
	"github.com/pawl-dev/pawl/store/sql/pgtest"
	"github.com/pawl-dev/pawl/store/sql/secrets"
	"github.com/pawl-dev/pawl/store/sql/sqltest"
)

var masterKey = bytes.Repeat([]byte{7}, secrets.KeySize)

func TestClustersSQLite(t *testing.T) {
	clustertest.Run(t, func(t testing.TB) cluster.Store {
		return sqltest.OpenSQLite(t, sql.Options{Path: filepath.Join(t.TempDir(), "pawl.db"), MasterKey: masterKey}).Clusters()
	})
}

func TestClustersPostgres(t *testing.T) {
	pgtest.Start(t, pgtest.Options{NoSync: true}) // the server outlives the suite
	clustertest.Run(t, func(t testing.TB) cluster.Store {
		return openPostgres(t, sql.Options{MasterKey: masterKey}).Clusters()
	})
}

// openPostgres opens a store on a database of its own.
func openPostgres(t testing.TB, o sql.Options) sql.Store {
	t.Helper()
	o.DSN = pgtest.Start(t, pgtest.Options{NoSync: true}).Database(t)
	s, err := sql.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}
