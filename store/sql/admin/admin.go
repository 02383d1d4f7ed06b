// Package admin maintains a store, the same in both databases: check, backup, export and restore, new keys.
package admin

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/store/sql/db"
	"github.com/pawl-dev/pawl/store/sql/db/sqlite"
	"github.com/pawl-dev/pawl/store/sql/runs"
	runssqlite "github.com/pawl-dev/pawl/store/sql/runs/sqlite"
	"github.com/pawl-dev/pawl/store/sql/secrets"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

// Admin has the operations of the maintenance commands.
type Admin struct {
	db        db.Maintained
	runs      *runs.Store
	encrypter *secrets.Encrypter
}

// New returns the maintenance of an open store.
func New(on db.Maintained, runs *runs.Store, encrypter *secrets.Encrypter) *Admin {
	return &Admin{db: on, runs: runs, encrypter: encrypter}
}

// IsOwner reports whether this process may claim and save runs.
func (a *Admin) IsOwner() bool { return a.db.IsOwner() }

// Owned reports whether any process claims and saves runs.
func (a *Admin) Owned() bool { return a.db.Owned() }

// Stats counts what was written since Open.
func (a *Admin) Stats() db.Stats { return a.db.Stats() }

// Backup writes a copy to a new file. The store stays in use. BACKUP_ELSEWHERE.
func (a *Admin) Backup(ctx context.Context, path string) error { return a.db.Backup(ctx, path) }

// probeSQL stores a row for each process. Rows of dead processes are removed with the
// answers of the day before.
const probeSQL = `INSERT INTO idempotency (account, key, hash, at, answer) VALUES ('probe', $1, '', $2, NULL) ON CONFLICT (account, key) DO UPDATE SET at = excluded.at`

// Probe writes a row, as a request does. Its error says why the store cannot write. It
// tests both ways to the database: that of runs and that of all else.
func (a *Admin) Probe(ctx context.Context) error {
	if err := a.db.Apply(ctx, db.Single(probeSQL, a.db.Process(), time.Now().UnixNano())); err != nil {
		return err
	}
	return a.runs.ProbeWriter(ctx)
}

// file runs do on a SQLite file that cannot be opened as a store. It writes nothing.
func file(path string, do func(*Admin) error) error {
	on, err := sqlite.OpenReadOnly(path)
	if err != nil {
		return err
	}
	defer on.Close()
	return do(New(on, runssqlite.NewReadOnly(on), nil))
}

// CheckFile checks a file that cannot be opened as a store. It writes nothing.
// STORE_EMPTY, STORE_FOREIGN, STORE_NO_FILE.
func CheckFile(ctx context.Context, path string) (report Report, err error) {
	err = file(path, func(a *Admin) (err error) { report, err = a.Check(ctx); return err })
	if errors.Is(err, runstore.StoreCorrupt) {
		return Report{Damage: []Damage{{What: fault.Message(err)}}}, nil
	}
	return report, err
}

// ExportFile exports the readable part of a file that cannot be opened as a store.
func ExportFile(ctx context.Context, path string, w io.Writer) error {
	return file(path, func(a *Admin) error { return a.Export(ctx, w) })
}

// EncryptedWith returns the ids of the master keys that encrypted the secrets of a file.
// It writes nothing.
func EncryptedWith(ctx context.Context, path string) (ids []string, err error) {
	err = file(path, func(a *Admin) error {
		return a.db.Inspect(ctx, func(x db.Session) (err error) { ids, err = encryptedWith(x); return err })
	})
	return ids, err
}
