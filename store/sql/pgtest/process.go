package pgtest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Port is part of the socket's name. Only with Options.Listen is it an open TCP port.
const Port = 5432

const (
	port      = Port
	superuser = "pawl"
	timeout   = 30 * time.Second
	prefix    = "pawl-pg-"
	maxSocket = 107 // bytes in the path of a Unix socket
)

// serverDir is the directory of a server: its data, its socket and its log.
type serverDir struct {
	bin   string // directory of initdb and postgres
	path  string
	lock  *os.File            // held while this process lives; sweep removes directories whose lock is free
	runAs *syscall.Credential // user of the server when this process is root
}

// binaries finds the newest installed server.
func binaries() (string, error) {
	var dirs []string
	if out, err := exec.Command("pg_config", "--bindir").Output(); err == nil {
		dirs = append(dirs, strings.TrimSpace(string(out)))
	}
	versions, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	slices.SortFunc(versions, func(a, b string) int { return version(b) - version(a) })
	for _, dir := range append(versions, dirs...) {
		if _, err := os.Stat(filepath.Join(dir, "postgres")); err == nil {
			return dir, nil
		}
	}
	if path, err := exec.LookPath("postgres"); err == nil {
		return filepath.Dir(path), nil
	}
	return "", errors.New(Install)
}

func version(bin string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(bin)))
	return n
}

func newServerDir(bin string) (serverDir, error) {
	sweep()
	p := serverDir{bin: bin}
	var err error
	if p.runAs, err = unprivileged(); err != nil {
		return p, err
	}
	if p.path, err = os.MkdirTemp("", prefix); err != nil {
		return p, err
	}
	if socket := fmt.Sprintf("%s/.s.PGSQL.%d.lock", p.path, port); len(socket) > maxSocket {
		p.remove()
		return p, fmt.Errorf("%s is too long for a Unix socket: set TMPDIR to a shorter path", socket)
	}
	if p.lock, err = os.OpenFile(filepath.Join(p.path, "lock"), os.O_CREATE|os.O_RDWR, 0o600); err == nil {
		err = unix.Flock(int(p.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	if err == nil && p.runAs != nil {
		err = os.Chown(p.path, int(p.runAs.Uid), int(p.runAs.Gid))
	}
	if err == nil {
		cmd := p.command("initdb", "-D", p.data(), "-U", superuser, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err = cmd.Run(); err != nil {
			err = fmt.Errorf("initdb: %w: %s", err, bytes.TrimSpace(out.Bytes()))
		}
	}
	if err != nil {
		p.remove()
	}
	return p, err
}

// unprivileged returns the user for a server that root starts, because PostgreSQL
// refuses root; nil if this process is not root.
func unprivileged() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uerr := strconv.ParseUint(u.Uid, 10, 32)
		gid, gerr := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(uerr, gerr); err != nil {
			return nil, err
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, errors.New("there is neither a user postgres nor nobody: run the tests as another user than root")
}

// sweep removes the directories that killed test processes left.
func sweep() {
	dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), prefix+"*"))
	for _, dir := range dirs {
		f, err := os.Open(filepath.Join(dir, "lock"))
		if err != nil {
			continue
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			_ = os.RemoveAll(dir)
		}
		f.Close()
	}
}

func (p serverDir) data() string { return filepath.Join(p.path, "data") }

func (p serverDir) remove() {
	_ = os.RemoveAll(p.path)
	if p.lock != nil {
		p.lock.Close()
	}
}

func (p serverDir) log() string {
	text, _ := os.ReadFile(filepath.Join(p.path, "log"))
	return string(text)
}

func (p serverDir) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(p.bin, name), args...)
	cmd.Dir = p.path
	cmd.Env = []string{"PATH=" + p.bin + ":/usr/bin:/bin", "LC_ALL=C", "TZ=UTC"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.runAs, Setpgid: true}
	return cmd
}

func (p serverDir) start(o Options) (*process, error) {
	log, err := os.OpenFile(filepath.Join(p.path, "log"), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	fsync := "fsync=on"
	if o.NoSync {
		fsync = "fsync=off"
	}
	cmd := p.command("postgres", "-D", p.data(), "-k", p.path, "-p", strconv.Itoa(port), "-c", "listen_addresses="+o.Listen,
		"-c", fsync, "-c", "synchronous_commit=on", "-c", "max_connections=100", "-c", "shared_buffers=128MB",
		"-c", "max_wal_size=4GB", "-c", "log_min_messages=warning")
	if o.Listen != "" {
		rules, err := os.OpenFile(filepath.Join(p.data(), "pg_hba.conf"), os.O_APPEND|os.O_WRONLY, 0)
		if err == nil {
			_, err = rules.WriteString("host all all all trust\n")
			err = errors.Join(err, rules.Close())
		}
		if err != nil {
			return nil, err
		}
	}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr.Pdeathsig = syscall.SIGQUIT // an immediate shutdown, with its child processes
	return launch(cmd)
}

// process is a running server.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{}
	err   error // set when ended is closed
}

// launch starts the command on a thread that lives as long as the command: the system
// sends the death signal when the thread that started it ends, not when the process
// ends.
func launch(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, ended: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
			close(p.ended)
		}
	}()
	return p, <-started
}

// stop ends the server with a fast shutdown, and after a timeout with an immediate one.
func (p *process) stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGINT)
	select {
	case <-p.ended:
		return p.err
	case <-time.After(timeout):
		p.crash()
		return fmt.Errorf("it did not end for %s after SIGINT", timeout)
	}
}

// crash ends the server with an immediate shutdown, which writes nothing.
func (p *process) crash() {
	_ = p.cmd.Process.Signal(syscall.SIGQUIT)
	<-p.ended
}
