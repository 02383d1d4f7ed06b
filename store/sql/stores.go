package sql

import (
	"github.com/pawl-dev/pawl/account"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/lock"
	"github.com/pawl-dev/pawl/store/sql/accounts"
	"github.com/pawl-dev/pawl/store/sql/clusters"
	"github.com/pawl-dev/pawl/store/sql/idempotency"
	"github.com/pawl-dev/pawl/store/sql/locks"
	"github.com/pawl-dev/pawl/store/sql/objects"
	"github.com/pawl-dev/pawl/store/sql/secrets"
)

// Accounts returns the account store of this file.
func (s *SQLite) Accounts() account.Store { return accounts.New(sqBackend{s}, s.encrypter) }

// Accounts returns the account store of this database.
func (p *Postgres) Accounts() account.Store { return accounts.New(p.Backend(), p.encrypter) }

// Clusters returns the cluster store of this file.
func (s *SQLite) Clusters() *clusters.Store { return s.clusters }

// Clusters returns the cluster store of this database.
func (p *Postgres) Clusters() *clusters.Store { return p.clusters }

// Keys returns the answers in this file.
func (s *SQLite) Keys() idempotency.Keys { return idempotency.New(sqBackend{s}) }

// Keys returns the answers in this database.
func (p *Postgres) Keys() idempotency.Keys { return idempotency.New(p.Backend()) }

func (o Options) encrypter() (*secrets.Encrypter, error) {
	keys := o.MasterKeys
	if o.MasterKey != nil {
		keys = append([][]byte{o.MasterKey}, keys...)
	}
	return secrets.NewEncrypter(keys...)
}

// Encrypter returns the encrypter that holds the master keys of Options.
func (s *SQLite) Encrypter() *secrets.Encrypter { return s.encrypter }

// Encrypter returns the encrypter that holds the master keys of Options.
func (p *Postgres) Encrypter() *secrets.Encrypter { return p.encrypter }

// Objects returns the standalone objects of this file.
func (s *SQLite) Objects() control.Objects { return objects.New(sqBackend{s}) }

// Locks returns the locks of this file. Their clock is that of this machine.
func (s *SQLite) Locks() lock.Backend { return locks.New(sqBackend{s}) }

// Objects returns the standalone objects of this database.
func (p *Postgres) Objects() control.Objects { return objects.New(p.Backend()) }

// Locks returns the locks of this database. Their clock is that of the server.
func (p *Postgres) Locks() lock.Backend { return locks.New(p.Backend()) }
