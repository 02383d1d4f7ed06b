package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/host"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/lease"
)

// Storage implements port.Storage with a folder for each cluster, in mode port.Copies: each instance has
// its data and streams from the writer. When the writer is removed its data stay in this
// folder, and the next writer begins with them.
type Storage struct{ placement *Placement }

var _ port.Storage = &Storage{}

// volume is what is stored about a volume.
type volume struct {
	ID    string    `json:"id"`
	UID   string    `json:"uid,omitempty"` // of the cluster object
	Size  int64     `json:"size"`
	Claim string    `json:"claim,omitempty"`
	Key   string    `json:"key,omitempty"` // of the call that created it
	Kept  time.Time `json:"kept,omitzero"` // when its cluster released it

	From     *port.Ref    `json:"from,omitempty"` // the cluster from which the data are or were copied
	Cloned   bool         `json:"cloned,omitempty"`
	Copier   host.Process `json:"copier,omitzero"`
	Attempts int          `json:"attempts,omitempty"`
}

const (
	volumeName = "volume.json"
	copies     = 3 // attempts of a copy
)

// Ensure implements port.Storage.
func (t *Storage) Ensure(ctx context.Context, c port.Ref, want port.Volume, key string) (port.Volume, error) {
	var found port.Volume
	err := t.placement.locked(func() error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := t.placement.ensureDirs(c); err != nil {
			return err
		}
		v, err := t.load(c)
		if err != nil {
			return err
		}
		fresh := v == nil
		if fresh {
			v = &volume{ID: "volume-" + random()[:12], Claim: want.Claim, Key: key}
			if err := t.adopt(c, want); err != nil {
				return err
			}
		}
		if want.Size > 0 && want.Size < v.Size {
			return port.StorageShrink.Errorf("the volume of %s has %d bytes, and %d are asked for", c, v.Size, want.Size)
		}
		old := *v
		v.Size, v.UID, v.Kept = max(v.Size, want.Size), c.UID, time.Time{}
		if fresh || *v != old {
			if err := t.save(c, v); err != nil {
				return err
			}
		}
		found, err = t.settle(ctx, c, v, true)
		return err
	})
	return found, err
}

// adopt moves the data of a claim into a new volume. Claims are folders in Dir/claims.
func (t *Storage) adopt(c port.Ref, want port.Volume) error {
	claim := want.Claim
	if claim == "" {
		claim = want.ID
	}
	if claim == "" {
		return nil
	}
	if err := check(claim); err != nil {
		return port.StorageFailed.Errorf("%w", err)
	}
	from := filepath.Join(t.placement.o.Dir, "claims", claim)
	if !exists(filepath.Join(from, "PG_VERSION")) {
		if exists(t.seed(c)) { // it was moved already
			return nil
		}
		return port.StorageFailed.Errorf("there are no data of PostgreSQL in %s", from)
	}
	return storageFault(os.Rename(from, t.seed(c)))
}

func (t *Storage) seed(c port.Ref) string { return t.placement.folder(c, "volume", "seed") }

// Clone implements port.Storage with a base backup, in a process that outlives this one.
func (t *Storage) Clone(ctx context.Context, from, to port.Ref, key string) (port.Volume, error) {
	var found port.Volume
	err := t.placement.locked(func() error {
		if err := check(from.Namespace, from.Name); err != nil {
			return port.CloneSourceMissing.Errorf("%w", err)
		}
		source, err := t.load(from)
		if err != nil {
			return err
		}
		if source == nil || !source.Kept.IsZero() {
			return port.CloneSourceMissing.Errorf("there is no cluster %s", from)
		}
		if err := t.placement.ensureDirs(to); err != nil {
			return err
		}
		v, err := t.load(to)
		if err != nil {
			return err
		}
		if v == nil {
			v = &volume{ID: "volume-" + random()[:12], UID: to.UID, Size: source.Size, Key: key}
		}
		if v.From == nil && !exists(t.seed(to)) {
			v.From = &port.Ref{Namespace: from.Namespace, Name: from.Name}
			if err := t.save(to, v); err != nil {
				return err
			}
		}
		found, err = t.settle(ctx, to, v, true)
		return err
	})
	return found, err
}

// Observe implements port.Storage.
func (t *Storage) Observe(ctx context.Context, c port.Ref) (port.Volume, error) {
	var found port.Volume
	err := t.placement.locked(func() error {
		v, err := t.load(c)
		if err != nil || v == nil || !v.Kept.IsZero() {
			return err
		}
		found, err = t.settle(ctx, c, v, false)
		return err
	})
	return found, err
}

// settle returns the current volume. It moves a completed copy to its place; with again it retries
// a failed copy.
func (t *Storage) settle(ctx context.Context, c port.Ref, v *volume, again bool) (port.Volume, error) {
	g, err := t.grants(c).Read(ctx)
	if err != nil {
		return port.Volume{}, err
	}
	found := port.Volume{ID: v.ID, Claim: v.Claim, Size: v.Size, State: port.VolumeReady, Mode: port.Copies, Writer: g.Writer, Epoch: g.Epoch}
	if v.From == nil || v.Cloned {
		return found, nil
	}
	found.State = port.VolumeCloning
	folder := t.placement.folder(c, "volume", "clone")
	if done := filepath.Join(folder, "data"); exists(done) {
		if err := os.Rename(done, t.seed(c)); err != nil {
			return found, storageFault(err)
		}
		v.Cloned = true
		found.State = port.VolumeReady
		return found, errors.Join(t.save(c, v), storageFault(os.RemoveAll(folder)))
	}
	if exists(t.seed(c)) { // it was moved, and the record of that was lost
		v.Cloned = true
		found.State = port.VolumeReady
		return found, t.save(c, v)
	}
	if v.Copier.Running() {
		found.Message = "copying the data of " + v.From.String()
		return found, nil
	}
	if v.Attempts >= copies {
		return found, port.StorageFailed.Errorf("the data of %s could not be copied: %s", v.From, postgres.LogTail(filepath.Join(folder, "log")))
	}
	if !again {
		found.Message = "the copy of " + v.From.String() + " has ended: " + postgres.LogTail(filepath.Join(folder, "log"))
		return found, nil
	}
	if err := t.copy(ctx, folder, v); err != nil {
		return found, err
	}
	return found, t.save(c, v)
}

// copy starts a base backup of the writer of the source.
func (t *Storage) copy(ctx context.Context, folder string, v *volume) error {
	g, err := t.grants(*v.From).Read(ctx)
	if err != nil {
		return err
	}
	source, err := t.placement.load(*v.From, g.Writer)
	if err != nil {
		return err
	}
	if g.Writer == "" || source == nil || !postgres.EngineOf(source.folder).Running() {
		return port.CloneSourceMissing.Errorf("cluster %s has no writer that runs", v.From)
	}
	password, err := t.placement.Password(*v.From)
	if err != nil {
		return err
	}
	as, err := postgres.Runner(t.placement.o.User)
	if err != nil {
		return err
	}
	_, binaries, err := t.placement.binaries(source.Version)
	if err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(folder), os.Mkdir(folder, 0o700)); err != nil {
		return storageFault(err)
	}
	pass := filepath.Join(folder, "pgpass")
	if err := host.WriteFile(pass, []byte("*:*:*:*:"+password+"\n")); err != nil {
		return storageFault(err)
	}
	log, err := os.OpenFile(filepath.Join(folder, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return storageFault(err)
	}
	defer log.Close()
	if as != nil {
		if err := errors.Join(os.Chown(folder, int(as.Uid), int(as.Gid)), os.Chown(pass, int(as.Uid), int(as.Gid))); err != nil {
			return storageFault(err)
		}
	}
	cmd := exec.Command("/bin/sh", "-c", `part=$1; done=$2; shift 2; "$@" && mv -T "$part" "$done"`, "sh", filepath.Join(folder, "part"), filepath.Join(folder, "data"),
		filepath.Join(binaries, "pg_basebackup"), "-D", filepath.Join(folder, "part"), "-X", "stream", "-c", "fast", "--no-password",
		"-h", source.Address, "-p", fmt.Sprint(source.Port), "-U", "postgres")
	cmd.Dir, cmd.Stdout, cmd.Stderr = folder, log, log
	cmd.Env = []string{"PATH=" + binaries + ":/usr/bin:/bin", "LC_ALL=C", "PGPASSFILE=" + pass, "HOME=" + folder}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: as}
	if err := cmd.Start(); err != nil {
		return port.StorageFailed.Errorf("%w", err)
	}
	v.Copier = host.ProcessOf(cmd.Process.Pid)
	v.Attempts++
	t.placement.children[v.Copier.PID] = struct{}{}
	_ = cmd.Process.Release() // reap waits for it by its id
	return nil
}

// Grant implements port.Storage.
func (t *Storage) Grant(ctx context.Context, c port.Ref, writer string, epoch int64) error {
	if err := check(c.Namespace, c.Name); err != nil {
		return err
	}
	return t.grants(c).Grant(ctx, writer, epoch)
}

func (t *Storage) grants(c port.Ref) lease.GrantFile {
	return lease.GrantFile{Dir: t.placement.folder(c, "volume")}
}

// Restore implements port.Storage.
func (t *Storage) Restore(ctx context.Context, c port.Ref, was port.Volume, wrote bool) (port.Volume, error) {
	var found port.Volume
	err := t.placement.locked(func() error {
		if err := t.placement.ensureDirs(c); err != nil {
			return err
		}
		v, err := t.load(c)
		if err != nil {
			return err
		}
		if v == nil {
			v = &volume{ID: "volume-" + random()[:12], UID: c.UID, Size: was.Size, Claim: was.Claim}
			if err := t.save(c, v); err != nil {
				return err
			}
		}
		block := time.Duration(0)
		if !wrote {
			block = t.placement.o.Lease
		}
		if err := t.grants(c).Restore(ctx, was.Writer, was.Epoch, block); err != nil {
			return err
		}
		found, err = t.settle(ctx, c, v, false)
		return err
	})
	return found, err
}

// Release implements port.Storage.
func (t *Storage) Release(ctx context.Context, c port.Ref, keep bool) error {
	if err := check(c.Namespace, c.Name); err != nil {
		return err
	}
	return t.placement.locked(func() error {
		v, err := t.load(c)
		if err != nil {
			return err
		}
		left, err := t.placement.instancesOf(c)
		if err != nil {
			return err
		}
		if len(left) > 0 {
			return fmt.Errorf("%d instances of %s are there still: the volume is released after them", len(left), c)
		}
		if v != nil && v.Copier.Running() {
			stop(v.Copier)
		}
		if !keep || v == nil {
			if !exists(t.placement.folder(c)) {
				return nil
			}
			gone := filepath.Join(t.placement.o.Dir, c.Namespace, ".gone-"+c.Name)
			if err := errors.Join(os.RemoveAll(gone), os.Rename(t.placement.folder(c), gone)); err != nil {
				return storageFault(err)
			}
			return storageFault(os.RemoveAll(gone))
		}
		if !v.Kept.IsZero() {
			return nil
		}
		g, err := t.grants(c).Read(ctx)
		if err != nil {
			return err
		}
		if err := t.grants(c).Grant(ctx, "", g.Epoch); err != nil {
			return err
		}
		v.Kept = time.Now().UTC()
		return t.save(c, v)
	})
}

// stop kills a copy and its children, which are in its process group.
func stop(p host.Process) {
	if p.Running() {
		_ = syscall.Kill(-p.PID, syscall.SIGKILL) // it leads its session
	}
}

func (t *Storage) load(c port.Ref) (*volume, error) {
	var v volume
	err := host.ReadJSON(t.placement.folder(c, "volume", volumeName), &v)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return &v, storageFault(err)
}

func (t *Storage) save(c port.Ref, v *volume) error {
	return storageFault(host.WriteJSON(t.placement.folder(c, "volume", volumeName), v))
}
