package resources

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/providers"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
)

// powerOp starts or stops the VM of a node. The row has the job of the current
// call, the number of tries, and the deadline of the current try.
type powerOp struct {
	node    *cluster.Node
	row     *cluster.JournalRow
	action  cluster.Action // the call to make; empty: none
	failure error
	done    bool
	dirty   bool
	limits  Bounds
	force   bool // a forced stop is allowed as the last try
}

// powerOps start and stop the VMs of nodes.
type powerOps struct{ *Attempt }

// setPower starts or stops nodes, Settings.PerCluster at a time. It continues
// after a failure. open is the number of operations in progress; failure names
// all nodes that failed.
func (w powerOps) setPower(ctx context.Context, nodes []*cluster.Node, to cluster.Power, b Bounds, force bool) (open int, failure, err error) {
	ops := make([]*powerOp, 0, len(nodes))
	for _, n := range nodes {
		ops = append(ops, &powerOp{node: n, row: w.Row(n.Key), limits: b, force: force})
	}
	most := w.options.Settings.PerCluster
	for i := 0; i < len(ops) && open < most; {
		batch := ops[i:min(i+most-open, len(ops))]
		i += len(batch)
		if ctx.Err() != nil {
			return 0, nil, context.Cause(ctx)
		}
		providers.Each(batch, most, func(l *powerOp) { w.checkPower(ctx, l, to) })
		if err := w.savePowerOps(ctx, batch); err != nil {
			return 0, nil, err
		}
		providers.Each(Filter(batch, func(l *powerOp) bool { return l.action != "" }), most, func(l *powerOp) { w.sendPower(ctx, l) })
		if err := w.savePowerOps(context.WithoutCancel(ctx), batch); err != nil {
			return 0, nil, err
		}
		providers.Each(Filter(batch, func(l *powerOp) bool { return l.action != "" && l.failure == nil && l.row.JobID == "" }), most, func(l *powerOp) { w.checkPower(ctx, l, to) })
		if err := w.savePowerOps(ctx, batch); err != nil {
			return 0, nil, err
		}
		for _, l := range batch {
			if !l.done && l.failure == nil {
				open++
			}
		}
		if i < len(ops) && open >= most {
			open += len(ops) - i
		}
	}
	return open, joinFailures(ops), nil
}

// checkPower reads the power state of a VM and sets the next call.
func (w powerOps) checkPower(ctx context.Context, l *powerOp, to cluster.Power) {
	again := l.action != ""
	l.action = ""
	if l.row == nil || !l.row.Phase.Open() || l.row.ProviderID == "" {
		l.failure = cluster.NodeMissing.Errorf("%s has no VM", l.node.Name)
		return
	}
	mine := l.row.RunID == w.Task.RunID() && l.row.Step == w.Task.Step()
	if mine && l.row.JobID != "" {
		p, err := w.Provider.Poll(ctx, cluster.Call{Job: l.row.JobID, Ref: w.Ref(l.row)})
		open := err == nil && !p.Done || err != nil && fault.Of(err).Class == fault.Transient
		if open && w.Now.Before(l.row.NextAt) {
			return
		}
		l.row.JobID, l.dirty = "", true
		if err == nil && p.Err != nil {
			l.noteFailure(providers.Translate(p.Err, w.Cluster.Provider, "job"))
			l.row.NextAt = w.Now.Add(failurePause(l.row.Attempts)) // this try has ended before its deadline
		}
	}
	r, err := w.Provider.Get(ctx, w.Ref(l.row))
	switch {
	case errors.Is(err, cluster.ErrGone):
		l.failure = cluster.NodeMissing.Errorf("%s (%s) is gone", l.node.Name, l.row.ProviderID)
	case err != nil && (fault.Of(err).Class != fault.Transient || w.Waited() > l.limits.Timeout):
		l.failure = err
	case err != nil:
		if l.row.LastCode != fault.Of(err).Code { // the text of the same fault may differ each time
			l.noteFailure(err)
		}
	case r.Identity != l.row.Identity && l.row.Identity != "":
		l.failure = cluster.NodeMissing.Errorf("%s: the VM %s is another one", l.node.Name, r.ID)
	case r.Power == to:
		l.finish()
	case r.Power == cluster.PowerBroken || r.Power == cluster.PowerGone:
		l.failure = cluster.NodeMissing.Errorf("%s is %s at the provider", l.node.Name, r.State)
	case again, mine && !l.row.NextAt.IsZero() && w.Now.Before(l.row.NextAt):
	default:
		l.planTry(w.Attempt, to)
	}
}

// planTry sets the call of the next try. Without tries left, the operation fails
// with the failure of the last one.
func (l *powerOp) planTry(w *Attempt, to cluster.Power) {
	row := l.row
	if row.RunID != w.Task.RunID() || row.Step != w.Task.Step() {
		row.RunID, row.Step, row.Attempts, row.LastCode, row.LastError = w.Task.RunID(), w.Task.Step(), 0, "", ""
	}
	l.action = cluster.Start
	if to == cluster.PoweredOff {
		l.action = cluster.Stop
	}
	switch last := FailureOf(row); {
	case row.Attempts < l.limits.Tries && (last == nil || fault.Of(last).Class == fault.Transient || l.force):
	case to == cluster.PoweredOff && l.force && row.Attempts <= l.limits.Tries:
		l.action = cluster.ForceStop
	default:
		l.action = ""
		l.failure = last
		if last == nil {
			l.failure = cluster.NodeNotStopped.Errorf("%s is not %s after %d tries", l.node.Name, to, row.Attempts)
			if to == cluster.PoweredOn {
				l.failure = cluster.NodeMissing.Errorf("%s is not %s after %d tries", l.node.Name, to, row.Attempts)
			}
		}
		return
	}
	row.Attempts++
	row.NextAt, l.dirty = w.Now.Add(l.limits.Timeout), true
}

// sendPower makes the call of an operation that was saved.
func (w powerOps) sendPower(ctx context.Context, l *powerOp) {
	if ctx.Err() != nil {
		return
	}
	call, err := w.Provider.Act(ctx, w.Ref(l.row), l.action)
	switch {
	case errors.Is(err, cluster.ErrGone):
		l.failure = cluster.NodeMissing.Errorf("%s (%s) is gone", l.node.Name, l.row.ProviderID)
	case err != nil:
		l.noteFailure(err)
		l.row.NextAt = w.Now.Add(failurePause(l.row.Attempts))
	default:
		l.row.JobID, l.dirty = call.Job, true
	}
}

// finish clears the row of a VM that has reached its power state.
func (l *powerOp) finish() {
	l.done = true
	if l.row.JobID != "" || l.row.LastCode != "" || !l.row.NextAt.IsZero() {
		l.row.JobID, l.row.LastCode, l.row.LastError, l.row.NextAt, l.row.Attempts, l.dirty = "", "", "", time.Time{}, 0, true
	}
}

func (l *powerOp) noteFailure(err error) {
	l.row.LastCode, l.row.LastError, l.dirty = fault.Of(err).Code, fault.Message(err), true
}

func (w powerOps) savePowerOps(ctx context.Context, ops []*powerOp) error {
	var change cluster.Change
	for _, l := range ops {
		if l.dirty {
			change.Journal = append(change.Journal, l.row)
		}
	}
	if err := w.Save(ctx, change); err != nil {
		return err
	}
	for _, l := range ops {
		l.dirty = false
	}
	return nil
}

// joinFailures returns the fault of the first failed operation with the names
// and texts of all; nil if none has failed.
func joinFailures(ops []*powerOp) error {
	var first error
	var names, texts []string
	for _, l := range ops {
		if l.failure == nil {
			continue
		}
		if first == nil {
			first = l.failure
		}
		names, texts = append(names, l.node.Name), append(texts, fault.Message(l.failure))
	}
	if first == nil {
		return nil
	}
	return fault.Of(first).Errorf("%s", strings.Join(texts, "; ")).With("resource", strings.Join(names, ","))
}

// StartNodes starts nodes and waits for them.
func (w *Attempt) StartNodes(ctx context.Context, nodes []*cluster.Node, b Bounds) outcome.Outcome {
	open, failure, err := powerOps{w}.setPower(ctx, nodes, cluster.PoweredOn, b, false)
	switch {
	case err != nil:
		return outcome.Fail(err)
	case open > 0:
		return outcome.Wait(w.options.Settings.Pause(w.Waited()), WaitsForProvider, "the provider starts VMs")
	}
	return outcome.Fail(failure)
}

// StopNodes stops nodes and waits for them.
func (w *Attempt) StopNodes(ctx context.Context, nodes []*cluster.Node, b Bounds, force bool) outcome.Outcome {
	open, failure, err := powerOps{w}.setPower(ctx, nodes, cluster.PoweredOff, b, force)
	switch {
	case err != nil:
		return outcome.Fail(err)
	case open > 0:
		return outcome.Wait(w.options.Settings.Pause(w.Waited()), WaitsForProvider, "the provider stops VMs")
	}
	return outcome.Fail(failure)
}
