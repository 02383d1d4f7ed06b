package workflowtest

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// dyingStore is the store of a process that dies at a save. After that, no write of the process
// reaches the store.
type dyingStore struct {
	*runstore.Memory
	crash *Crash
	died  chan struct{}

	mu     sync.Mutex
	writes int
	dead   bool
}

func newDyingStore(m *runstore.Memory, crash *Crash) *dyingStore {
	return &dyingStore{Memory: m, crash: crash, died: make(chan struct{})}
}

func (m *dyingStore) write(what string, do func() error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead {
		return runstore.ErrFenced
	}
	m.writes++
	if m.crash == nil || m.crash.at != m.writes {
		return do()
	}
	if m.crash.after {
		_ = do()
	}
	m.crash.saved = what
	m.dead = true
	close(m.died)
	return runstore.ErrFenced
}

func (m *dyingStore) Create(ctx context.Context, r *runtype.Run, events []runtype.Event) (out *runtype.Run, err error) {
	err = m.write("start of "+r.Flow, func() error { out, err = m.Memory.Create(ctx, r, events); return err })
	return out, err
}

func (m *dyingStore) Save(ctx context.Context, s *runstore.Save) error {
	var what []string
	for _, e := range s.Events {
		what = append(what, strings.TrimSpace(string(e.Kind)+" "+e.Step))
	}
	return m.write(strings.Join(what, ", "), func() error { return m.Memory.Save(ctx, s) })
}

func (m *dyingStore) Send(ctx context.Context, id string, s runtype.Signal) error {
	return m.write("signal "+s.Name, func() error { return m.Memory.Send(ctx, id, s) })
}

func (m *dyingStore) Claim(ctx context.Context, c runstore.Claim) (runstore.Claimed, error) {
	if m.crashed() {
		return runstore.Claimed{}, runstore.ErrFenced
	}
	return m.Memory.Claim(ctx, c)
}

func (m *dyingStore) ClaimRun(ctx context.Context, worker, id string, lease time.Duration) (runstore.Loaded, error) {
	if m.crashed() {
		return runstore.Loaded{}, runstore.ErrFenced
	}
	return m.Memory.ClaimRun(ctx, worker, id, lease)
}

func (m *dyingStore) Renew(ctx context.Context, worker string, lease time.Duration) error {
	if m.crashed() {
		return runstore.ErrFenced
	}
	return m.Memory.Renew(ctx, worker, lease)
}

func (m *dyingStore) Release(ctx context.Context, worker string) error {
	if m.crashed() {
		return nil
	}
	return m.Memory.Release(ctx, worker)
}

func (m *dyingStore) ReleaseRun(ctx context.Context, worker string, r *runtype.Run, next time.Time) error {
	if m.crashed() {
		return nil
	}
	return m.Memory.ReleaseRun(ctx, worker, r, next)
}

func (m *dyingStore) crashed() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.dead
}

func (m *dyingStore) written() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.writes
}
