// Package sqlstore keeps runs in SQLite or PostgreSQL.
//
//	store, err := sqlstore.Open(ctx, sqlstore.Options{Path: "pawl.db"})
//	defer store.Close()
//	engine, err := workflow.New(store, flows, workflow.Options{})
//
// A step costs one small update and one append, whatever the length of the
// flow or of the history:
//
//	run    one row a run: phase, revision, epoch, owner, when it is due, and a
//	       body: state, fault and the records of open steps
//	event  one row a save in order of writing: its events, and beside them the
//	       records it settled; each row of a run names the one before
//	signal, input, definition, migration
//	object, change, feed, lock, idempotency
//	container_cluster and its kin, job, cluster_event, setting: container
//	       clusters; domain, account, token, api_key, audit: who uses them
//
// The blobs are written by the functions in codec.go, the same for both
// databases. The schema stands in schema/, numbered and forward only.
package sqlstore

import (
	"context"
	"io"
	"strings"

	"github.com/pawl-dev/pawl/account"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/lock"
	"github.com/pawl-dev/pawl/workflow"
)

// Options say which database is opened, and how.
type Options struct {
	Path string // of a SQLite file; it is made if it does not exist
	DSN  string // postgres://…; sqlite:PATH or a bare path is the same as Path

	// Client opens a SQLite file without owning it, even when nobody else does:
	// for commands that only read, create and send. The first process that
	// opens a file without Client owns it; later ones are clients.
	Client bool

	Readers int // connections to a SQLite file for reading; default 4

	// MasterKey seals secrets; MasterKeys open those that older keys have
	// sealed. They are never stored. Without one, what is secret cannot be
	// written (MASTER_KEY_MISSING). See MasterKeyFile.
	MasterKey  []byte
	MasterKeys [][]byte
}

// Store is what both databases implement.
type Store interface {
	workflow.Store
	workflow.Claimer
	workflow.Lister
	workflow.Definitions
	workflow.Retainer
	// Objects are the standalone objects of the database, and their change feed.
	Objects() control.Objects
	// Locks are the locks of all that share the database.
	Locks() lock.Medium
	// Clusters is the ledger of container clusters.
	Clusters() *Clusters
	// Accounts are the accounts, their credentials and the audit trail.
	Accounts() account.Store
	// Probe writes as requests do, and tells why that cannot be done.
	Probe(ctx context.Context) error
	// Sealer seals with the master key of Options.
	Encrypter() *Encrypter
	// Close waits for writes under way and closes the database.
	Close() error
}

// Keeper is a store that commands can look after. Both databases are.
type Admin interface {
	// IsOwner reports whether this process may claim and save runs.
	IsOwner() bool
	// Stats counts what was written since Open.
	Stats() Stats
	// Check reads everything and reports what is damaged.
	Check(ctx context.Context) (Report, error)
	// Backup writes a copy to a new file while the store is in use.
	Backup(ctx context.Context, path string) error
	// Export writes every run, with records, signals and history, as JSON lines.
	Export(ctx context.Context, w io.Writer) error
	// Restore reads what Export wrote into an empty store.
	Restore(ctx context.Context, r io.Reader) error
}

// Stats counts what was written since Open.
type Stats struct {
	Writes     int64 `json:"writes"`     // durable calls: Create, Save, Send and the like
	Commits    int64 `json:"commits"`    // transactions; each is one sync
	Syncs      int64 `json:"syncs"`      // of the log: commits, and two more for each checkpoint
	Bytes      int64 `json:"bytes"`      // handed to the database as parameters; a number counts 8
	WALBytes   int64 `json:"walBytes"`   // written to the log; 0 if the database does not tell
	Statements int64 `json:"statements"` // executed for writing
}

// Report is what Check found.
type Report struct {
	Runs     int      `json:"runs"`
	Events   int      `json:"events"`
	Clusters int      `json:"clusters"`
	Damage   []Damage `json:"damage,omitempty"`
	Healthy  bool     `json:"healthy"`
	Keys     []string `json:"sealedWith,omitempty"` // ids of the master keys that the secrets in it are sealed with
}

// Damage is one damaged place.
type Damage struct {
	Run  string `json:"run,omitempty"` // empty: the file itself
	What string `json:"what"`
}

// Open opens a database and brings its schema up to date. A newer schema, or
// one whose migrations were edited, is refused (SCHEMA_NEWER, SCHEMA_CHANGED);
// a damaged file is not touched (STORE_CORRUPT).
func Open(ctx context.Context, o Options) (Store, error) {
	switch {
	case o.DSN != "" && o.Path != "":
		return nil, workflow.InputInvalid.Errorf("Options.Path and Options.DSN are both set: give one")
	case strings.HasPrefix(o.DSN, "postgres://"), strings.HasPrefix(o.DSN, "postgresql://"), strings.Contains(o.DSN, "="):
		encrypter, err := o.encrypter()
		if err != nil {
			return nil, err
		}
		p, err := openPostgres(ctx, o.DSN)
		if err != nil {
			return nil, err
		}
		p.encrypter = encrypter
		return p, nil
	case o.DSN != "":
		o.Path = strings.TrimPrefix(strings.TrimPrefix(o.DSN, "sqlite:"), "//")
	}
	if o.Path == "" {
		return nil, workflow.InputInvalid.Errorf("no database: set Options.Path to a file or Options.DSN to postgres://…")
	}
	s, err := OpenSQLite(ctx, o)
	if err != nil {
		return nil, err
	}
	return s, nil
}
