// Package pgtest runs a real PostgreSQL server for tests.
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(pgtest.Main(m)) }
//
//	func TestStore(t *testing.T) {
//		dsn := pgtest.Start(t, pgtest.Options{}).Database(t) // new, dropped with the test
//	}
//
// It uses the installed binaries (apt-get install postgresql). One server per
// Options serves the whole test process. The server listens on a Unix socket in a
// temporary directory, flushes every commit to disk, and ends with the process,
// even after a crash. Only tests import this package.
package pgtest

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Skip is an environment variable. If it is 1 and the PostgreSQL binaries are missing,
// tests that need them are skipped.
const Skip = "PAWL_TEST_NO_POSTGRES"

// Install is the message of a test when the binaries are missing.
const Install = "no PostgreSQL server binaries: apt-get install postgresql, or set " + Skip + "=1 to skip these tests"

// Options of a server. The zero value gives full durability.
type Options struct {
	NoSync bool   // fsync=off: faster, for tests that neither measure nor crash the server
	Listen string // an address of this machine on which the server also listens, on Port, without authentication; for the private network of a test
}

// Server is a running PostgreSQL.
type Server struct {
	options Options
	dir     serverDir
	process *process
}

var shared = struct {
	sync.Mutex
	servers map[Options]*Server
}{servers: map[Options]*Server{}}

var databases atomic.Int64

// Start returns the server of this test process. The first call starts it. Stop ends it;
// Main calls Stop.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if s := shared.servers[o]; s != nil {
		return s
	}
	s := startServer(t, o)
	shared.servers[o] = s
	return s
}

// New starts a separate server, for tests that crash it. It ends with the test.
func New(t testing.TB, o Options) *Server {
	t.Helper()
	s := startServer(t, o)
	t.Cleanup(func() {
		if err := s.end(); err != nil {
			t.Errorf("end of PostgreSQL: %v", err)
		}
	})
	return s
}

func startServer(t testing.TB, o Options) *Server {
	t.Helper()
	bin, err := binaries()
	if err != nil {
		if os.Getenv(Skip) == "1" {
			t.Skip(Install)
		}
		t.Fatal(Install)
	}
	s := &Server{options: o}
	if s.dir, err = newServerDir(bin); err != nil {
		t.Fatalf("a directory for PostgreSQL: %v", err)
	}
	if err := s.run(); err != nil {
		s.dir.remove()
		t.Fatalf("PostgreSQL does not start: %v", err)
	}
	return s
}

// Stop ends the servers that Start started.
func Stop() error {
	shared.Lock()
	defer shared.Unlock()
	var first error
	for o, s := range shared.servers {
		if err := s.end(); err != nil && first == nil {
			first = err
		}
		delete(shared.servers, o)
	}
	return first
}

// Main wraps m for TestMain: it ends the servers after the last test. It fits
// goleak.VerifyTestMain.
func Main(m interface{ Run() int }) interface{ Run() int } { return runner{m} }

type runner struct{ m interface{ Run() int } }

func (r runner) Run() int {
	code := r.m.Run()
	if err := Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "pgtest: end of PostgreSQL:", err)
		return max(code, 1)
	}
	return code
}

// Database creates an empty database and returns its DSN. The end of the test drops it,
// even if connections are open.
func (s *Server) Database(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("test%d", databases.Add(1))
	s.exec(t, "CREATE DATABASE "+name)
	t.Cleanup(func() { s.exec(t, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)") })
	return s.DSN(name)
}

// DSN returns the DSN of a database of the server; "postgres" always exists.
func (s *Server) DSN(database string) string {
	return fmt.Sprintf("host=%s port=%d user=%s dbname=%s sslmode=disable", s.dir.path, port, superuser, database)
}

// Terminate ends all connections to the database of a DSN, whatever they are doing, and
// returns their number.
func (s *Server) Terminate(t testing.TB, dsn string) int {
	t.Helper()
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	var n int
	s.session(t, func(ctx context.Context, c *pgx.Conn) error {
		return c.QueryRow(ctx, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = $1", config.Database).Scan(&n)
	})
	return n
}

// Crash kills the server, which writes nothing more, and starts it again. Use it with
// New.
func (s *Server) Crash(t testing.TB) {
	t.Helper()
	s.process.crash()
	if err := s.run(); err != nil {
		t.Fatalf("PostgreSQL does not start after a crash: %v", err)
	}
}

func (s *Server) exec(t testing.TB, sql string) {
	t.Helper()
	s.session(t, func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, sql)
		return err
	})
}

func (s *Server) session(t testing.TB, do func(context.Context, *pgx.Conn) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), timeout) // t's own context has ended in a Cleanup
	defer cancel()
	c, err := pgx.Connect(ctx, s.DSN("postgres"))
	if err != nil {
		t.Fatalf("connect to PostgreSQL: %v\n%s", err, s.dir.log())
	}
	defer c.Close(ctx)
	if err := do(ctx, c); err != nil {
		t.Fatalf("PostgreSQL: %v", err)
	}
}

func (s *Server) run() error {
	p, err := s.dir.start(s.options)
	if err != nil {
		return err
	}
	s.process = p
	deadline := time.After(timeout)
	for {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		c, err := pgx.Connect(ctx, s.DSN("postgres"))
		if err == nil {
			c.Close(ctx)
		}
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-p.ended:
			return fmt.Errorf("it ended: %s", strings.TrimSpace(s.dir.log()))
		case <-deadline:
			p.crash()
			return fmt.Errorf("it does not answer for %s: %w", timeout, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (s *Server) end() error {
	err := s.process.stop()
	s.dir.remove()
	return err
}
