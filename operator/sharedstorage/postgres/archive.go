package postgres

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/host"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/pgbackrest"
)

// archiver sends the log of one engine to a repository, and takes its backups.
type archiver struct {
	srv *server
	sql func(context.Context, func(context.Context, *pgx.Conn) error) error

	ctx    context.Context //nolint:containedctx // of the agent: backups end with it
	cancel context.CancelFunc

	mu       sync.Mutex
	prepared string // Hash of the repository that has the stanza of this engine
	trying   bool
	retry    time.Time
	err      error              // of the last try
	jobs     map[string]*job    // by kind: backup, verify
	status   port.ArchiveStatus // as last asked of the engine
}

// job is the last backup, or check of one, that this agent began.
type job struct {
	port.Backup
	cancel context.CancelFunc
}

const (
	archiveConf    = "pgbackrest.conf"
	archiveSaid    = "archive.said"    // what the last archive-push said
	archiveDropped = "archive.dropped" // what the last one said that gave up a segment
	archiveCA      = "repository.pem"
)

// serve is called before all else; stop ends what goes on in the background.
func (a *archiver) serve(ctx context.Context) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ctx, a.cancel = context.WithCancel(ctx)
}

func (a *archiver) stop() { a.cancel() }

func (a *archiver) program() (string, error) {
	found, err := exec.LookPath(pgbackrest.Program)
	if err != nil {
		return "", port.BackupToolMissing.Errorf("there is no program %s", pgbackrest.Program)
	}
	return filepath.Abs(found)
}

// command returns the archive_command for a repository.
func (a *archiver) command(r *port.Repository) string {
	if r == nil {
		return pgbackrest.NoArchive
	}
	program, err := a.program()
	if err != nil {
		program = pgbackrest.Program // it fails, and is tried again when somebody has installed it
	}
	return pgbackrest.ArchiveCommand(program, a.srv.path(confName, archiveConf), r.Stanza, a.srv.path(runName, archiveSaid), a.srv.path(runName, archiveDropped))
}

// configure writes the configuration of pgBackRest.
func (a *archiver) configure(r port.Repository, name, data string) error {
	text, err := pgbackrest.Conf(r, pgbackrest.Server{Data: data, Port: a.srv.cfg.Port, Socket: "/proc/self/cwd", Run: a.srv.path(runName), CAFile: a.srv.path(confName, name+"."+archiveCA)})
	if err != nil {
		return port.RepositoryFailed.Errorf("%w", err)
	}
	if r.S3 != nil && r.S3.CA != "" {
		if err := a.srv.write(a.srv.path(confName, name+"."+archiveCA), r.S3.CA); err != nil {
			return host.Trouble(err)
		}
	}
	if r.S3 == nil {
		if err := a.folder(r.Folder); err != nil {
			return port.RepositoryFailed.Errorf("%w", err)
		}
	}
	return host.Trouble(a.srv.write(a.srv.path(confName, name), text))
}

// folder makes the folder of a repository, and lets the user of the engine enter it.
func (a *archiver) folder(path string) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	if err := os.MkdirAll(path, 0o750); err != nil {
		return err
	}
	return a.srv.chown(path)
}

// run runs pgBackRest to its end. Its working folder is that of the socket, so that the path of the
// socket is short. other is the fault of an error without another meaning.
func (a *archiver) run(ctx context.Context, other *fault.Kind, conf, stanza string, args ...string) (string, error) {
	program, err := a.program()
	if err != nil {
		return "", err
	}
	var out, said bytes.Buffer
	cmd := a.srv.command(ctx, program, append([]string{"--config=" + a.srv.path(confName, conf), "--stanza=" + stanza}, args...)...)
	cmd.Stdout, cmd.Stderr = &out, &said
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && ctx.Err() == nil {
		return out.String(), pgbackrest.Fault(other, exit.ExitCode(), out.String()+said.String())
	}
	return out.String(), err
}

// prepare makes the stanza of a writer in its repository, once. It does not wait.
func (a *archiver) prepare(r *port.Repository) {
	a.mu.Lock()
	defer a.mu.Unlock()
	hash := r.Hash()
	if r == nil || a.prepared == hash || a.trying || time.Now().Before(a.retry) || a.ctx == nil {
		return
	}
	a.trying = true
	a.srv.children.Go(func() {
		ctx, cancel := context.WithTimeout(a.ctx, 2*time.Minute)
		defer cancel()
		_, err := a.run(ctx, port.RepositoryFailed, archiveConf, r.Stanza, "stanza-create")
		a.mu.Lock()
		defer a.mu.Unlock()
		a.trying, a.err, a.retry = false, err, time.Now().Add(5*time.Second)
		if err == nil {
			a.prepared = hash
		}
	})
}

const archiveQuery = `
SELECT coalesce(last_archived_wal, ''), coalesce(extract(epoch FROM last_archived_time), 0)::text,
	(last_failed_time IS NOT NULL AND (last_archived_time IS NULL OR last_failed_time > last_archived_time))::text,
	w.n::text, (w.n * pg_size_bytes(current_setting('wal_segment_size')))::text, coalesce(extract(epoch FROM w.since), 0)::text
FROM pg_stat_archiver, (SELECT count(*) AS n, min(modification) AS since FROM pg_ls_archive_statusdir() WHERE name LIKE '%.ready') w`

// observe asks a writer how its archiving goes.
func (a *archiver) observe(ctx context.Context, r *port.Repository) error {
	st := port.ArchiveStatus{Repository: r.Hash()}
	if r != nil {
		var last, failing, waiting, size, since string
		if err := a.sql(ctx, func(ctx context.Context, c *pgx.Conn) error {
			return c.QueryRow(ctx, archiveQuery).Scan(&st.Last, &last, &failing, &waiting, &size, &since)
		}); err != nil {
			return err
		}
		st.LastAt, st.Since, st.Failing = seconds(last), seconds(since), failing == "true"
		st.Waiting, _ = strconv.Atoi(waiting)        // it is a count
		st.Bytes, _ = strconv.ParseInt(size, 10, 64) // likewise
		st.Free = a.srv.volumeFree()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if r != nil && a.prepared != st.Repository {
		st.Unreadable = true
		if a.err != nil {
			st.Failing, st.Code, st.Message = true, string(fault.Of(a.err).Code), fault.Message(a.err)
		}
	}
	if st.Failing && st.Code == "" {
		said, _ := os.ReadFile(a.srv.path(runName, archiveSaid)) // without it the code says enough
		err := pgbackrest.ArchiveFault(string(said))
		st.Code, st.Message = string(fault.Of(err).Code), fault.Message(err)
	}
	if j := a.jobs["backup"]; j != nil && j.State == port.JobDone {
		st.Backup, st.BackupAt = j.Label, j.Ended
	}
	a.status = st
	return nil
}

// dropped returns the last file of the log that was given up, and when.
func (a *archiver) dropped() (file string, at time.Time) {
	path := a.srv.path(runName, archiveDropped)
	stat, err := os.Stat(path)
	if err != nil {
		return "", time.Time{}
	}
	said, err := os.ReadFile(path)
	if err != nil {
		return "", time.Time{}
	}
	return pgbackrest.Dropped(string(said)), stat.ModTime().UTC()
}

func seconds(text string) time.Time {
	s, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || s == 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(s * 1000)).UTC()
}

// observed returns the status as last asked, with the repository that is set now.
func (a *archiver) observed(r *port.Repository) port.ArchiveStatus {
	a.mu.Lock()
	defer a.mu.Unlock()
	if st := a.status; st.Repository == r.Hash() {
		return st
	}
	return port.ArchiveStatus{Repository: r.Hash(), Unreadable: r != nil}
}

// announce makes the archiver send the complete segments that this engine has received before it was
// promoted: the former writer may have ended before it had archived them, and PostgreSQL leaves them
// to it. Those that are archived already, pgBackRest recognizes by their checksums.
func (s *server) announce() error {
	folder := s.path(dataName, "pg_wal", "archive_status")
	names, err := filepath.Glob(filepath.Join(folder, "*.done"))
	if err != nil {
		return err
	}
	for _, name := range names {
		segment := strings.TrimSuffix(filepath.Base(name), ".done")
		if len(segment) != 24 {
			continue // a history or a label: its own engine has written it
		}
		if _, err := os.Stat(s.path(dataName, "pg_wal", segment)); err != nil {
			continue
		}
		if err := os.Rename(name, strings.TrimSuffix(name, ".done")+".ready"); err != nil {
			return err
		}
	}
	return nil
}
