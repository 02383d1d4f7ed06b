package lease

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/host"
)

// guardNote is the file that the guard reads.
type guardNote struct {
	Boot     string        `json:"boot"`
	Deadline time.Duration `json:"deadline"` // since boot
}

const (
	guardName = "guard.json"
	guardLock = "guard.lock"
)

func (k *Holder) note(deadline time.Duration) error {
	data, err := json.Marshal(guardNote{Boot: host.Boot(), Deadline: deadline})
	if err != nil {
		return err
	}
	return host.Trouble(host.ReplaceFile(k.path(guardName), data, false))
}

func (k *Holder) path(name string) string { return filepath.Join(k.o.Dir, name) }

// EnsureGuard starts the guard if it does not run.
func (k *Holder) EnsureGuard() {
	if host.Held(k.path(guardLock)) {
		return
	}
	args := slices.Concat(k.o.Command[1:], []string{"--dir", k.o.Dir, "--guard"})
	cmd := exec.Command(k.o.Command[0], args...)
	cmd.Dir = k.o.Dir
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1", "GOMEMLIMIT=16MiB")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		k.o.Log.Error("no guard: a writer would outlive its lease if this agent were killed", "err", err)
		return
	}
	k.o.Agent.Child(func() { _ = cmd.Wait() }) // the guard's lock tells whether it runs
}

// Guard stops the writer of the instance in a folder when its lease is about to end, because the agent that
// should have done it was killed or is frozen. It returns when there is no engine to watch.
func Guard(ctx context.Context, dir string, find func() host.Process) error {
	lock, err := host.TryLock(filepath.Join(dir, guardLock))
	if err != nil || lock == nil {
		return err
	}
	defer lock.Close()
	every := time.NewTicker(100 * time.Millisecond)
	defer every.Stop()
	for absent := 0; absent < 50; { // the guard may start before the engine
		select {
		case <-ctx.Done():
			return nil
		case <-every.C:
		}
		var n guardNote
		if host.ReadJSON(filepath.Join(dir, guardName), &n) != nil {
			return nil
		}
		engine := find()
		if !engine.Running() {
			absent++
			continue
		}
		absent = 0
		switch late := host.SinceBoot() - n.Deadline; {
		case n.Boot != host.Boot() || late < 0:
		case late < time.Second:
			_ = engine.Signal(syscall.SIGQUIT) // if that fails, it is killed below
		default:
			engine.Kill()
		}
	}
	return nil
}
