package sql

import (
	"context"

	"github.com/pawl-dev/pawl/account"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/lock"
	"github.com/pawl-dev/pawl/store/sql/accounts"
	"github.com/pawl-dev/pawl/store/sql/admin"
	"github.com/pawl-dev/pawl/store/sql/clusters"
	"github.com/pawl-dev/pawl/store/sql/db"
	"github.com/pawl-dev/pawl/store/sql/db/postgres"
	"github.com/pawl-dev/pawl/store/sql/db/sqlite"
	"github.com/pawl-dev/pawl/store/sql/idempotency"
	"github.com/pawl-dev/pawl/store/sql/locks"
	"github.com/pawl-dev/pawl/store/sql/objects"
	"github.com/pawl-dev/pawl/store/sql/runs"
	runspostgres "github.com/pawl-dev/pawl/store/sql/runs/postgres"
	runssqlite "github.com/pawl-dev/pawl/store/sql/runs/sqlite"
	"github.com/pawl-dev/pawl/store/sql/secrets"
)

// SQLite is the stores of one file.
type SQLite struct {
	stores
	DB *sqlite.DB
}

// Postgres is the stores of a PostgreSQL database that several processes share.
type Postgres struct {
	stores
	DB *postgres.DB
}

var (
	_ Store = (*SQLite)(nil)
	_ Store = (*Postgres)(nil)
)

// OpenSQLite opens or creates the file Options.Path. See Open.
func OpenSQLite(ctx context.Context, o Options) (*SQLite, error) {
	encrypter, err := o.encrypter()
	if err != nil {
		return nil, err
	}
	d, err := sqlite.Open(ctx, sqlite.Options{Path: o.Path, Client: o.Client, Readers: o.Readers, Counters: runssqlite.Counters})
	if err != nil {
		return nil, err
	}
	r, err := runssqlite.New(ctx, d)
	if err != nil {
		d.Close()
		return nil, err
	}
	return &SQLite{newStores(d, r, encrypter), d}, nil
}

// OpenPostgres opens the database Options.DSN. See Open.
func OpenPostgres(ctx context.Context, o Options) (*Postgres, error) {
	encrypter, err := o.encrypter()
	if err != nil {
		return nil, err
	}
	d, err := postgres.Open(ctx, o.DSN)
	if err != nil {
		return nil, err
	}
	return &Postgres{newStores(d, runspostgres.New(d), encrypter), d}, nil
}

// Close waits for the writes under way and closes the file.
func (s *SQLite) Close() error {
	s.DB.Close()
	return nil
}

// Close finishes the writes under way and closes all connections. Later writes fail with
// STORE_UNAVAILABLE.
func (p *Postgres) Close() error {
	p.Store.Close()
	p.DB.Close()
	return nil
}

// stores are the stores of one database.
type stores struct {
	*runs.Store
	*admin.Admin
	db        db.Backend
	clusters  *clusters.Store
	encrypter *secrets.Encrypter
}

func newStores(on db.Maintained, r *runs.Store, encrypter *secrets.Encrypter) stores {
	return stores{Store: r, Admin: admin.New(on, r, encrypter), db: on, clusters: clusters.New(on, encrypter), encrypter: encrypter}
}

// Accounts returns the account store of this database.
func (s stores) Accounts() account.Store { return accounts.New(s.db, s.encrypter) }

// Clusters returns the cluster store of this database.
func (s stores) Clusters() *clusters.Store { return s.clusters }

// Keys returns the answers in this database.
func (s stores) Keys() idempotency.Keys { return idempotency.New(s.db) }

// Encrypter returns the encrypter that holds the master keys of Options.
func (s stores) Encrypter() *secrets.Encrypter { return s.encrypter }

// Objects returns the standalone objects of this database.
func (s stores) Objects() control.Objects { return objects.New(s.db) }

// Locks returns the locks of this database. Their clock is that of the machine of a file,
// or of the server.
func (s stores) Locks() lock.Backend { return locks.New(s.db) }

func (o Options) encrypter() (*secrets.Encrypter, error) {
	keys := o.MasterKeys
	if o.MasterKey != nil {
		keys = append([][]byte{o.MasterKey}, keys...)
	}
	return secrets.NewEncrypter(keys...)
}
