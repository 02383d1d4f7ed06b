package main

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/store/sql/pgtest"
)

// postgres is a temporary server with full durability on a Unix socket.
type postgres struct {
	server  *pgtest.Server
	version string
}

// pgtestError is a message of pgtest as an error.
type pgtestError string

func (r pgtestError) Error() string { return string(r) }

// pgtestHost lets pgtest, which is written for tests, run outside of a test.
type pgtestHost struct {
	testing.TB // never called: pgtest uses only the methods below
	cleanups   []func()
}

func (*pgtestHost) Helper()                        {}
func (*pgtestHost) Fatal(args ...any)              { panic(pgtestError(fmt.Sprint(args...))) }
func (*pgtestHost) Fatalf(format string, a ...any) { panic(pgtestError(fmt.Sprintf(format, a...))) }
func (*pgtestHost) Errorf(format string, a ...any) { panic(pgtestError(fmt.Sprintf(format, a...))) }
func (*pgtestHost) Skip(args ...any)               { panic(pgtestError(fmt.Sprint(args...))) }
func (h *pgtestHost) Cleanup(f func())             { h.cleanups = append(h.cleanups, f) }

func (h *pgtestHost) clean() {
	for len(h.cleanups) > 0 {
		last := len(h.cleanups) - 1
		f := h.cleanups[last]
		h.cleanups = h.cleanups[:last]
		f()
	}
}

// guard converts a panic of pgtest into an error.
func guard(do func()) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case pgtestError:
			err = r
		default:
			panic(r)
		}
	}()
	do()
	return nil
}

func startPostgres(ctx context.Context) (*postgres, error) {
	p := &postgres{}
	if err := guard(func() { p.server = pgtest.Start(&pgtestHost{}, pgtest.Options{}) }); err != nil {
		return nil, err
	}
	conn, err := pgx.Connect(ctx, p.server.DSN("postgres"))
	if err != nil {
		return p, err
	}
	defer conn.Close(ctx)
	return p, conn.QueryRow(ctx, "SHOW server_version").Scan(&p.version)
}

// database creates an empty database; drop removes it.
func (p *postgres) database() (dsn string, drop func() error, err error) {
	h := &pgtestHost{}
	err = guard(func() { dsn = p.server.Database(h) })
	return dsn, func() error { return guard(h.clean) }, err
}

func stopPostgres() error { return pgtest.Stop() }
