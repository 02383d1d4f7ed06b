package lease

import (
	"context"
	"encoding/json"
	"errors"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/host"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// GrantFile is the record in a folder that all instances of a cluster reach: grant.json has the
// writer and epoch, lease.json the lease, and grant.lock guards both. The grant is durable. The
// lease need not be: no writer outlives a crash of the machine. It does not store Lease.Failsafe:
// whoever cannot reach the folder has lost its data, too.
type GrantFile struct{ Dir string }

const (
	grantName = "grant.json"
	leaseName = "lease.json"
	grantLock = "grant.lock"
)

// bootLease is a lease by the clock since boot, which nobody can set.
type bootLease struct {
	Holder string        `json:"holder"`
	Epoch  int64         `json:"epoch"`
	Boot   string        `json:"boot"`
	Until  time.Duration `json:"until"` // since boot
}

// Read implements Grants.
func (f GrantFile) Read(ctx context.Context) (g Grant, err error) {
	err = f.guarded(ctx, func() error { g, err = f.load(); return err })
	return g, err
}

// Renew implements Grants.
func (f GrantFile) Renew(ctx context.Context, r Renewal) (g Grant, err error) {
	err = f.guarded(ctx, func() error {
		old, err := f.load()
		if err != nil {
			return err
		}
		if g, err = old.Renewed(r, time.Now()); err != nil {
			return err
		}
		if g.Lease == old.Lease {
			return nil
		}
		var l bootLease
		if g.Lease.Holder != "" {
			l = bootLease{Holder: g.Lease.Holder, Epoch: g.Lease.Epoch, Boot: host.Boot(), Until: host.SinceBoot() + time.Until(g.Lease.Until)}
		}
		data, err := json.Marshal(l)
		if err != nil {
			return err
		}
		return host.Trouble(host.ReplaceFile(filepath.Join(f.Dir, leaseName), data, false))
	})
	return g, err
}

// Grant implements Granter.
func (f GrantFile) Grant(ctx context.Context, writer string, epoch int64) error {
	return f.guarded(ctx, func() error {
		old, err := f.load()
		if err != nil {
			return err
		}
		g, err := old.Granted(writer, epoch)
		if err != nil || g == old {
			return err
		}
		return host.Trouble(host.WriteJSON(filepath.Join(f.Dir, grantName), Grant{Writer: g.Writer, Epoch: g.Epoch}))
	})
}

// Restore creates a deleted grant again. For the duration block nobody gets a lease of it, because
// an unknown one may still run. An existing grant stays unless it is older.
func (f GrantFile) Restore(ctx context.Context, writer string, epoch int64, block time.Duration) error {
	return f.guarded(ctx, func() error {
		old, err := f.load()
		if err != nil || old.Epoch >= epoch {
			return err
		}
		if block > 0 && !old.Lease.Runs(time.Now()) {
			data, err := json.Marshal(bootLease{Holder: Unknown, Epoch: old.Epoch, Boot: host.Boot(), Until: host.SinceBoot() + block})
			if err == nil {
				err = host.Trouble(host.ReplaceFile(filepath.Join(f.Dir, leaseName), data, false))
			}
			if err != nil {
				return err
			}
		}
		return host.Trouble(host.WriteJSON(filepath.Join(f.Dir, grantName), Grant{Writer: writer, Epoch: epoch}))
	})
}

// guarded runs do under the lock. It does not wait longer than the context: the holder of the lock
// may be a frozen process.
func (f GrantFile) guarded(ctx context.Context, do func() error) error {
	for pause := time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
		if err := ctx.Err(); err != nil {
			return err
		}
		lock, err := host.TryLock(filepath.Join(f.Dir, grantLock))
		if err != nil {
			return host.Trouble(err)
		}
		if lock != nil {
			defer lock.Close()
			return do()
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

func (f GrantFile) load() (Grant, error) {
	var g Grant
	if err := host.ReadJSON(filepath.Join(f.Dir, grantName), &g); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return g, host.Trouble(err)
	}
	g.Lease = Lease{}
	data, err := os.ReadFile(filepath.Join(f.Dir, leaseName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return g, host.Trouble(err)
	}
	var l bootLease
	if json.Unmarshal(data, &l) == nil && l.Boot == host.Boot() && l.Holder != "" { // a partly written file is from before a crash of the machine
		g.Lease = Lease{Holder: l.Holder, Epoch: l.Epoch, Until: time.Now().Add(l.Until - host.SinceBoot()).Round(0)}
	}
	return g, nil
}
