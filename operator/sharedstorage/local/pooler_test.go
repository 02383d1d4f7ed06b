package local

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

func needsPooler(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("pgbouncer"); err != nil {
		if _, err := exec.LookPath("/usr/sbin/pgbouncer"); err != nil {
			t.Skip("PgBouncer is not installed: apt-get install pgbouncer")
		}
	}
}

// pooledClients write through a pooler without pause; an error is told, not repeated.
type pooledClients struct {
	cancel context.CancelFunc
	all    sync.WaitGroup

	mu      sync.Mutex
	errors  []error
	count   int
	longest time.Duration
}

func (b *fixture) pool(mode string) port.PoolerStatus {
	b.t.Helper()
	want := port.PoolerSpec{Instances: 1, Writer: b.writer, Settings: port.PoolerSettings{Mode: mode}}
	var st port.PoolerStatus
	eventually(b.t, 20*time.Second, "a pooler", func() error {
		if err := b.ports.Pooler.Ensure(b.ctx(), c1, want); err != nil {
			return err
		}
		all, err := b.ports.Pooler.Observe(b.ctx(), c1)
		if err != nil || len(all) != 1 || !all[0].Ready {
			return fmt.Errorf("%+v %w", all, err)
		}
		st = all[0]
		return nil
	})
	b.t.Cleanup(func() {
		if err := b.ports.Pooler.Ensure(context.Background(), c1, port.PoolerSpec{}); err != nil {
			b.t.Error(err)
		}
	})
	return st
}

func (b *fixture) throughPooler(at port.PoolerStatus) (*pgx.Conn, error) {
	password, err := b.Password(c1)
	if err != nil {
		return nil, err
	}
	config, err := pgx.ParseConfig(fmt.Sprintf("postgres://postgres@%s/postgres?sslmode=disable&connect_timeout=10", join(at.Address, at.Port)))
	if err != nil {
		return nil, err
	}
	config.Password, config.DefaultQueryExecMode = password, pgx.QueryExecModeExec
	return pgx.ConnectConfig(b.t.Context(), config)
}

func (b *fixture) writePooled(at port.PoolerStatus, clients int) *pooledClients {
	b.t.Helper()
	b.exec(b.writer, "CREATE TABLE IF NOT EXISTS pooled (client int, n int, PRIMARY KEY (client, n))")
	ctx, cancel := context.WithCancel(b.t.Context())
	w := &pooledClients{cancel: cancel}
	b.t.Cleanup(w.stop)
	for client := range clients {
		c, err := b.throughPooler(at)
		b.must(err)
		w.all.Go(func() {
			defer func() { _ = c.Close(context.Background()) }()
			for n := 0; ctx.Err() == nil; n++ {
				began := time.Now()
				_, err := c.Exec(context.WithoutCancel(ctx), "INSERT INTO pooled VALUES ($1, $2)", client, n)
				w.mu.Lock()
				if w.longest = max(w.longest, time.Since(began)); err != nil {
					w.errors = append(w.errors, err)
				} else {
					w.count++
				}
				w.mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	return w
}

func (w *pooledClients) stop() { w.cancel(); w.all.Wait() }

func (w *pooledClients) seen() (count int, longest time.Duration, errs []error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.count, w.longest, w.errors
}

// Clients of a pooler see a delay and no error while the writer is switched, and each answered row is
// there afterwards.
func TestAPooledSwitch(t *testing.T) {
	needsPooler(t)
	b := newFixture(t, Options{})
	b.create("a", "b", "c")
	at := b.pool("transaction")
	w := b.writePooled(at, 4)
	more := func() {
		from, _, _ := w.seen()
		eventually(t, 20*time.Second, "more rows", func() error {
			if n, _, errs := w.seen(); n < from+100 && len(errs) == 0 {
				return fmt.Errorf("%d rows", n)
			}
			return nil
		})
	}
	more()
	for round := range rounds(3) {
		to, other := "b", "c"
		if round%2 == 1 {
			to = "a"
		}
		b.must(b.ports.Pooler.Pause(b.ctx(), c1, 3*time.Second, 30*time.Second))
		b.pooledSwitchTo(to, other)
		more()
	}
	w.stop()
	count, longest, errs := w.seen()
	if len(errs) > 0 {
		t.Errorf("%d clients met errors: %v", len(errs), errs[0])
	}
	if longest > 5*time.Second { // a pause ends by itself after 30; how short it is, bench/README.md says
		t.Errorf("a statement took %s", longest)
	}
	var have int
	c, err := b.throughPooler(at)
	b.must(err)
	defer c.Close(t.Context())
	b.must(c.QueryRow(t.Context(), "SELECT count(*) FROM pooled").Scan(&have))
	if have != count {
		t.Errorf("%d rows were answered, and there are %d", count, have)
	}
	t.Logf("%d rows, no error, longest delay %s", count, longest.Round(time.Millisecond))
}

// pooledSwitchTo is switchTo that resumes the poolers as soon as the candidate is promoted.
func (b *fixture) pooledSwitchTo(name string, others ...string) {
	b.t.Helper()
	old, e := b.writer, b.ports.Engine
	b.must(e.Stop(b.ctx(), c1.Of(old), port.Fast))
	end := b.until(old, "is stopped", func(s port.Status) bool { return !s.Running })
	b.until(name, "has everything", func(s port.Status) bool { return s.Position >= end.Position })
	b.epoch++
	b.must(b.ports.Storage.Grant(b.ctx(), c1, name, b.epoch))
	b.must(e.Promote(b.ctx(), c1.Of(name), b.epoch))
	b.must(b.ports.Pooler.Resume(b.ctx(), c1, name))
	b.writer = name
	for _, other := range append(others, old) {
		b.must(e.Follow(b.ctx(), c1.Of(other), name))
	}
	for _, other := range append(others, old) {
		b.until(other, "follows", func(s port.Status) bool { return s.Streaming && s.Upstream == name })
	}
}

// An operator that is killed between pause and resume leaves no pooler paused: the pause ends by
// itself. A killed supervisor takes pgbouncer with it, and both come back with the settings they had.
func TestAPoolerComesBack(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test-long runs it")
	}
	needsPooler(t)
	b := newFixture(t, Options{})
	b.create("a")
	at := b.pool("transaction")
	b.must(b.ports.Pooler.Pause(b.ctx(), c1, time.Second, 300*time.Millisecond))
	c, err := b.throughPooler(at)
	b.must(err)
	if _, err := c.Exec(t.Context(), "SELECT 1"); err != nil {
		t.Errorf("after a pause that nobody ends: %v", err)
	}
	_ = c.Close(t.Context())

	all, err := poolers{b.Placement}.load(c1)
	b.must(err)
	b.must(all[0].Process.Signal(syscall.SIGKILL))
	eventually(t, 5*time.Second, "pgbouncer ends with its supervisor", func() error {
		return free(at.Address, at.Port)
	})
	b.pool("transaction")
	c, err = b.throughPooler(at)
	b.must(err)
	b.must(c.Close(t.Context()))
	if info, err := os.Stat(b.folder(c1, "pooler", "c1-pooler-1", "users.txt")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("users.txt: %v %v", info.Mode(), err)
	}
}

// A role that is created later logs in through the pooler with its own password, and not with another.
func TestAPoolerKnowsTheRolesOfTheCluster(t *testing.T) {
	needsPooler(t)
	b := newFixture(t, Options{})
	b.create("a")
	at := b.pool(port.SessionPooling)
	b.exec("a", "CREATE ROLE app LOGIN PASSWORD 'of-the-app'")
	for password, lets := range map[string]bool{"of-the-app": true, "another": false} {
		c, err := pgx.Connect(t.Context(), fmt.Sprintf("postgres://app:%s@%s/postgres?sslmode=disable", password, join(at.Address, at.Port)))
		if (err == nil) != lets {
			t.Errorf("with %q: %v", password, err)
		}
		if err == nil {
			var who string
			b.must(c.QueryRow(t.Context(), "SELECT current_user").Scan(&who))
			if who != "app" {
				t.Errorf("it is %s", who)
			}
			b.must(c.Close(t.Context()))
		}
	}
	if err := b.ports.Pooler.Ensure(b.ctx(), c1, port.PoolerSpec{Instances: 1, Settings: port.PoolerSettings{Parameters: map[string]string{"auth_type": "any"}}}); err == nil {
		t.Error("auth_type can be set")
	}
}
