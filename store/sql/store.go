// Package sql stores runs in SQLite or PostgreSQL.
//
//	store, err := sql.Open(ctx, sql.Options{Path: "pawl.db"})
//	defer store.Close()
//	engine, err := workflow.New(store, flows, workflow.Options{})
//
// A step costs one small update and one append. The cost does not grow with the
// length of the flow or of its history:
//
//	run    one row a run: phase, revision, epoch, owner, due time, and a body:
//	       state, fault and the records of open steps
//	event  one row a save, in the order of writing: the events of the save and
//	       the records that it settled; each row of a run names the row before
//	run_log  one row a batch of lines of an attempt; run_log_size
//	run_limit  one row a key of a run that is limited and goes on; run_limit_value
//	       (and run_limit_changed in PostgreSQL)
//	signal, input, definition, migration
//	object, change, feed, lock, idempotency
//	container_cluster and its detail tables, job, cluster_event, setting:
//	       container clusters; domain, account, token, api_key, audit: users
//
// Package codec writes the blobs, the same for both databases. The schema is in
// db/schema/. Its files are numbered; there is no way back to an older one.
package sql

import (
	"context"
	"io"
	"strings"

	"github.com/pawl-dev/pawl/account"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/lock"
	"github.com/pawl-dev/pawl/store/sql/admin"
	"github.com/pawl-dev/pawl/store/sql/clusters"
	"github.com/pawl-dev/pawl/store/sql/db"
	"github.com/pawl-dev/pawl/store/sql/idempotency"
	"github.com/pawl-dev/pawl/store/sql/secrets"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Options name the database to open and say how to open it.
type Options struct {
	Path string // of a SQLite file; Open creates it if it does not exist
	DSN  string // postgres://…; sqlite:PATH or a bare path means the same as Path

	// Client opens a SQLite file without owning it, even when no other process owns it: for commands that
	// only read, create and send. The first process that opens a file without Client owns it; later
	// processes are clients.
	Client bool

	Readers int // connections that read a SQLite file; default 4

	// MasterKey encrypts secrets. MasterKeys only decrypt: they hold older keys. The store never writes a
	// master key. Without one, writing a secret fails with MASTER_KEY_MISSING. See MasterKeyFile.
	MasterKey  []byte
	MasterKeys [][]byte
}

// Store is the interface of both databases.
type Store interface {
	runstore.Store
	runstore.Claimer
	runstore.Lister
	runstore.Definitions
	runstore.Retainer
	runstore.Logs
	runstore.RunLimiter
	runstore.Workers
	runstore.StepLimiter
	Admin
	// EventsOf is Events of some kinds. It looks at a part of the history, and the cursor stays at its end. An event of another
	// kind costs a fraction of what Events takes for it.
	EventsOf(ctx context.Context, cursor string, limit int, kinds []runtype.EventKind) (events []runtype.Event, next string, err error)
	// Objects returns the standalone objects of the database and their change feed.
	Objects() control.Objects
	// Locks returns the locks that all processes on the database share.
	Locks() lock.Backend
	// Clusters returns the store of container clusters.
	Clusters() *clusters.Store
	// Accounts returns the accounts, their credentials and the audit trail.
	Accounts() account.Store
	// Probe writes a row, as a request does. Its error says why the store cannot write.
	Probe(ctx context.Context) error
	// Keys returns the answers to requests that were sent twice, and the sessions that were signed out.
	Keys() idempotency.Keys
	// Encrypter returns the encrypter that holds the master keys of Options.
	Encrypter() *secrets.Encrypter
	// Close waits for the writes under way and closes the database.
	Close() error
}

// Admin has the operations of the maintenance commands.
type Admin interface {
	// IsOwner reports whether this process may claim and save runs.
	IsOwner() bool
	// Owned reports whether any process claims and saves runs. Of a shared store nobody knows: true.
	Owned() bool
	// Stats counts what was written since Open.
	Stats() db.Stats
	// Check reads the whole store and reports damage.
	Check(ctx context.Context) (admin.Report, error)
	// Backup writes a copy to a new file. The store stays in use.
	Backup(ctx context.Context, path string) error
	// Export writes every run with its records, signals and history as JSON lines.
	Export(ctx context.Context, w io.Writer) error
	// Restore reads an export into an empty store.
	Restore(ctx context.Context, r io.Reader) error
	// Rotate encrypts all secrets with the newest master key and returns the number of rows it changed.
	Rotate(ctx context.Context) (int, error)
	// CheckEncryption decrypts some secrets of each kind. MASTER_KEY_UNKNOWN, MASTER_KEY_MISSING.
	CheckEncryption(ctx context.Context) error
}

// Open opens a database and brings its schema up to date. It refuses a newer schema
// (SCHEMA_NEWER) and a schema whose migrations were edited (SCHEMA_CHANGED), and it does
// not touch a damaged file (STORE_CORRUPT).
func Open(ctx context.Context, o Options) (Store, error) {
	switch {
	case o.DSN != "" && o.Path != "":
		return nil, runtype.InputInvalid.Errorf("Options.Path and Options.DSN are both set: give one")
	case strings.HasPrefix(o.DSN, "postgres://"), strings.HasPrefix(o.DSN, "postgresql://"), strings.Contains(o.DSN, "="):
		p, err := OpenPostgres(ctx, o)
		if err != nil {
			return nil, err
		}
		return p, nil
	case o.DSN != "":
		o.Path = strings.TrimPrefix(strings.TrimPrefix(o.DSN, "sqlite:"), "//")
	}
	if o.Path == "" {
		return nil, runtype.InputInvalid.Errorf("no database: set Options.Path to a file or Options.DSN to postgres://…")
	}
	s, err := OpenSQLite(ctx, o)
	if err != nil {
		return nil, err
	}
	return s, nil
}
