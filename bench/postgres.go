package main

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/store/sqlstore/pgtest"
)

// postgres is a temporary server: full durability, a Unix socket, gone at the end.
type postgres struct {
	server  *pgtest.Server
	version string
}

// refused is what pgtest has to say, as an error.
type pgtestError string

func (r pgtestError) Error() string { return string(r) }

// host lets pgtest, which is written for tests, work outside of one.
type pgtestHost struct {
	testing.TB // never called: the methods below are all that pgtest uses
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

// guard turns what pgtest panics with into an error.
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

// database makes an empty one; drop removes it.
func (p *postgres) database() (dsn string, drop func() error, err error) {
	h := &pgtestHost{}
	err = guard(func() { dsn = p.server.Database(h) })
	return dsn, func() error { return guard(h.clean) }, err
}

func stopPostgres() error { return pgtest.Stop() }
