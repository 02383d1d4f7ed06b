package sqlstore

import (
	"github.com/pawl-dev/pawl/account"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/lock"
)

// Accounts returns the account store of this file.
func (s *SQLite) Accounts() account.Store { return newAccounts(sqBackend{s}, s.encrypter) }

// Accounts returns the account store of this database.
func (p *Postgres) Accounts() account.Store { return newAccounts(pgBackend{p}, p.encrypter) }

// Clusters returns the cluster store of this file.
func (s *SQLite) Clusters() *Clusters { return s.clusters }

// Clusters returns the cluster store of this database.
func (p *Postgres) Clusters() *Clusters { return p.clusters }

// Keys returns the answers in this file.
func (s *SQLite) Keys() Keys { return newKeys(sqBackend{s}) }

// Keys returns the answers in this database.
func (p *Postgres) Keys() Keys { return newKeys(pgBackend{p}) }

func (o Options) encrypter() (*Encrypter, error) {
	keys := o.MasterKeys
	if o.MasterKey != nil {
		keys = append([][]byte{o.MasterKey}, keys...)
	}
	return NewEncrypter(keys...)
}

// Encrypter returns the encrypter that holds the master keys of Options.
func (s *SQLite) Encrypter() *Encrypter { return s.encrypter }

// Encrypter returns the encrypter that holds the master keys of Options.
func (p *Postgres) Encrypter() *Encrypter { return p.encrypter }

// Objects returns the standalone objects of this file.
func (s *SQLite) Objects() control.Objects { return newObjects(sqBackend{s}) }

// Locks returns the locks of this file. Their clock is that of this machine.
func (s *SQLite) Locks() lock.Backend { return newLocks(sqBackend{s}) }

// Objects returns the standalone objects of this database.
func (p *Postgres) Objects() control.Objects { return newObjects(pgBackend{p}) }

// Locks returns the locks of this database. Their clock is that of the server.
func (p *Postgres) Locks() lock.Backend { return newLocks(pgBackend{p}) }
