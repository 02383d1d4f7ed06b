package raw

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	driver "zombiezen.com/go/sqlite"

	"github.com/pawl-dev/pawl/store/sql/db/sqlite"
)

// SQLite measures a write loop: a step is one update of a small row by its key and one
// append of 60 bytes. Submitters wait for their commit, and one writer writes all pending
// steps in batches. It creates a temporary file in dir, so that the disk is the same.
func SQLite(ctx context.Context, dir string, submitters, steps int) (Result, error) {
	folder, err := os.MkdirTemp(dir, "raw-")
	if err != nil {
		return Result{}, err
	}
	defer os.RemoveAll(folder)
	on, err := sqlite.Open(ctx, sqlite.Options{Path: filepath.Join(folder, "raw.db")})
	if err != nil {
		return Result{}, err
	}
	defer on.Close()
	var update, insert *driver.Stmt
	err = on.Do(sqlite.Func{Run: func(w *sqlite.Writer) (err error) {
		if err := sqlite.Script(w.Conn, `CREATE TABLE raw_run (row INTEGER PRIMARY KEY, revision INTEGER NOT NULL, body BLOB NOT NULL);
			CREATE TABLE raw_event (row INTEGER PRIMARY KEY, run INTEGER NOT NULL, data BLOB NOT NULL);`); err != nil {
			return err
		}
		for i := range submitters {
			if err := sqlite.Execute(w.Conn, "INSERT INTO raw_run (row, revision, body) VALUES (?, 0, ?)", i+1, make([]byte, 60)); err != nil {
				return err
			}
		}
		if update, err = w.Conn.Prepare("UPDATE raw_run SET revision = revision + 1, body = ? WHERE row = ? AND revision = ?"); err != nil {
			return err
		}
		insert, err = w.Conn.Prepare("INSERT INTO raw_event (row, run, data) VALUES (?, ?, ?)")
		return err
	}}, true)
	if err != nil {
		return Result{}, err
	}

	data := make([]byte, 60)
	row := int64(0)
	before := on.Stats()
	result, err := measure(ctx, submitters, steps, func(i int, revision int64) error {
		return on.Do(sqlite.Func{Run: func(w *sqlite.Writer) error {
			update.BindBytes(1, data)
			update.BindInt64(2, int64(i+1))
			update.BindInt64(3, revision)
			if err := w.Step(update); err != nil {
				return err
			}
			if w.Conn.Changes() != 1 {
				return fmt.Errorf("raw run %d is not at revision %d", i, revision)
			}
			row++
			insert.BindInt64(1, row)
			insert.BindInt64(2, int64(i+1))
			insert.BindBytes(3, data)
			w.Count(60 + 16 + 60 + 16)
			return w.Step(insert)
		}}, false)
	})
	after := on.Stats()
	result.SyncsPerStep, result.BytesPerWrite = float64(after.Syncs-before.Syncs)/float64(steps), float64(after.Bytes-before.Bytes)/float64(steps)
	return result, err
}
