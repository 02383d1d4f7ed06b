package sql

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/pawl-dev/pawl/store/sql/db"
)

// RawResult is the speed of the database without an engine.
type RawResult struct {
	Steps         int           `json:"steps"`
	Took          time.Duration `json:"took"`
	StepsPerSec   float64       `json:"stepsPerSecond"`
	SyncsPerStep  float64       `json:"syncsPerStep"`
	BytesPerWrite float64       `json:"bytesPerStep"`
}

// RawSQLite measures a minimal write loop, the baseline for every store: a step is one
// update of a small row by its key and one append of 60 bytes. Submitters wait for their
// commit, and one writer writes all pending steps in batches. It creates a temporary
// file in dir, so that the disk is the same.
func RawSQLite(ctx context.Context, dir string, submitters, steps int) (RawResult, error) {
	folder, err := os.MkdirTemp(dir, "raw-")
	if err != nil {
		return RawResult{}, err
	}
	defer os.RemoveAll(folder)
	conn, err := openConn(filepath.Join(folder, "raw.db"), sqlite.OpenReadWrite|sqlite.OpenCreate, -8192)
	if err != nil {
		return RawResult{}, err
	}
	s := &SQLite{path: filepath.Join(folder, "raw.db"), owner: true, wake: db.NewWaker()}
	s.claims.init()
	if err := s.prepare(ctx, conn); err != nil {
		conn.Close()
		return RawResult{}, err
	}
	if err := script(conn, `CREATE TABLE raw_run (row INTEGER PRIMARY KEY, revision INTEGER NOT NULL, body BLOB NOT NULL);
		CREATE TABLE raw_event (row INTEGER PRIMARY KEY, run INTEGER NOT NULL, data BLOB NOT NULL);`); err != nil {
		conn.Close()
		return RawResult{}, err
	}
	if s.writer, err = newSQWriter(s, conn); err != nil {
		conn.Close()
		return RawResult{}, err
	}
	defer s.writer.closeFiles()
	for i := range submitters {
		if err := execute(conn, "INSERT INTO raw_run (row, revision, body) VALUES (?, 0, ?)", i+1, make([]byte, 60)); err != nil {
			return RawResult{}, err
		}
	}
	update, err := conn.Prepare("UPDATE raw_run SET revision = revision + 1, body = ? WHERE row = ? AND revision = ?")
	if err != nil {
		return RawResult{}, err
	}
	insert, err := conn.Prepare("INSERT INTO raw_event (row, run, data) VALUES (?, ?, ?)")
	if err != nil {
		return RawResult{}, err
	}
	s.done.Go(s.writer.serve)

	var failed atomic.Pointer[error]
	var taken atomic.Int64
	data := make([]byte, 60)
	row := int64(0)
	started := time.Now()
	var all sync.WaitGroup
	for i := range submitters {
		all.Go(func() {
			for revision := int64(0); taken.Add(1) <= int64(steps) && ctx.Err() == nil; revision++ {
				err := s.writer.do(&sqWrite{noSavepoint: true, run: func(w *sqWriter) error {
					update.BindBytes(1, data)
					update.BindInt64(2, int64(i+1))
					update.BindInt64(3, revision)
					if err := w.step(update); err != nil {
						return err
					}
					if conn.Changes() != 1 {
						return fmt.Errorf("raw run %d is not at revision %d", i, revision)
					}
					row++
					insert.BindInt64(1, row)
					insert.BindInt64(2, int64(i+1))
					insert.BindBytes(3, data)
					w.size += 60 + 16 + 60 + 16
					return w.step(insert)
				}})
				if err != nil {
					failed.Store(&err)
					return
				}
			}
		})
	}
	all.Wait()
	took := time.Since(started)
	s.writer.close()
	s.done.Wait()
	if err := failed.Load(); err != nil {
		return RawResult{}, *err
	}
	stats := s.stats.read()
	return RawResult{Steps: steps, Took: took, StepsPerSec: float64(steps) / took.Seconds(),
		SyncsPerStep: float64(stats.Syncs) / float64(steps), BytesPerWrite: float64(stats.Bytes) / float64(steps)}, ctx.Err()
}
