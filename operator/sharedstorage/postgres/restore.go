package postgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/host"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/pgbackrest"
)

const (
	restoreConf = "restore.conf" // of pgBackRest
	verifyConf  = "verify.conf"
	verifyName  = "verify" // the scratch folder of a check
)

// restore puts a backup into a folder and applies the log to it: the folder has the data of an
// engine that was promoted and stopped cleanly. An own postgres does so, which nobody reaches but
// through a socket in the folder.
func (a *archiver) restore(ctx context.Context, from port.Restore, conf, into string) (port.Backup, error) {
	defer func() { // it has the secrets of the other cluster's repository
		if err := os.Remove(a.srv.path(confName, conf)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			a.srv.log.Warn("the secrets of a restore are left", "file", conf, "err", err)
		}
	}()
	if err := a.configure(from.Repository, conf, into); err != nil {
		return port.Backup{}, err
	}
	all, err := a.list(ctx, conf, from.Repository.Stanza)
	if err != nil {
		return port.Backup{}, err
	}
	var point uint64
	if from.Name != "" && from.Label == "" {
		if point, err = a.restorePoint(ctx, conf, from, all); err != nil {
			return port.Backup{}, err
		}
	}
	chosen, err := pgbackrest.Choose(from, point, all)
	if err != nil {
		return chosen, err
	}
	if err := a.srv.discard(into); err != nil {
		return chosen, host.Trouble(err)
	}
	need := chosen.Size
	if conf == verifyConf { // an engine goes on writing there: its log may grow by max_wal_size (logDefaults)
		need += min(a.srv.volumeSize()/8, 1<<30)
	}
	if free := a.srv.volumeFree(); free > 0 && free < need {
		return chosen, port.StorageFull.Errorf("backup %s has %d bytes, %d are needed, and the volume has room for %d", chosen.Label, chosen.Size, need, free)
	}
	if err := a.srv.mkdir(into); err != nil {
		return chosen, host.Trouble(err)
	}
	if _, err := a.run(ctx, port.RestoreFailed, conf, from.Repository.Stanza, pgbackrest.RestoreArgs(from, chosen.Label, into)...); err != nil {
		return chosen, err
	}
	return chosen, a.srv.recoverIn(ctx, into)
}

// restoreFirst restores the data of a new writer. A restore that fails is not repeated before it is
// ordered again, because it may read terabytes.
func (a *Agent) restoreFirst(ctx context.Context, want installation) error {
	into := a.srv.path(newName)
	_, err := a.archive.restore(ctx, *want.Restore, restoreConf, into)
	if err == nil {
		return a.srv.place()
	}
	if ctx.Err() != nil {
		return err
	}
	return errors.Join(err, a.srv.discard(into), a.change(func(r *record) {
		if r.Install != nil && r.Install.Key == want.Key {
			r.Install = nil
		}
	}))
}

// verify restores a backup into a scratch folder and reads all of its pages.
func (a *archiver) verify(ctx context.Context, order port.VerifyOrder) (port.Backup, error) {
	into := a.srv.path(verifyName)
	defer func() {
		if err := a.srv.discard(into); err != nil {
			a.srv.log.Warn("the scratch folder of a check is left", "folder", into, "err", err)
		}
	}()
	done, err := a.restore(ctx, port.Restore{Repository: order.Repository, Label: order.Label, Consistent: true}, verifyConf, into)
	if err != nil {
		if fault.Of(err) == port.RestoreFailed || fault.Of(err) == port.RestoreTargetMissing {
			err = port.BackupDamaged.Errorf("%s: %s", order.Label, fault.Message(err))
		}
		return done, err
	}
	if _, err := a.srv.output(ctx, "pg_checksums", "--check", "-D", into); err != nil {
		return done, port.BackupDamaged.Errorf("%s: %w", order.Label, err)
	}
	return done, nil
}

// discard removes a folder of data, with an engine that an earlier agent left in it.
func (s *server) discard(folder string) error {
	if p := s.findIn(folder); p.Running() {
		p.Kill()
		for every := time.NewTicker(10 * time.Millisecond); p.Running(); <-every.C { // it was killed, so it ends
		}
	}
	return os.RemoveAll(folder)
}

// recoverIn runs postgres in a restored folder until it is promoted, and stops it.
func (s *server) recoverIn(ctx context.Context, folder string) error {
	out, err := s.output(ctx, "pg_controldata", "-D", folder)
	if err != nil {
		return port.RestoreFailed.Errorf("%w", err)
	}
	data, err := parseControl(out)
	if err != nil {
		return port.RestoreFailed.Errorf("%w", err)
	}
	var text strings.Builder
	for _, line := range []string{"listen_addresses = ''", "unix_socket_directories = '.'", "port = " + strconv.Itoa(int(s.cfg.Port)), "hot_standby = on",
		"archive_mode = off", "fsync = on", "full_page_writes = on", "wal_log_hints = on", "logging_collector = off", "log_destination = stderr", "ssl = off"} {
		text.WriteString(line + "\n")
	}
	for name, floor := range data.Floors {
		fmt.Fprintf(&text, "%s = '%s'\n", name, confQuoter.Replace(floor))
	}
	conf, said := s.path(confName, "recovery-"+filepath.Base(folder)+".conf"), s.path("recovery.log")
	if err := s.write(conf, text.String()); err != nil {
		return host.Trouble(err)
	}
	log, err := os.Create(said)
	if err != nil {
		return host.Trouble(err)
	}
	defer log.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := s.command(ctx, "postgres", "-D", folder, "-c", "config_file="+conf, "-c", "hba_file="+s.path(confName, "pg_hba.conf"))
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return port.RestoreFailed.Errorf("%w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	if err := s.awaitPromotion(ctx, folder, ended); err != nil {
		cancel()
		text, _ := os.ReadFile(said) // without it the error says enough
		return recoveryFault(err, string(text))
	}
	return nil
}

// awaitPromotion waits until the engine in a folder accepts writes, then stops it.
func (s *server) awaitPromotion(ctx context.Context, folder string, ended chan error) error {
	promoted := false
	for every := time.NewTicker(100 * time.Millisecond); ; {
		select {
		case err := <-ended:
			if promoted && err == nil {
				return nil
			}
			return errors.Join(errors.New("postgres has ended while it applied the log"), err)
		case <-ctx.Done():
			return errors.Join(ctx.Err(), <-ended)
		case <-every.C:
		}
		if promoted || s.recoveringIn(ctx, folder) {
			continue
		}
		p := s.findIn(folder)
		if !p.Running() {
			continue
		}
		if err := p.Signal(syscall.SIGINT); err != nil {
			return err
		}
		promoted = true
	}
}

// recoveringIn reports whether the engine in a folder still applies the log, or does not answer yet.
func (s *server) recoveringIn(ctx context.Context, folder string) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	c, err := socket(ctx, folder, s.cfg.Port, "")
	if err != nil {
		return true
	}
	defer c.Close(ctx)
	var recovery string
	if err := c.QueryRow(ctx, "SELECT pg_is_in_recovery()::text", pgx.QueryExecModeSimpleProtocol).Scan(&recovery); err != nil || recovery == "true" {
		return true
	}
	return false
}

// recoveryFault says why postgres did not come up, from its log.
func recoveryFault(err error, said string) error {
	var exit *exec.ExitError
	switch {
	case strings.Contains(said, "recovery ended before configured recovery target was reached"):
		return port.RestoreTargetMissing.Errorf("the log in the archive ends before the target: %s", lastLines(said, 3))
	case host.IsFull(errors.New(said)):
		return port.StorageFull.Errorf("%s", lastLines(said, 3))
	case errors.As(err, &exit):
		return port.RestoreFailed.Errorf("postgres has ended while it applied the log: %s", lastLines(said, 6))
	}
	return port.RestoreFailed.Errorf("%w: %s", err, lastLines(said, 6))
}
