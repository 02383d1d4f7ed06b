package backend

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/pawl-dev/pawl/account"
	"github.com/pawl-dev/pawl/cluster"
	clustermemory "github.com/pawl-dev/pawl/cluster/memory"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/lock"
	"github.com/pawl-dev/pawl/server/auth"
	"github.com/pawl-dev/pawl/server/idempotency"
	"github.com/pawl-dev/pawl/store/sql"
	"github.com/pawl-dev/pawl/store/sql/db/sqlite"
	"github.com/pawl-dev/pawl/store/sql/secrets"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// StoreOptions say which store is meant (--store and --dsn).
type StoreOptions struct {
	Kind string // memory, sqlite, postgres; empty: what DSN says
	DSN  string // a file or postgres://…; empty: pawl.db in the user's state folder
	// KeyFile holds the master keys that encrypt secrets. Empty: PAWL_MASTER_KEY,
	// else a file beside a SQLite store, which is created if absent.
	KeyFile string
	Sealed  bool // secrets stay encrypted: no key is needed
}

// Store is an open store.
type Store struct{ fullStore }

// fullStore is the interface of verbs and servers to a store.
type fullStore interface {
	runstore.Store
	runstore.Claimer
	runstore.Lister
	runstore.Definitions
	runstore.Retainer
	runstore.Logs
	runstore.RunLimiter
	runstore.Workers
	runstore.StepLimiter
	Objects() control.Objects
	Locks() lock.Backend
	Close() error
}

// memory is the memory store with the methods of the other stores.
type memory struct {
	*runstore.Memory
	objects  *control.Memory
	locks    *lock.Memory
	clusters *clustermemory.Store
	accounts *account.Memory
}

func (memory) Close() error               { return nil }
func (m memory) Objects() control.Objects { return m.objects }
func (m memory) Locks() lock.Backend      { return m.locks }

// OpenStore opens a store. A client of a file never owns it.
func OpenStore(ctx context.Context, o StoreOptions, client bool) (Store, error) {
	postgres := o.Shared()
	switch o.Kind {
	case "memory":
		if o.DSN != "" {
			return Store{}, runtype.InputInvalid.Errorf("--store memory has no --dsn")
		}
		return Store{memory{runstore.NewMemory(), control.NewMemory(), &lock.Memory{}, clustermemory.New(), account.NewMemory()}}, nil
	case "postgres":
		if !postgres {
			return Store{}, runtype.InputInvalid.Errorf("--store postgres needs --dsn postgres://USER@HOST/DATABASE")
		}
	case "sqlite":
		if postgres {
			return Store{}, runtype.InputInvalid.Errorf("--store sqlite takes the path of a file as --dsn")
		}
	case "":
	default:
		return Store{}, runtype.InputInvalid.Errorf("--store %q: it is memory, sqlite or postgres", o.Kind)
	}
	path := o.Path()
	if !postgres {
		if err := sqlite.Identify(path); err != nil { // before a key is created beside it
			return Store{}, err
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return Store{}, runstore.StoreUnavailable.Errorf("%w", err)
		}
	}
	keys, err := o.masterKeys(postgres, client)
	if err != nil {
		return Store{}, err
	}
	if postgres {
		return opened(sql.Open(ctx, sql.Options{DSN: o.DSN, MasterKeys: keys}))
	}
	return opened(sql.Open(ctx, sql.Options{Path: path, Client: client, MasterKeys: keys}))
}

// MasterKeys returns the keys for a client of the store; it creates none.
func (o StoreOptions) MasterKeys() ([][]byte, error) { return o.masterKeys(o.Shared(), true) }

// masterKeys are those of the file, of the environment, or of the file beside a
// SQLite store, which a client does not make.
func (o StoreOptions) masterKeys(postgres, client bool) ([][]byte, error) {
	if o.Sealed {
		return nil, nil
	}
	if o.KeyFile != "" {
		return secrets.MasterKeyFile(o.KeyFile)
	}
	if text := os.Getenv("PAWL_MASTER_KEY"); text != "" {
		return secrets.ParseMasterKeys(text)
	}
	if postgres {
		return nil, nil
	}
	beside := o.Keys()
	if _, err := os.Stat(beside); err != nil && client {
		return nil, nil // without keys a client reads unencrypted data
	}
	return secrets.MasterKeyFile(beside)
}

func opened(store sql.Store, err error) (Store, error) {
	if err != nil {
		return Store{}, err
	}
	return Store{store}, nil
}

// IsOpen reports a store that was opened.
func (s Store) IsOpen() bool { return s.fullStore != nil }

// Keys keeps the answers of requests to a server; nil: the store does not.
func (s Store) Keys() idempotency.Store {
	if admin, ok := s.fullStore.(sql.Store); ok {
		return admin.Keys()
	}
	return nil
}

// SignedOut remembers sessions that were signed out; nil: the store does not.
func (s Store) SignedOut() auth.SignedOut {
	if admin, ok := s.fullStore.(sql.Store); ok {
		return admin.Keys()
	}
	return nil
}

// SessionKeys sign the sessions of the console: one of each master key, the
// newest first. None: the store has no master key, and sessions end with the server.
func (s Store) SessionKeys() ([][]byte, error) {
	if sealed, ok := s.fullStore.(sql.Store); ok {
		return sealed.Encrypter().Derive("pawl console sessions 1")
	}
	return nil, nil
}

// Clusters is the store of container clusters.
func (s Store) Clusters() cluster.Store {
	if m, ok := s.fullStore.(memory); ok {
		return m.clusters
	}
	return s.fullStore.(sql.Store).Clusters()
}

// Accounts are the accounts of the store.
func (s Store) Accounts() account.Store {
	if m, ok := s.fullStore.(memory); ok {
		return m.accounts
	}
	return s.fullStore.(sql.Store).Accounts()
}

// Rotator encrypts secrets with a new key; false: the store keeps none.
func (s Store) Rotator() (rotator interface {
	Rotate(ctx context.Context) (int, error)
}, ok bool) {
	rotator, ok = s.fullStore.(sql.Store)
	return rotator, ok
}

// CheckEncryption refuses a store whose secrets the given master keys do not open.
func (s Store) CheckEncryption(ctx context.Context) error {
	if sealed, ok := s.fullStore.(sql.Store); ok {
		return sealed.CheckEncryption(ctx)
	}
	return nil
}

// Probe writes as requests do, and returns the error if it cannot.
func (s Store) Probe(ctx context.Context) error {
	if durable, ok := s.fullStore.(sql.Store); ok {
		return durable.Probe(ctx)
	}
	return nil
}

// Shared reports a database that several servers may share.
func (o StoreOptions) Shared() bool {
	return strings.HasPrefix(o.DSN, "postgres://") || strings.HasPrefix(o.DSN, "postgresql://") || strings.Contains(o.DSN, "host=")
}

// Keys is the file of the master keys.
func (o StoreOptions) Keys() string {
	if o.KeyFile != "" {
		return o.KeyFile
	}
	return o.Path() + ".key"
}

// Installation is the id that marks the resources of this store's server. It is
// created once.
func (s Store) Installation(ctx context.Context) (string, error) {
	id := control.NewUID()
	if store, ok := s.fullStore.(sql.Store); ok {
		return store.Clusters().SettingOr(ctx, "installation", id)
	}
	return id, nil
}

// Path is the file of a SQLite store.
func (o StoreOptions) Path() string {
	if o.DSN == "" {
		return DefaultPath()
	}
	return strings.TrimPrefix(strings.TrimPrefix(o.DSN, "sqlite:"), "//")
}

// Absent reports a SQLite store whose file does not exist.
func (o StoreOptions) Absent() bool {
	if o.Shared() || o.Kind != "" && o.Kind != "sqlite" {
		return false
	}
	_, err := os.Stat(o.Path())
	return errors.Is(err, fs.ErrNotExist)
}

// IsOwner reports whether this process may work on the store.
func (s Store) IsOwner() bool {
	admin, ok := s.fullStore.(sql.Admin)
	return !ok || admin.IsOwner()
}

// Owned reports whether any process works on the store, as far as that can be known.
func (s Store) Owned() bool {
	admin, ok := s.fullStore.(sql.Admin)
	return !ok || admin.Owned()
}

// Admin is the store's side for commands that look after it.
func (s Store) Admin() (sql.Admin, bool) {
	admin, ok := s.fullStore.(sql.Admin)
	return admin, ok
}

// DefaultPath is the path of the SQLite store without --dsn.
func DefaultPath() string { return filepath.Join(StateDir(), "pawl.db") }

// StateDir is where pawl keeps what outlives a process:
// pawl in the user's state folder, ${XDG_STATE_HOME:-~/.local/state}.
func StateDir() string {
	base := os.Getenv("XDG_STATE_HOME")
	if base == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			home = "."
		}
		base = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(base, "pawl")
}
