package measure

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pawl-dev/pawl/store/sql"
	"github.com/pawl-dev/pawl/store/sql/raw"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Backend is a store to measure, with what belongs to it.
type Backend struct {
	Name     string
	Store    runstore.Store
	Counters func() Counters
	Raw      func(ctx context.Context, submitters, steps int) (float64, error) // steps a second; nil: none
	Close    func() error
	Path     string // of a SQLite file
}

// OpenBackend opens memory, sqlite or postgres. Without a DSN SQLite gets a new
// file in dir, which Close removes.
func OpenBackend(ctx context.Context, name, dsn, dir string) (*Backend, error) {
	switch name {
	case "memory":
		return &Backend{Name: name, Store: runstore.NewMemory(), Close: func() error { return nil }}, nil
	case "sqlite":
		return openSQLite(ctx, dsn, dir)
	case "postgres":
		if dsn == "" {
			return nil, runtype.InputInvalid.Errorf("the postgres store needs --dsn postgres://…, an empty database")
		}
		s, err := sql.Open(ctx, sql.Options{DSN: dsn})
		if err != nil {
			return nil, err
		}
		return &Backend{Name: name, Store: s, Counters: counters(s), Close: s.Close, Raw: func(ctx context.Context, submitters, steps int) (float64, error) {
			r, err := raw.Postgres(ctx, dsn, submitters, steps)
			return r.StepsPerSec, err
		}}, nil
	}
	return nil, runtype.InputInvalid.Errorf("--store %q is none of memory, sqlite, postgres", name)
}

func openSQLite(ctx context.Context, path, dir string) (*Backend, error) {
	clean := func() error { return nil }
	if path == "" {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
		folder, err := os.MkdirTemp(dir, "bench-")
		if err != nil {
			return nil, err
		}
		path = filepath.Join(folder, "bench.db")
		clean = func() error { return os.RemoveAll(folder) }
	}
	s, err := sql.Open(ctx, sql.Options{Path: path})
	if err != nil {
		return nil, err
	}
	if !s.IsOwner() {
		s.Close()
		return nil, runtype.InputInvalid.Errorf("%s is in use by another process: measure on a file of its own", path)
	}
	return &Backend{
		Name: "sqlite", Store: s, Path: path, Counters: counters(s),
		Close: func() error {
			if err := s.Close(); err != nil {
				return err
			}
			return clean()
		},
		Raw: func(ctx context.Context, submitters, steps int) (float64, error) {
			r, err := raw.SQLite(ctx, filepath.Dir(path), submitters, steps)
			return r.StepsPerSec, err
		},
	}, nil
}

func counters(s sql.Store) func() Counters {
	return func() Counters {
		st := s.Stats()
		return Counters{Writes: st.Writes, Syncs: st.Syncs, Bytes: st.Bytes, WALBytes: st.WALBytes, Statements: st.Statements}
	}
}

// One opens the backend, measures once, and closes it.
func One(ctx context.Context, name, dsn, dir string, raw bool, o Options) (r Result, err error) {
	m, err := OpenBackend(ctx, name, dsn, dir)
	if err != nil {
		return Result{}, err
	}
	defer func() {
		if e := m.Close(); err == nil {
			err = e
		}
	}()
	var rawRate float64
	if raw && m.Raw != nil {
		if rawRate, err = m.Raw(ctx, o.Concurrency, max(o.Runs*o.Steps, 1000)); err != nil {
			return Result{}, fmt.Errorf("the raw loop: %w", err)
		}
	}
	b, err := Open(m.Store, o, m.Counters)
	if err != nil {
		return Result{}, err
	}
	r, err = b.Run(ctx, name, o)
	if e := b.Close(); err == nil {
		err = e
	}
	if rawRate > 0 {
		r.RawStepsPerSecond, r.RatioToRaw = rawRate, r.StepsPerSecond/rawRate
	}
	return r, err
}
