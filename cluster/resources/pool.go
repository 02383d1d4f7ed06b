package resources

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
)

// Pool describes the desired nodes of a role.
type Pool struct {
	Role     cluster.Role
	Count    int
	Version  string
	Template cluster.Entity
	Prefix   string // of the keys of their rows; empty: all nodes of the role belong to the pool
}

// owns reports a row of a VM in the pool.
func (c Pool) owns(row *cluster.JournalRow) bool {
	return row != nil && row.Kind == cluster.VM && row.Spec.Role == c.Role && strings.HasPrefix(row.Key, c.Prefix)
}

// PoolOf returns the desired nodes of a cluster in a role.
func PoolOf(c *cluster.Cluster, role cluster.Role) Pool {
	if role == cluster.Control {
		return Pool{Role: role, Count: c.ControlCount, Version: c.Version, Template: c.Template}
	}
	return Pool{Role: role, Count: c.NodeCount, Version: c.Version, Template: c.Template}
}

// FillPool creates the missing nodes of a pool, Settings.PerCluster at a time.
// It first continues the nodes that earlier runs have begun. If the provider
// refuses, it begins no more nodes, follows those in progress to their end, and
// then fails.
func (w *Attempt) FillPool(ctx context.Context, want Pool, b Bounds) outcome.Outcome {
	for {
		out, more := pools{rowOps{w}}.fillOnce(ctx, want, b)
		if !more || w.options.Now().Sub(w.began) >= maxFill {
			return out
		}
		if err := w.Reload(ctx); err != nil { // as at the begin of an attempt
			return outcome.Fail(err)
		}
		if err := w.CheckCurrent(); err != nil {
			return outcome.Fail(err)
		}
	}
}

// pools fill pools of nodes.
type pools struct{ rowOps }

// maxFill limits one call of FillPool, so that the progress of the run is saved.
const maxFill = 10 * time.Second

// fillOnce is one round of FillPool. more: the next VMs may be created at once.
func (w pools) fillOnce(ctx context.Context, want Pool, b Bounds) (out outcome.Outcome, more bool) {
	if err := w.removeGone(ctx, want.Role); err != nil {
		return outcome.Fail(err), false
	}
	ops := w.openRowOps(want, b)
	living := len(w.poolNodes(want))
	failure, pause := w.failureOf(want, b, ops), time.Second
	if failure == nil {
		fresh, err := w.createNodes(want, living, len(Filter(ops, (*rowOp).open)), b)
		if err != nil {
			return outcome.Fail(err), false
		}
		if ops = append(ops, fresh...); len(fresh) > 0 {
			pause, more = time.Millisecond, true // if they are present, the next may be created at once
		}
	}
	if err := w.advance(ctx, ops); err != nil {
		return outcome.Fail(err), false
	}
	if failure == nil {
		failure = w.failureOf(want, b, ops)
	}
	open := Filter(ops, (*rowOp).open)
	switch {
	case len(open) > 0:
		return w.WaitFor(open, "the provider creates VMs"), false
	case failure != nil:
		if out := w.awaitFirstHeartbeats(ctx); !out.IsDone() {
			return out, false
		}
		return outcome.Fail(failure), false
	case w.countPresent(want, ops) < want.Count:
		return outcome.Wait(pause, "VMs", "the next VMs are created"), more
	}
	return outcome.Done(), false
}

// bootGrace is how long a failed run waits for the first heartbeats of the nodes
// that it leaves behind. After the run its join token is no longer valid.
const bootGrace = 5 * time.Minute

// awaitFirstHeartbeats waits for nodes of this run that have not exchanged their
// token, unless the nodes are deleted anyway.
func (w pools) awaitFirstHeartbeats(ctx context.Context) outcome.Outcome {
	doomed := w.Cluster.Desired == cluster.WantDestroyed || w.Input.First && w.Cluster.OnFailure != cluster.KeepPartial || w.Input.Event == cluster.OnScaleUp && w.options.Settings.RollbackScale
	if doomed || !w.Caps.SendsHeartbeats {
		return outcome.Done()
	}
	w.ConsumeSignals()
	d, err := w.options.Store.Details(ctx, w.Cluster.UUID)
	if err != nil {
		return outcome.Fail(err)
	}
	silent := Filter(w.CreatedNodes(), func(n *cluster.Node) bool {
		row := w.Row(n.Key)
		return row.Phase == cluster.Present && d.Credentials[n.Name] == "" && w.Now.Sub(row.PresentAt) < bootGrace
	})
	if len(silent) == 0 {
		return outcome.Done()
	}
	return outcome.Wait(5*time.Second, WaitsForNodes, "the nodes that stay have not called home")
}

// UnableToJoin returns the nodes that can never send a heartbeat: they have no
// credential, and their join token is no longer valid.
func (w *Attempt) UnableToJoin(ctx context.Context) ([]*cluster.Node, error) {
	if !w.Caps.SendsHeartbeats {
		return nil, nil
	}
	d, err := w.options.Store.Details(ctx, w.Cluster.UUID)
	if err != nil {
		return nil, err
	}
	return Filter(w.Nodes(""), func(n *cluster.Node) bool {
		row := w.Row(n.Key)
		return n.ReadyAt.IsZero() && d.Credentials[n.Name] == "" && row != nil && row.Phase == cluster.Present && row.Origin == cluster.OriginCreated
	}), nil
}

// Ops are operations on journal rows.
type Ops []*rowOp

// WaitFor returns a Wait until the next poll of open operations.
func (w *Attempt) WaitFor(open Ops, text string) outcome.Outcome {
	soonest := w.options.Settings.PollLongest
	for _, h := range open {
		since := h.row.IntentAt
		if h.deleting {
			since = h.row.ClosingAt
		}
		next := w.options.Settings.Pause(w.Now.Sub(since))
		if h.row.NextAt.After(w.Now) {
			next = h.row.NextAt.Sub(w.Now)
		}
		soonest = min(soonest, next)
	}
	return outcome.Wait(max(soonest, time.Millisecond), WaitsForProvider, "%s", text)
}

// openRowOps returns the operations on VMs of a pool that are in progress: VMs
// that are being created, and VMs that this run has to delete again.
func (w pools) openRowOps(want Pool, b Bounds) []*rowOp {
	var ops []*rowOp
	for i := range w.Record.Journal {
		row := &w.Record.Journal[i]
		if !want.owns(row) {
			continue
		}
		switch {
		case row.Phase == cluster.Closing && row.RunID == w.Task.RunID():
			ops = append(ops, w.newRowOp(row, true, Bounds{Timeout: cluster.NodeRemoval, Tries: 0}))
		case row.Phase == cluster.Intent || row.Phase == cluster.Accepted:
			if h := w.newRowOp(row, false, b); h.node != nil {
				ops = append(ops, h)
			}
		}
	}
	return ops
}

// createNodes returns operations that create missing nodes, as many as the limit
// of concurrent calls allows.
func (w pools) createNodes(want Pool, living, busy int, b Bounds) ([]*rowOp, error) {
	var ops []*rowOp
	next := cluster.NextOrdinal(w.Record, want.Role)
	for range min(want.Count-living, w.options.Settings.PerCluster-busy) {
		try, notBefore := nextTry(w.Record.Journal, w.Task.RunID(), want, ops)
		if try > b.Tries || w.Now.Before(notBefore) {
			break
		}
		name := cluster.NodeName(w.Cluster, want.Role, next)
		row := w.NewRow(cluster.VM, name, cluster.Spec{
			Zone: w.Cluster.Zone.ID, Offering: w.Cluster.Offering.ID, Template: want.Template.ID, Network: w.Cluster.Network.ID, KeyPair: w.Cluster.KeyPair, DiskGB: w.Cluster.DiskGB, Role: want.Role,
		})
		row.Attempt = try
		node := &cluster.Node{
			ClusterID: w.Cluster.ID, Key: row.Key, Name: name, Role: want.Role, Ordinal: next, Version: want.Version, Template: want.Template,
		}
		ops = append(ops, &rowOp{row: row, node: node, limits: b, isNew: true, dirty: true})
		next++
	}
	return ops, nil
}

// nextTry returns the number of the try for the next node of a pool, and when it
// may begin. The node replaces a node that failed in this run and has no
// replacement yet, or else it is a first try.
func nextTry(journal []cluster.JournalRow, run string, want Pool, more []*rowOp) (try int, notBefore time.Time) {
	failed, created := map[int]int{}, map[int]int{}
	last := map[int]time.Time{}
	count := func(row *cluster.JournalRow) {
		if !want.owns(row) || row.RunID != run {
			return
		}
		created[row.Attempt]++
		if givenUp(row) {
			failed[row.Attempt]++
			for _, at := range []time.Time{row.GoneAt, row.ClosingAt} {
				if at.After(last[row.Attempt]) {
					last[row.Attempt] = at
				}
			}
		}
	}
	for i := range journal {
		count(&journal[i])
	}
	for _, h := range more {
		count(h.row)
	}
	for try = 1; failed[try] > 0; try++ {
		if failed[try] > created[try+1] {
			return try + 1, last[try].Add(failurePause(try))
		}
	}
	return 1, time.Time{}
}

// givenUp reports a VM that was lost or unusable before it was present.
func givenUp(row *cluster.JournalRow) bool {
	return row.PresentAt.IsZero() && row.Origin == cluster.OriginCreated && (row.Phase == cluster.Gone || row.Phase == cluster.Closing || row.Phase == cluster.Leaked)
}

// failureOf returns the failure that prevents a pool from reaching its size in
// this run; nil as long as there is none.
func (w pools) failureOf(want Pool, b Bounds, ops []*rowOp) error {
	for _, h := range ops {
		if h.failure != nil && !h.deleting && h.row.Phase.Open() {
			return h.failure
		}
	}
	rows := make([]*cluster.JournalRow, 0, len(w.Record.Journal))
	for i := range w.Record.Journal {
		rows = append(rows, &w.Record.Journal[i])
	}
	for _, h := range ops {
		rows = append(rows, h.row)
	}
	for _, row := range rows {
		if !want.owns(row) || row.RunID != w.Task.RunID() || !givenUp(row) {
			continue
		}
		err := FailureOf(row)
		if err == nil {
			err = cluster.NodeMissing.Errorf("%s was lost before it was there", row.Name).With("resource", row.Name)
		}
		if fault.Of(err).Class != fault.Transient && fault.Of(err) != cluster.NodeMissing || row.Attempt >= b.Tries {
			return err
		}
	}
	return nil
}

// countPresent counts the nodes of a pool whose VM is present.
func (w pools) countPresent(want Pool, ops []*rowOp) int {
	here := 0
	for _, n := range w.poolNodes(want) {
		if w.PhaseOf(n) == cluster.Present {
			here++
		}
	}
	for _, h := range ops { // nodes that were created in this attempt are not in the record yet
		if h.row.Phase == cluster.Present && h.node != nil && !slices.ContainsFunc(w.Record.Nodes, func(n cluster.Node) bool { return n.Key == h.node.Key }) {
			here++
		}
	}
	return here
}

// poolNodes returns the nodes of a pool without removed ones.
func (w pools) poolNodes(want Pool) []*cluster.Node {
	return Filter(w.Nodes(want.Role), func(n *cluster.Node) bool { return strings.HasPrefix(n.Key, want.Prefix) })
}

// PhaseOf returns the phase of a node's VM.
func (w *Attempt) PhaseOf(n *cluster.Node) cluster.Phase {
	switch row := w.Row(n.Key); {
	case row != nil:
		return row.Phase
	case n.VMID != "":
		return cluster.Present
	default:
		return cluster.NeverCreated
	}
}

// removeGone marks nodes as removed whose VM was never created or is proven
// gone.
func (w pools) removeGone(ctx context.Context, role cluster.Role) error {
	var change cluster.Change
	for _, n := range w.Nodes(role) {
		if !w.PhaseOf(n).Open() {
			n.Removed = w.Now
			change.Nodes = append(change.Nodes, n)
		}
	}
	return w.Save(ctx, change)
}

// DeleteRows deletes the resources of rows, with proof that they are gone. It
// continues after a failure. failure is the first one; open are the operations
// in progress.
func (w *Attempt) DeleteRows(ctx context.Context, rows []*cluster.JournalRow, timeout time.Duration) (open Ops, failure, err error) {
	r := rowOps{w}
	var ops []*rowOp
	for _, row := range rows {
		if row != nil && row.Phase.Open() && row.Origin != cluster.OriginGiven {
			ops = append(ops, r.newRowOp(row, true, Bounds{Timeout: timeout, Tries: 0}))
		}
	}
	slices.SortStableFunc(ops, func(a, b *rowOp) int { return underWay(b) - underWay(a) }) // those under way first
	for len(ops) > 0 && len(open) < w.options.Settings.PerCluster {
		batch := ops[:min(w.options.Settings.PerCluster-len(open), len(ops))]
		ops = ops[len(batch):]
		if err := r.advance(ctx, batch); err != nil {
			return nil, nil, err
		}
		for _, h := range batch {
			switch {
			case h.open():
				open = append(open, h)
			case h.failure != nil && failure == nil:
				failure = h.failure
			}
		}
	}
	return append(open, ops...), failure, nil
}

func underWay(h *rowOp) int {
	if h.row.Phase == cluster.Closing && h.row.JobID != "" {
		return 1
	}
	return 0
}

// RowsOf returns the journal rows of the VMs of nodes.
func (w *Attempt) RowsOf(nodes []*cluster.Node) []*cluster.JournalRow {
	var rows []*cluster.JournalRow
	for _, n := range nodes {
		if row := w.Row(n.Key); row != nil {
			rows = append(rows, row)
		}
	}
	return rows
}

// CreatedNodes returns the nodes that this run has created and that still exist.
func (w *Attempt) CreatedNodes() []*cluster.Node {
	return Filter(w.Nodes(""), func(n *cluster.Node) bool {
		row := w.Row(n.Key)
		return row != nil && row.RunID == w.Task.RunID()
	})
}
