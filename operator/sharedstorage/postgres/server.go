package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/enginelog"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/host"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/transport"
)

// server is the data directory of an instance and the programs that work on it.
type server struct {
	dir string
	cfg Config
	as  *syscall.Credential
	log *slog.Logger

	using sync.Mutex
	shown string // the password for connections to other engines
	size  int64  // of the volume, as last used

	certificate *certificate
	tls         *transport.Folder

	children sync.WaitGroup
}

// Folders and files of an instance.
const (
	dataName   = "data"
	newName    = "data.new" // while it is created
	oldName    = "data.old" // while it is replaced
	confName   = "conf"     // files that the engine's user can read
	runName    = "run"      // the socket
	recordName = "record.json"
	agentName  = "agent.json" // the process of the agent

	requiredName = "required-from" // transport.FolderOptions.Memory
	agentLock    = "agent.lock"
	errorTail    = 1500 // bytes of a log in a message
)

func newServer(dir string, cfg Config) (*server, error) {
	as, err := Runner(cfg.User)
	if err != nil {
		return nil, err
	}
	if err := Reachable(dir, as); err != nil {
		return nil, err
	}
	s := &server{dir: dir, cfg: cfg, as: as, log: slog.New(slog.DiscardHandler)}
	s.certificate, s.tls = &certificate{srv: s}, transport.Open(transport.FolderOptions{Dir: cfg.TLSDir, Own: port.InstanceIdentity(cfg.Cluster), Memory: filepath.Join(dir, requiredName)})
	for _, folder := range []string{confName, runName} {
		if err := s.mkdir(s.path(folder)); err != nil {
			return nil, host.Trouble(err)
		}
	}
	password, err := secret(cfg.PasswordFile)
	if err != nil {
		return nil, port.StorageFailed.Errorf("the password of the cluster: %w", err)
	}
	if err := s.usePassword(password); err != nil {
		return nil, err
	}
	return s, host.Trouble(s.writeHBA())
}

// writeHBA writes who may log in, and how.
func (s *server) writeHBA() error {
	return s.write(s.path(confName, "pg_hba.conf"), s.certificate.hba())
}

// usePassword sets the password that the programs of PostgreSQL, and an engine that follows, use
// for other engines.
func (s *server) usePassword(password string) error {
	s.using.Lock()
	defer s.using.Unlock()
	if s.shown == password {
		return nil
	}
	escaped := strings.NewReplacer(`\`, `\\`, `:`, `\:`).Replace(password)
	for name, text := range map[string]string{"pgpass": "*:*:*:*:" + escaped + "\n", "password": password + "\n"} {
		if err := s.write(s.path(confName, name), text); err != nil {
			return host.Trouble(err)
		}
	}
	s.shown = password
	return nil
}

// volumeSize returns the size of the volume in bytes; 0: unknown. It changes only by a tenth and more,
// because some file systems report another size with each file.
func (s *server) volumeSize() int64 {
	s.using.Lock()
	defer s.using.Unlock()
	var stat unix.Statfs_t
	if unix.Statfs(s.dir, &stat) == nil {
		if now := int64(stat.Blocks) * int64(stat.Bsize); max(now-s.size, s.size-now) > s.size/10 { //nolint:gosec,unconvert // no volume has that many blocks; a uint32 on macOS
			s.size = now
		}
	}
	return s.size
}

// volumeFree returns how much of the volume is free, in bytes; 0: unknown.
func (s *server) volumeFree() int64 {
	var stat unix.Statfs_t
	if unix.Statfs(s.dir, &stat) != nil {
		return 0
	}
	return int64(stat.Bavail) * int64(stat.Bsize) //nolint:gosec,unconvert // no volume has that many blocks; a uint32 on macOS
}

// password returns the password for other engines.
func (s *server) password() string {
	s.using.Lock()
	defer s.using.Unlock()
	return s.shown
}

func (s *server) path(names ...string) string {
	return filepath.Join(append([]string{s.dir}, names...)...)
}

func (s *server) data() string { return s.path(dataName) }

func (s *server) mkdir(path string) error {
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return s.chown(path)
}

// chown makes the engine's user the owner.
func (s *server) chown(path string) error {
	if s.as == nil {
		return nil
	}
	return os.Lchown(path, int(s.as.Uid), int(s.as.Gid))
}

// write replaces a file that the engine reads.
func (s *server) write(path, text string) error {
	if err := host.WriteFile(path, []byte(text)); err != nil {
		return err
	}
	return s.chown(path)
}

// command returns a program of PostgreSQL, or of this path, that ends with the context.
func (s *server) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	if !filepath.IsAbs(name) {
		name = filepath.Join(s.cfg.Binaries, name)
	}
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = s.path(runName)
	cmd.Env = []string{"PATH=" + s.cfg.Binaries + ":/usr/bin:/bin", "LC_ALL=C", "TZ=UTC", "PGPASSFILE=" + s.path(confName, "pgpass"), "HOME=" + s.path(runName), "PGCONNECT_TIMEOUT=5"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.as, Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// output runs a program to its end. An error has the last lines of its output.
func (s *server) output(ctx context.Context, name string, args ...string) (string, error) {
	var out, words bytes.Buffer
	cmd := s.command(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = &out, &words
	if err := cmd.Run(); err != nil {
		said := strings.TrimSpace(words.String())
		if said == "" {
			said = strings.TrimSpace(out.String())
		}
		if len(said) > errorTail {
			said = "…" + said[len(said)-errorTail:]
		}
		return out.String(), fmt.Errorf("%s: %w: %s", name, err, said)
	}
	return out.String(), nil
}

// installed reports whether there are complete data.
func (s *server) installed() bool {
	_, err := os.Stat(filepath.Join(s.data(), "PG_VERSION"))
	return err == nil
}

// control reads the control data. They are current only if the engine does not run.
func (s *server) control(ctx context.Context) (controlData, error) {
	out, err := s.output(ctx, "pg_controldata", "-D", s.data())
	if err != nil {
		return controlData{}, err
	}
	return parseControl(out)
}

// initialize creates an empty database.
func (s *server) initialize(ctx context.Context) error {
	if err := os.RemoveAll(s.path(newName)); err != nil {
		return err
	}
	if err := s.mkdir(s.path(newName)); err != nil {
		return err
	}
	if _, err := s.output(ctx, "initdb", "-D", s.path(newName), "-U", superuser, "--pwfile", s.path(confName, "password"),
		"-A", "scram-sha-256", "-E", "UTF8", "--locale=C", "--data-checksums"); err != nil {
		return err
	}
	return s.place()
}

// place moves complete data to where the engine expects them.
func (s *server) place() error {
	if s.installed() {
		if err := os.RemoveAll(s.path(oldName)); err != nil {
			return err
		}
		if err := os.Rename(s.data(), s.path(oldName)); err != nil {
			return err
		}
	}
	if err := os.Rename(s.path(newName), s.data()); err != nil {
		return err
	}
	if err := host.SyncDir(s.dir); err != nil {
		return err
	}
	return os.RemoveAll(s.path(oldName))
}

// replaced completes a place that was interrupted between its renames.
func (s *server) replaced() error {
	if _, err := os.Stat(s.path(oldName)); err != nil || s.installed() {
		return nil //nolint:nilerr // nothing was being replaced
	}
	return s.place()
}

// take moves the data of a volume here. It copies if a rename is not possible.
func (s *server) take(ctx context.Context, seed string) error {
	if err := os.RemoveAll(s.path(newName)); err != nil {
		return err
	}
	err := os.Rename(seed, s.path(newName))
	if errors.Is(err, syscall.EXDEV) {
		if err := s.mkdir(s.path(newName)); err != nil {
			return err
		}
		cmd := exec.CommandContext(ctx, "cp", "-a", "--", seed+"/.", s.path(newName))
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("copying %s: %w: %s", seed, err, bytes.TrimSpace(out))
		}
		err = nil
	}
	if err != nil {
		return err
	}
	for _, name := range []string{"postmaster.pid", "standby.signal", "recovery.signal"} {
		if err := os.Remove(s.path(newName, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return s.place()
}

// backup copies the data of a running engine. The slot keeps the log since the begin of the copy
// there.
func (s *server) backup(ctx context.Context, from Upstream) error {
	if err := os.RemoveAll(s.path(newName)); err != nil {
		return err
	}
	if err := s.mkdir(s.path(newName)); err != nil {
		return err
	}
	if _, err := s.output(ctx, "pg_basebackup", "-D", s.path(newName), "-d", from.conninfo(s.cfg.Cluster.Instance+".copy", s.path(confName, "pgpass"), s.certificate.trust()),
		"-X", "stream", "-S", slotName(s.cfg.Cluster.Instance), "-c", "fast", "--no-password"); err != nil {
		return err
	}
	if err := s.write(s.path(newName, "standby.signal"), ""); err != nil {
		return err
	}
	return s.place()
}

// rewind removes what the source does not have. The engine must not run.
func (s *server) rewind(ctx context.Context, source Upstream) error {
	_, err := s.output(ctx, "pg_rewind", "-D", s.data(), "--source-server", source.conninfo(s.cfg.Cluster.Instance+".rewind", s.path(confName, "pgpass"), s.certificate.trust())+" dbname=postgres")
	return err
}

// checkValues lets PostgreSQL check a configuration.
func (s *server) checkValues(ctx context.Context, text string) error {
	file := s.path(confName, "check.conf")
	if err := s.write(file, text); err != nil {
		return host.Trouble(err)
	}
	defer os.Remove(file)
	_, err := s.output(ctx, "postgres", "-D", s.data(), "-c", "config_file="+file, "-C", "port")
	return err
}

// standby reports whether the next start is as a follower.
func (s *server) standby() bool {
	_, err := os.Stat(s.path(dataName, "standby.signal"))
	return err == nil
}

func (s *server) setStandby(on bool) error {
	file := s.path(dataName, "standby.signal")
	if on {
		return s.write(file, "")
	}
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return host.SyncDir(s.data())
}

// start starts postgres in a session of its own, so that it outlives the agent.
func (s *server) start() (host.Process, error) {
	if err := s.write(s.path(dataName, "postgresql.auto.conf"), "# Parameters are set in the spec of the cluster.\n"); err != nil {
		return host.Process{}, host.Trouble(err)
	}
	if info, err := os.Stat(s.path(enginelog.FileName)); err == nil && info.Size() > enginelog.Limit {
		_ = os.Rename(s.path(enginelog.FileName), s.path(enginelog.FileName+".1")) // the old log is only a convenience
	}
	log, err := os.OpenFile(s.path(enginelog.FileName), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return host.Process{}, host.Trouble(err)
	}
	defer log.Close()
	cmd := exec.Command(filepath.Join(s.cfg.Binaries, "postgres"), "-D", s.data(),
		"-c", "config_file="+s.path(confName, "postgresql.conf"), "-c", "hba_file="+s.path(confName, "pg_hba.conf"))
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.path(runName), log, log
	cmd.Env = []string{"PATH=" + s.cfg.Binaries + ":/usr/bin:/bin", "LC_ALL=C", "TZ=UTC", "HOME=" + s.path(runName)}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.as, Setsid: true}
	if err := cmd.Start(); err != nil {
		return host.Process{}, err
	}
	p := host.ProcessOf(cmd.Process.Pid)
	s.children.Go(func() { _ = cmd.Wait() }) // callers notice its end by other means: a restarted agent has no child
	return p, nil
}

// find finds the engine by its pid file: the process with this start time that has this data
// directory in its command line.
func (s *server) find() host.Process { return s.findIn(s.data()) }

func (s *server) findIn(data string) host.Process {
	text, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	if err != nil {
		return host.Process{}
	}
	line, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || pid <= 1 {
		return host.Process{}
	}
	if p := host.ProcessOf(pid); p.Running() && p.Runs(data) {
		return p
	}
	return host.Process{}
}

// tail returns the end of the engine's log from an offset on.
func (s *server) tail(from int64) string {
	f, err := os.Open(s.path(enginelog.FileName))
	if err != nil {
		return ""
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	if from > info.Size() {
		from = 0
	}
	from = max(from, info.Size()-errorTail)
	text := make([]byte, info.Size()-from)
	n, _ := f.ReadAt(text, from) // what could be read is enough
	return strings.TrimSpace(string(text[:n]))
}

func (s *server) logSize() int64 {
	info, err := os.Stat(s.path(enginelog.FileName))
	if err != nil {
		return 0
	}
	return info.Size()
}
