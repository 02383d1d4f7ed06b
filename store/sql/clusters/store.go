// Package clusters stores container clusters in either database: their records, nodes, journal, jobs and
// events.
package clusters

import (
	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/store/sql/db"
	"github.com/pawl-dev/pawl/store/sql/secrets"
)

// Store stores container clusters in either database. cluster/clustertest is its
// conformance suite. The master keys of Options encrypt its secrets.
type Store struct {
	m         db.Backend
	encrypter *secrets.Encrypter
	lists     lists
}

var _ cluster.Store = (*Store)(nil)

// New returns the clusters of a database.
func New(m db.Backend, e *secrets.Encrypter) *Store { return &Store{m: m, encrypter: e} }
