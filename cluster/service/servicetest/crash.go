package servicetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/memory"
	"github.com/pawl-dev/pawl/lock"
	"github.com/pawl-dev/pawl/provider/sim"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// The stores, locks and provider of a process in a lab. The process may die at
// each use of them. After its death all of them fail.

var errDead = errors.New("the process is dead")

// write makes a write to the database. The process may die before or after it.
func (p *Process) write(label string, do func() error) error { return p.writes(label, true, do) }

func (p *Process) writes(label string, hold bool, do func() error) error {
	if err := p.reach("before "+label, hold); err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	return p.reach("after "+label, hold)
}

// recordsOf is the Store of a process.
type recordsOf struct {
	*memory.Store
	p *Process
}

func (d *recordsOf) Commit(ctx context.Context, c *cluster.Change) error {
	return d.p.write("commit"+nameOf(c), func() error { return d.Store.Commit(ctx, c) })
}

// nameOf returns a label for the kind of a change.
func nameOf(c *cluster.Change) string {
	var parts []string
	if c.Cluster != nil {
		parts = append(parts, string(c.Cluster.State))
	}
	for _, r := range c.Journal {
		parts = append(parts, string(r.Kind)+" "+string(r.Phase))
	}
	for _, j := range c.Jobs {
		parts = append(parts, fmt.Sprintf("job %s %d", j.Kind, j.Status))
	}
	for _, n := range c.Nodes {
		if !n.Removed.IsZero() {
			parts = append(parts, "removed")
		}
	}
	if c.Details != nil {
		parts = append(parts, "details")
	}
	slices.Sort(parts)
	return " " + strings.Join(slices.Compact(parts), ", ")
}

func (d *recordsOf) Heartbeats(ctx context.Context, h []cluster.NodeHeartbeat) error {
	return d.p.write("heartbeats", func() error { return d.Store.Heartbeats(ctx, h) })
}

func (d *recordsOf) Prune(ctx context.Context, now time.Time, keep cluster.Retention) (n int, err error) {
	err = d.p.write("prune", func() error { n, err = d.Store.Prune(ctx, now, keep); return err })
	return n, err
}

// locksOf is the lock backend of a process.
type locksOf struct {
	*lock.Memory
	p *Process
}

func (m locksOf) Transact(ctx context.Context, name string, change func(time.Time, []byte) ([]byte, bool)) error {
	return m.p.write("lock", func() error { return m.Memory.Transact(ctx, name, change) })
}

// runsOf is the workflow store of a process.
type runsOf struct {
	*runstore.Memory
	p *Process
}

func (s *runsOf) Create(ctx context.Context, r *runtype.Run, events []runtype.Event) (run *runtype.Run, err error) {
	err = s.p.writes("create run "+r.Flow, false, func() error { run, err = s.Memory.Create(ctx, r, events); return err })
	return run, err
}

func (s *runsOf) Save(ctx context.Context, w *runstore.Save) error {
	label := "save " + w.Run.Flow + " " + string(w.Run.Phase)
	if step := w.Run.Current(); step != nil {
		label += " " + step.Name + " " + string(step.Phase)
	}
	return s.p.writes(label, false, func() error { return s.Memory.Save(ctx, w) })
}

func (s *runsOf) Send(ctx context.Context, id string, w runtype.Signal) error {
	return s.p.writes("send "+w.Name, false, func() error { return s.Memory.Send(ctx, id, w) })
}

func (s *runsOf) Claim(ctx context.Context, c runstore.Claim) (claimed runstore.Claimed, err error) {
	if s.p.IsDead() {
		return claimed, errDead
	}
	if s.p.isFrozen() {
		return claimed, runstore.StoreUnavailable.Errorf("no answer")
	}
	if claimed, err = s.Memory.Claim(ctx, c); err == nil && len(claimed.Runs) > 0 {
		err = s.p.reach("after claim", false)
	}
	return claimed, err
}

func (s *runsOf) ClaimRun(ctx context.Context, worker, id string, lease time.Duration) (loaded runstore.Loaded, err error) {
	err = s.p.writes("take", false, func() error { loaded, err = s.Memory.ClaimRun(ctx, worker, id, lease); return err })
	return loaded, err
}

func (s *runsOf) ReleaseRun(ctx context.Context, worker string, r *runtype.Run, next time.Time) error {
	return s.p.writes("rest", false, func() error { return s.Memory.ReleaseRun(ctx, worker, r, next) })
}

func (s *runsOf) Renew(ctx context.Context, worker string, lease time.Duration) error {
	if s.p.IsDead() {
		return errDead
	}
	if s.p.isFrozen() {
		return s.p.writes("renew", false, func() error { return s.Memory.Renew(ctx, worker, lease) })
	}
	return s.Memory.Renew(ctx, worker, lease)
}

// Release releases a lease. A killed process does not: its lease expires.
func (s *runsOf) Release(ctx context.Context, worker string) error {
	if s.p.IsDead() {
		return errDead
	}
	return s.Memory.Release(ctx, worker)
}

// providerOf is the provider of a process. The process may also die during a call
// that changes something: the call then arrives after the next process has
// started.
type providerOf struct {
	*sim.Client
	p *Process
}

const callDelay = 45 * time.Second // less than a call's timeout

func crashingCall[T any](ctx context.Context, p *Process, label string, changes bool, do func(context.Context) (T, error)) (T, error) {
	var none T
	if err := p.point("before " + label); err != nil {
		return none, err
	}
	if changes {
		if err := p.point("during " + label); err != nil {
			p.lab.inFlight.Go(func() {
				time.Sleep(callDelay)
				_, _ = do(context.WithoutCancel(ctx))
				p.lab.arrived(label)
			})
			return none, err
		}
	}
	got, err := do(ctx)
	if dead := p.point("after " + label); dead != nil {
		return none, dead
	}
	return got, err
}

func (l providerOf) Check(ctx context.Context, n cluster.Need) ([]cluster.Finding, error) {
	return crashingCall(ctx, l.p, "check", false, func(ctx context.Context) ([]cluster.Finding, error) {
		found, err := l.Client.Check(ctx, n)
		if l.p.lab.Blind {
			found = nil
		}
		return found, err
	})
}

func (l providerOf) Catalog(ctx context.Context, o cluster.Owner, k cluster.Kind) ([]cluster.Entry, error) {
	return crashingCall(ctx, l.p, "catalog "+string(k), false, func(ctx context.Context) ([]cluster.Entry, error) { return l.Client.Catalog(ctx, o, k) })
}

func (l providerOf) Create(ctx context.Context, w cluster.DesiredResource) (cluster.Call, error) {
	l.p.lab.mayCreate(w)
	return crashingCall(ctx, l.p, "create "+string(w.Kind), true, func(ctx context.Context) (cluster.Call, error) { return l.Client.Create(ctx, w) })
}

func (l providerOf) Act(ctx context.Context, r cluster.Ref, a cluster.Action) (cluster.Call, error) {
	l.p.lab.mayAct(r, a)
	return crashingCall(ctx, l.p, string(a)+" "+string(r.Kind), true, func(ctx context.Context) (cluster.Call, error) { return l.Client.Act(ctx, r, a) })
}

func (l providerOf) Poll(ctx context.Context, c cluster.Call) (cluster.Progress, error) {
	return crashingCall(ctx, l.p, "poll "+string(c.Ref.Kind), false, func(ctx context.Context) (cluster.Progress, error) { return l.Client.Poll(ctx, c) })
}

func (l providerOf) Get(ctx context.Context, r cluster.Ref) (cluster.Resource, error) {
	return crashingCall(ctx, l.p, "get "+string(r.Kind), false, func(ctx context.Context) (cluster.Resource, error) { return l.Client.Get(ctx, r) })
}

func (l providerOf) Find(ctx context.Context, w cluster.DesiredResource) (cluster.Resource, error) {
	return crashingCall(ctx, l.p, "find "+string(w.Kind), false, func(ctx context.Context) (cluster.Resource, error) { return l.Client.Find(ctx, w) })
}

func (l providerOf) List(ctx context.Context, f cluster.Filter, at cluster.Cursor) (cluster.Page, error) {
	return crashingCall(ctx, l.p, "list "+string(f.Kind), false, func(ctx context.Context) (cluster.Page, error) { return l.Client.List(ctx, f, at) })
}
