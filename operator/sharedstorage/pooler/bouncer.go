package pooler

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/transport"
	"github.com/pawl-dev/pawl/secretfile"
)

var (
	errNotExist   = fs.ErrNotExist
	errNotRunning = errors.New("pgbouncer does not run")
)

// bouncer is a pgbouncer process.
type bouncer struct {
	config  Config
	dir     string
	program string
	user    *syscall.Credential // nil: that of this process
	admin   string              // password of adminUser
	log     *slog.Logger
	output  *os.File
	started func() // called when a new process answers
	tls     *transport.Folder

	tlsLock    sync.Mutex
	taken      tlsSettings                 // the files that were last copied
	configured atomic.Pointer[tlsSettings] // nil: there is no configuration yet

	mu       sync.Mutex
	process  *os.Process   // nil: it does not run
	complete chan struct{} // closed when there is a configuration
	once     sync.Once
}

func newBouncer(dir string, c Config, log *slog.Logger) (*bouncer, error) {
	b := &bouncer{config: c, dir: dir, program: c.Program, log: log, output: os.Stderr, tls: transport.Open(transport.FolderOptions{Dir: c.TLSDir, Own: port.PoolerIdentity(c.Cluster), Memory: filepath.Join(dir, "required-from")}), complete: make(chan struct{})}
	if b.program == "" {
		program, err := exec.LookPath("pgbouncer")
		if err != nil {
			program, err = exec.LookPath("/usr/sbin/pgbouncer") // Debian's, which is not in the PATH of every user
		}
		if err != nil {
			return nil, port.PoolerFailed.Errorf("pgbouncer is not installed: %w", err)
		}
		b.program = program
	}
	var err error
	if b.user, err = postgres.Runner(c.User); err != nil {
		return nil, err
	}
	var key [24]byte
	_, _ = rand.Read(key[:]) // it never fails
	b.admin = hex.EncodeToString(key[:])
	return b, nil
}

// Configure implements backend. Only the user of pgbouncer can read the files: one has the password
// with which the verifiers of all other roles are read.
func (b *bouncer) Configure(ctx context.Context, s port.PoolerSettings, target string) error {
	password, err := secret(b.config.PasswordFile)
	if err != nil {
		return err
	}
	users, tls := filepath.Join(b.dir, "users.txt"), b.tlsNow()
	err = errors.Join(
		b.write(users, fmt.Sprintf("%q %q\n%q %q\n", superuser, password, adminUser, b.admin)),
		b.write(filepath.Join(b.dir, hbaFile), hba),
		b.write(filepath.Join(b.dir, "pgbouncer.ini"), configuration(b.config, s, target, users, tls)),
	)
	if err != nil {
		return err
	}
	b.once.Do(func() { close(b.complete) })
	if err := b.command(ctx, "RELOAD"); err != nil && !errors.Is(err, errNotRunning) {
		return err
	}
	if err := b.command(ctx, "RECONNECT"); err != nil && !errors.Is(err, errNotRunning) { // connections to the former writer
		return err
	}
	b.configured.Store(&tls)
	b.forget(tls)
	return nil
}

func (b *bouncer) write(path, text string) error {
	f, err := os.OpenFile(path+".part", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err == nil && b.user != nil {
		err = f.Chown(int(b.user.Uid), int(b.user.Gid))
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(path+".part", path)
}

func secret(file string) (string, error) {
	text, err := secretfile.ReadAnyMode(file)
	if err == nil && strings.TrimSpace(text) == "" {
		err = fmt.Errorf("%s is empty", file)
	}
	return strings.TrimSpace(text), err
}

// restartEvery is the pause before a pgbouncer that has ended is started again.
const restartEvery = 500 * time.Millisecond

// run keeps pgbouncer running until the context ends.
func (b *bouncer) run(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-b.complete:
	}
	for ctx.Err() == nil {
		err := b.serve(ctx)
		if ctx.Err() != nil {
			return
		}
		b.log.Warn("pgbouncer has ended, and is started again", "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(restartEvery):
		}
	}
}

// serve runs one process. The kernel ends the process together with the thread that has started it, and so
// with a supervisor that is killed.
func (b *bouncer) serve(ctx context.Context) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.Command(b.program, filepath.Join(b.dir, "pgbouncer.ini"))
	cmd.Dir, cmd.Stdout, cmd.Stderr = b.dir, b.output, b.output
	cmd.SysProcAttr = dying(b.user)
	if err := cmd.Start(); err != nil {
		return err
	}
	b.mu.Lock()
	b.process = cmd.Process
	b.mu.Unlock()
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	defer func() {
		b.mu.Lock()
		b.process = nil
		b.mu.Unlock()
	}()
	every := time.NewTicker(20 * time.Millisecond)
	defer every.Stop()
	for tell := b.started; ; {
		select {
		case err := <-done:
			return err
		case <-ctx.Done():
			_ = cmd.Process.Signal(syscall.SIGTERM) // at once: its clients connect to another pooler, or wait for this one
			return <-done
		case <-every.C:
			if tell != nil && b.command(ctx, "SHOW VERSION") == nil {
				go tell()
				tell = nil
				every.Stop()
			}
		}
	}
}

func (b *bouncer) running() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.process != nil
}

func (b *bouncer) address() string {
	return net.JoinHostPort(b.config.Host, strconv.Itoa(int(b.config.Port)))
}

// Pause implements backend. PgBouncer answers PAUSE when all connections to servers are closed.
func (b *bouncer) Pause(ctx context.Context) error { return b.command(ctx, "PAUSE") }

// Resume implements backend.
func (b *bouncer) Resume(ctx context.Context) error {
	err := b.command(ctx, "RESUME")
	var told *pgconn.PgError
	if errors.As(err, &told) && strings.Contains(told.Message, "not paused") {
		return nil
	}
	return err
}

// Writes implements backend.
func (b *bouncer) Writes(ctx context.Context, target string) error {
	password, err := secret(b.config.PasswordFile)
	if err != nil {
		return err
	}
	rows, err := query(ctx, target, b.tlsNow().connection(), superuser, password, superuser, "SELECT pg_is_in_recovery()")
	if err == nil && (len(rows) != 1 || rows[0]["pg_is_in_recovery"] != "f") {
		err = fmt.Errorf("%s does not accept writes", target)
	}
	return err
}

func (b *bouncer) command(ctx context.Context, text string) error {
	_, err := b.show(ctx, text)
	return err
}

// show sends one command to the console of pgbouncer.
func (b *bouncer) show(ctx context.Context, text string) ([]map[string]string, error) {
	if !b.running() {
		return nil, errNotRunning
	}
	return query(ctx, b.address(), "sslmode=prefer", adminUser, b.admin, adminDatabase, text)
}

// query sends one text in the simple protocol, which is all that the console of pgbouncer takes.
func query(ctx context.Context, address, tls, user, password, database, text string) ([]map[string]string, error) {
	host, number, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	c, err := pgconn.ParseConfig(tls + " connect_timeout=5 host=" + host + " port=" + number + " user=" + user + " dbname=" + database)
	if err != nil {
		return nil, err
	}
	c.Password = password
	conn, err := pgconn.ConnectConfig(ctx, c)
	if err != nil {
		return nil, err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(closing) // the result is there
	}()
	results, err := conn.Exec(ctx, text).ReadAll()
	if err != nil {
		return nil, err
	}
	var rows []map[string]string
	for _, r := range results {
		for _, values := range r.Rows {
			row := map[string]string{}
			for i, f := range r.FieldDescriptions {
				row[f.Name] = string(values[i])
			}
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// counts are the connections of a pgbouncer.
type counts struct{ Clients, Waiting, Servers int }

func (b *bouncer) counts(ctx context.Context) (n counts, err error) {
	rows, err := b.show(ctx, "SHOW POOLS")
	for _, r := range rows {
		if r["database"] == adminDatabase {
			continue
		}
		number := func(names ...string) (sum int) {
			for _, name := range names {
				one, _ := strconv.Atoi(r[name]) // a column that a version does not have counts as 0
				sum += one
			}
			return sum
		}
		n.Clients += number("cl_active", "cl_waiting")
		n.Waiting += number("cl_waiting")
		n.Servers += number("sv_active", "sv_idle", "sv_used", "sv_tested", "sv_login")
	}
	return n, err
}
