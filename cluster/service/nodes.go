package service

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
)

// nodePool describes the desired nodes of a role.
type nodePool struct {
	role     cluster.Role
	count    int
	version  string
	template cluster.Entity
	prefix   string // of the keys of their rows; empty: all nodes of the role belong to the pool
}

// owns reports a row of a VM in the pool.
func (c nodePool) owns(row *cluster.JournalRow) bool {
	return row != nil && row.Kind == cluster.VM && row.Spec.Role == c.role && strings.HasPrefix(row.Key, c.prefix)
}

// nodePoolOf returns the desired nodes of a cluster in a role.
func nodePoolOf(c *cluster.Cluster, role cluster.Role) nodePool {
	if role == cluster.Control {
		return nodePool{role: role, count: c.ControlCount, version: c.Version, template: c.Template}
	}
	return nodePool{role: role, count: c.NodeCount, version: c.Version, template: c.Template}
}

// fillPool creates the missing nodes of a pool, Settings.PerCluster at a time.
// It first continues the nodes that earlier runs have begun. If the provider
// refuses, it begins no more nodes, follows those in progress to their end, and
// then fails.
func (w *work) fillPool(ctx context.Context, want nodePool, b bounds) outcome.Outcome {
	for {
		out, more := w.fillOnce(ctx, want, b)
		if !more || w.s.options.Now().Sub(w.began) >= maxFill {
			return out
		}
		if err := w.read(ctx); err != nil { // as at the begin of an attempt
			return outcome.Fail(err)
		}
		if err := w.checkCurrent(); err != nil {
			return outcome.Fail(err)
		}
	}
}

// maxFill limits one call of fillPool, so that the progress of the run is saved.
const maxFill = 10 * time.Second

// fillOnce is one round of fillPool. more: the next VMs may be created at once.
func (w *work) fillOnce(ctx context.Context, want nodePool, b bounds) (out outcome.Outcome, more bool) {
	if err := w.removeGone(ctx, want.role); err != nil {
		return outcome.Fail(err), false
	}
	ops := w.openRowOps(want, b)
	living := len(w.poolNodes(want))
	failure, pause := w.failureOf(want, b, ops), time.Second
	if failure == nil {
		fresh, err := w.createNodes(want, living, len(filter(ops, (*rowOp).open)), b)
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
	open := filter(ops, (*rowOp).open)
	switch {
	case len(open) > 0:
		return w.waitFor(open, "the provider creates VMs"), false
	case failure != nil:
		if out := w.awaitFirstHeartbeats(ctx); !out.IsDone() {
			return out, false
		}
		return outcome.Fail(failure), false
	case w.countPresent(want, ops) < want.count:
		return outcome.Wait(pause, "VMs", "the next VMs are created"), more
	}
	return outcome.Done(), false
}

// bootGrace is how long a failed run waits for the first heartbeats of the nodes
// that it leaves behind. After the run its join token is no longer valid.
const bootGrace = 5 * time.Minute

// awaitFirstHeartbeats waits for nodes of this run that have not exchanged their
// token, unless the nodes are deleted anyway.
func (w *work) awaitFirstHeartbeats(ctx context.Context) outcome.Outcome {
	doomed := w.c.Desired == cluster.WantDestroyed || w.in.First && w.c.OnFailure != cluster.KeepPartial || w.in.Event == cluster.OnScaleUp && w.s.options.Settings.RollbackScale
	if doomed || !w.caps.SendsHeartbeats {
		return outcome.Done()
	}
	w.consumeSignals()
	d, err := w.s.options.Records.Details(ctx, w.c.UUID)
	if err != nil {
		return outcome.Fail(err)
	}
	silent := filter(w.createdNodes(), func(n *cluster.Node) bool {
		row := w.row(n.Key)
		return row.Phase == cluster.Present && d.Credentials[n.Name] == "" && w.now.Sub(row.PresentAt) < bootGrace
	})
	if len(silent) == 0 {
		return outcome.Done()
	}
	return outcome.Wait(5*time.Second, waitsForNodes, "the nodes that stay have not called home")
}

// unableToJoin returns the nodes that can never send a heartbeat: they have no
// credential, and their join token is no longer valid.
func (w *work) unableToJoin(ctx context.Context) ([]*cluster.Node, error) {
	if !w.caps.SendsHeartbeats {
		return nil, nil
	}
	d, err := w.s.options.Records.Details(ctx, w.c.UUID)
	if err != nil {
		return nil, err
	}
	return filter(w.nodes(""), func(n *cluster.Node) bool {
		row := w.row(n.Key)
		return n.ReadyAt.IsZero() && d.Credentials[n.Name] == "" && row != nil && row.Phase == cluster.Present && row.Origin == cluster.OriginCreated
	}), nil
}

// waitFor returns a Wait until the next poll of open operations.
func (w *work) waitFor(open []*rowOp, text string) outcome.Outcome {
	soonest := w.s.options.Settings.PollLongest
	for _, h := range open {
		since := h.row.IntentAt
		if h.deleting {
			since = h.row.ClosingAt
		}
		next := w.s.pause(w.now.Sub(since))
		if h.row.NextAt.After(w.now) {
			next = h.row.NextAt.Sub(w.now)
		}
		soonest = min(soonest, next)
	}
	return outcome.Wait(max(soonest, time.Millisecond), waitsForProvider, "%s", text)
}

// openRowOps returns the operations on VMs of a pool that are in progress: VMs
// that are being created, and VMs that this run has to delete again.
func (w *work) openRowOps(want nodePool, b bounds) []*rowOp {
	var ops []*rowOp
	for i := range w.rec.Journal {
		row := &w.rec.Journal[i]
		if !want.owns(row) {
			continue
		}
		switch {
		case row.Phase == cluster.Closing && row.RunID == w.t.RunID():
			ops = append(ops, w.newRowOp(row, true, bounds{cluster.NodeRemoval, 0}))
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
func (w *work) createNodes(want nodePool, living, busy int, b bounds) ([]*rowOp, error) {
	var ops []*rowOp
	next := cluster.NextOrdinal(w.rec, want.role)
	for range min(want.count-living, w.s.options.Settings.PerCluster-busy) {
		try, notBefore := nextTry(w.rec.Journal, w.t.RunID(), want, ops)
		if try > b.tries || w.now.Before(notBefore) {
			break
		}
		name := cluster.NodeName(w.c, want.role, next)
		row := w.newRow(cluster.VM, name, cluster.Spec{
			Zone: w.c.Zone.ID, Offering: w.c.Offering.ID, Template: want.template.ID, Network: w.c.Network.ID, KeyPair: w.c.KeyPair, DiskGB: w.c.DiskGB, Role: want.role,
		})
		row.Attempt = try
		node := &cluster.Node{
			ClusterID: w.c.ID, Key: row.Key, Name: name, Role: want.role, Ordinal: next, Version: want.version, Template: want.template,
		}
		ops = append(ops, &rowOp{row: row, node: node, limits: b, isNew: true, dirty: true})
		next++
	}
	return ops, nil
}

// nextTry returns the number of the try for the next node of a pool, and when it
// may begin. The node replaces a node that failed in this run and has no
// replacement yet, or else it is a first try.
func nextTry(journal []cluster.JournalRow, run string, want nodePool, more []*rowOp) (try int, notBefore time.Time) {
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
func (w *work) failureOf(want nodePool, b bounds, ops []*rowOp) error {
	for _, h := range ops {
		if h.failure != nil && !h.deleting && h.row.Phase.Open() {
			return h.failure
		}
	}
	rows := make([]*cluster.JournalRow, 0, len(w.rec.Journal))
	for i := range w.rec.Journal {
		rows = append(rows, &w.rec.Journal[i])
	}
	for _, h := range ops {
		rows = append(rows, h.row)
	}
	for _, row := range rows {
		if !want.owns(row) || row.RunID != w.t.RunID() || !givenUp(row) {
			continue
		}
		err := failureOf(row)
		if err == nil {
			err = cluster.NodeMissing.Errorf("%s was lost before it was there", row.Name).With("resource", row.Name)
		}
		if fault.Of(err).Class != fault.Transient && fault.Of(err) != cluster.NodeMissing || row.Attempt >= b.tries {
			return err
		}
	}
	return nil
}

// countPresent counts the nodes of a pool whose VM is present.
func (w *work) countPresent(want nodePool, ops []*rowOp) int {
	here := 0
	for _, n := range w.poolNodes(want) {
		if w.phaseOf(n) == cluster.Present {
			here++
		}
	}
	for _, h := range ops { // nodes that were created in this attempt are not in the record yet
		if h.row.Phase == cluster.Present && h.node != nil && !slices.ContainsFunc(w.rec.Nodes, func(n cluster.Node) bool { return n.Key == h.node.Key }) {
			here++
		}
	}
	return here
}

// poolNodes returns the nodes of a pool without removed ones.
func (w *work) poolNodes(want nodePool) []*cluster.Node {
	return filter(w.nodes(want.role), func(n *cluster.Node) bool { return strings.HasPrefix(n.Key, want.prefix) })
}

// phaseOf returns the phase of a node's VM.
func (w *work) phaseOf(n *cluster.Node) cluster.Phase {
	switch row := w.row(n.Key); {
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
func (w *work) removeGone(ctx context.Context, role cluster.Role) error {
	var change cluster.Change
	for _, n := range w.nodes(role) {
		if !w.phaseOf(n).Open() {
			n.Removed = w.now
			change.Nodes = append(change.Nodes, n)
		}
	}
	return w.save(ctx, change)
}

// deleteRows deletes the resources of rows, with proof that they are gone. It
// continues after a failure. failure is the first one; open are the operations
// in progress.
func (w *work) deleteRows(ctx context.Context, rows []*cluster.JournalRow, timeout time.Duration) (open []*rowOp, failure, err error) {
	var ops []*rowOp
	for _, row := range rows {
		if row != nil && row.Phase.Open() && row.Origin != cluster.OriginGiven {
			ops = append(ops, w.newRowOp(row, true, bounds{timeout, 0}))
		}
	}
	slices.SortStableFunc(ops, func(a, b *rowOp) int { return underWay(b) - underWay(a) }) // those under way first
	for len(ops) > 0 && len(open) < w.s.options.Settings.PerCluster {
		batch := ops[:min(w.s.options.Settings.PerCluster-len(open), len(ops))]
		ops = ops[len(batch):]
		if err := w.advance(ctx, batch); err != nil {
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

// rowsOf returns the journal rows of the VMs of nodes.
func (w *work) rowsOf(nodes []*cluster.Node) []*cluster.JournalRow {
	var rows []*cluster.JournalRow
	for _, n := range nodes {
		if row := w.row(n.Key); row != nil {
			rows = append(rows, row)
		}
	}
	return rows
}
