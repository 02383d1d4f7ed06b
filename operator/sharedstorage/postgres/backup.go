package postgres

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/host"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/pgbackrest"
)

// begin runs a backup or a check in the background, or returns the one of this key.
func (a *archiver) begin(kind, key string, follow bool, do func(ctx context.Context) (port.Backup, error)) port.Backup {
	a.mu.Lock()
	defer a.mu.Unlock()
	old := a.jobs[kind]
	switch {
	case old != nil && old.Key == key && (follow || old.State != port.JobFailed):
		return old.Backup
	case follow:
		return port.Backup{Key: key}
	case old != nil && old.State == port.JobRunning:
		return port.Backup{Key: key, State: port.JobWaiting, Started: old.Started}
	}
	ctx, cancel := context.WithCancel(a.ctx)
	j := &job{Backup: port.Backup{Key: key, State: port.JobRunning, Started: time.Now().UTC().Truncate(time.Second)}, cancel: cancel}
	if a.jobs == nil {
		a.jobs = map[string]*job{}
	}
	a.jobs[kind] = j
	a.srv.children.Go(func() {
		defer cancel()
		done, err := do(ctx)
		a.mu.Lock()
		defer a.mu.Unlock()
		if err != nil {
			j.State, j.Code, j.Message, j.Ended = port.JobFailed, string(fault.Of(err).Code), fault.Message(err), time.Now().UTC().Truncate(time.Second)
			return
		}
		done.State, done.Key = port.JobDone, key
		j.Backup = done
	})
	return j.Backup
}

// list returns the complete backups of a repository.
func (a *archiver) list(ctx context.Context, conf, stanza string) ([]port.Backup, error) {
	text, err := a.run(ctx, port.RepositoryFailed, conf, stanza, "info", "--output=json")
	if err != nil {
		return nil, err
	}
	return pgbackrest.ParseInfo(text)
}

// byKey returns the backup that was taken for this key.
func (a *archiver) byKey(ctx context.Context, stanza, key string) (*port.Backup, error) {
	all, err := a.list(ctx, archiveConf, stanza)
	if err != nil {
		return nil, err
	}
	for i := range all {
		if all[i].Key == key {
			return &all[i], nil
		}
	}
	return nil, nil
}

// take takes a backup for a key, unless the repository has it.
func (a *archiver) take(ctx context.Context, stanza string, order port.BackupOrder) (port.Backup, error) {
	if found, err := a.byKey(ctx, stanza, order.Key); err != nil || found != nil {
		if err != nil {
			return port.Backup{}, err
		}
		return *found, nil
	}
	if _, err := a.run(ctx, port.BackupFailed, archiveConf, stanza, pgbackrest.BackupArgs(order)...); err != nil {
		return port.Backup{}, err
	}
	found, err := a.byKey(ctx, stanza, order.Key)
	if err == nil && found == nil {
		err = port.BackupFailed.Errorf("pgBackRest has ended without an error, and its repository has no backup of %s", order.Key)
	}
	if err != nil {
		return port.Backup{}, err
	}
	return *found, nil
}

// callArchive sets the repository.
func (a *Agent) callArchive(_ context.Context, in archiveCall) (nothing, error) {
	if was := a.repository(); !in.Repository.Same(was) { // what another archive lacks is not a gap of this one
		if err := os.Remove(a.srv.path(runName, archiveDropped)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nothing{}, host.Trouble(err)
		}
	}
	if in.Repository != nil {
		if err := a.archive.configure(*in.Repository, archiveConf, a.srv.data()); err != nil {
			return nothing{}, err
		}
	}
	defer a.wake()
	return nothing{}, a.change(func(r *record) { r.Archive = in.Repository })
}

func (a *Agent) repository() *port.Repository {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.rec.Archive
}

func (a *Agent) callBackup(_ context.Context, in port.BackupOrder) (port.Backup, error) {
	to := a.repository()
	switch _, writes := a.lease.Writing(); {
	case in.Key == "":
		return port.Backup{}, errors.New("a backup needs a key")
	case to == nil:
		return port.Backup{}, port.RepositoryFailed.Errorf("instance %s archives nowhere", a.name)
	case !writes && !in.Follow:
		return port.Backup{}, port.WriterUnhealthy.Errorf("instance %s does not write", a.name)
	}
	return a.archive.begin("backup", in.Key, in.Follow, func(ctx context.Context) (port.Backup, error) { return a.archive.take(ctx, to.Stanza, in) }), nil
}

func (a *Agent) callBackups(ctx context.Context, _ struct{}) ([]port.Backup, error) {
	to := a.repository()
	if to == nil {
		return []port.Backup{}, nil
	}
	return a.archive.list(ctx, archiveConf, to.Stanza)
}

func (a *Agent) callVerify(_ context.Context, in port.VerifyOrder) (port.Backup, error) {
	if in.Key == "" || in.Label == "" {
		return port.Backup{}, errors.New("a check needs a key and a backup")
	}
	return a.archive.begin("verify", in.Key, in.Follow, func(ctx context.Context) (port.Backup, error) { return a.archive.verify(ctx, in) }), nil
}

type archiveCall struct {
	Repository *port.Repository `json:"repository,omitempty"`
}
