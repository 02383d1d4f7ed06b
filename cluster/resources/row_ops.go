package resources

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/bootstrap"
	"github.com/pawl-dev/pawl/cluster/providers"
	"github.com/pawl-dev/pawl/cluster/records"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
)

// rowOp creates or deletes the resource of one journal row in one attempt of a
// step.
//
//	create  intent ─▶ Create ─▶ accepted ─▶ poll ─▶ read back ─▶ present
//	delete  closing ─▶ Act(Destroy) ─▶ poll ─▶ read back: ErrGone ─▶ gone
//
// An attempt advances all its operations together: it reads the resources, saves
// the results and the intended calls in one Commit, makes the calls, and saves
// their answers in one Commit. A crash at any moment leaves rows that record
// which calls may have been made.
type rowOp struct {
	row      *cluster.JournalRow
	node     *cluster.Node // of its VM
	deleting bool
	limits   Bounds

	send    cluster.JournalAction // the call to make after the row is saved; empty: none
	lookup  cluster.Lookup
	failure error // final for this run
	done    bool
	waits   bool                          // no more work in this attempt
	isNew   bool                          // created in this attempt: no lookup is needed
	dirty   bool                          // to be saved
	onSave  func(c *cluster.Cluster) bool // change of the cluster that is saved with the row; false: no change
}

// rowOps are the operations of an attempt on journal rows.
type rowOps struct{ *Attempt }

// open reports an operation that has neither ended nor failed.
func (h *rowOp) open() bool { return !h.done && h.failure == nil }

// newRowOp returns the operation on a row for this run. A row of an earlier run
// is taken over without its failures.
func (w rowOps) newRowOp(row *cluster.JournalRow, deleting bool, b Bounds) *rowOp {
	h := &rowOp{row: row, deleting: deleting, limits: b, isNew: row.ID == 0}
	for i := range w.Record.Nodes {
		if n := &w.Record.Nodes[i]; row.Key != "" && n.Key == row.Key {
			h.node = n
		}
	}
	if row.RunID != w.Task.RunID() && row.Phase.Open() && row.Origin != cluster.OriginGiven && (deleting || row.Phase != cluster.Present) {
		row.RunID, row.Step, row.LastCode, row.LastError, row.NextAt, h.dirty = w.Task.RunID(), w.Task.Step(), "", "", time.Time{}, true
		if !deleting {
			row.Attempt, row.Attempts = 1, 0
		}
	}
	if row.RunID == w.Task.RunID() && !h.isNew && !(deleting && row.NextAt.IsZero()) { // a failed create does not prevent the deletion
		if h.failure = h.finalFailure(); h.failure == nil {
			h.failure = h.jobFailed()
		}
	}
	return h
}

// maxRounds is the maximum number of rounds in one attempt. A provider that answers
// at once needs no more to create a resource and return it.
const maxRounds = 4

// advance advances operations as far as possible without waiting.
func (w rowOps) advance(ctx context.Context, ops []*rowOp) error {
	for range maxRounds {
		if ctx.Err() != nil { // a safe point: nothing is under way
			return context.Cause(ctx)
		}
		waiting := Filter(ops, func(h *rowOp) bool { return h.open() && !h.waits && h.send == "" })
		providers.Each(waiting, w.options.Settings.PerCluster, func(h *rowOp) { w.advanceRow(ctx, h) })
		for _, h := range ops {
			if h.send == cluster.SendCreate { // the lookups may have taken a while
				h.row.IntentAt = w.options.Now()
			}
		}
		if err := w.saveIntents(ctx, ops); err != nil {
			return err
		}
		sends := Filter(ops, func(h *rowOp) bool { return h.send != "" })
		if len(sends) == 0 {
			return nil
		}
		if err := w.sendCalls(ctx, sends); err != nil {
			return err
		}
		// Answers are saved even if the run is being cancelled.
		if err := w.saveRows(context.WithoutCancel(ctx), ops); err != nil {
			return err
		}
	}
	return nil
}

// saveIntents saves rows before their calls. The first write with nodes also
// stores their join token.
func (w rowOps) saveIntents(ctx context.Context, ops []*rowOp) error {
	if !slices.ContainsFunc(ops, func(h *rowOp) bool { return h.send == cluster.SendCreate && h.node != nil }) {
		return w.saveRows(ctx, ops)
	}
	token, issued := w.options.Tokens.Issue(w.Task.RunID(), w.Now)
	if token == nil {
		err := w.saveRows(ctx, ops)
		if err == nil {
			w.expect(ops)
		}
		return err
	}
	err := w.saveRows(ctx, ops, token)
	if err == nil {
		issued()
	}
	return err
}

// saveRows saves changed rows and nodes, with amendments of the cluster, in one
// Commit. If another writer has changed the cluster, it repeats the amendments
// first and then writes the rows.
func (w rowOps) saveRows(ctx context.Context, ops []*rowOp, amendments ...records.Amendment) error {
	withDetails := len(amendments) > 0
	for _, h := range ops {
		if h.dirty && h.onSave != nil {
			amendments = append(amendments, func(c *cluster.Cluster, _ *cluster.Details) bool { return h.onSave(c) })
		}
	}
	edit := func(c *cluster.Cluster, d *cluster.Details) (changed bool) {
		for _, amend := range amendments {
			changed = amend(c, d) || changed
		}
		return changed
	}
	before := records.Pair{Cluster: w.Cluster}
	if withDetails {
		var err error
		if before.Details, err = w.Details(ctx); err != nil {
			return err
		}
	}
	after := before.Copy()
	if !edit(after.Cluster, after.Details) {
		return w.commitRows(ctx, ops, cluster.Change{})
	}
	err := w.commitRows(ctx, ops, cluster.Change{Cluster: after.Cluster, Details: records.Changed(before.Details, after.Details)})
	if errors.Is(err, fault.WriteConflict) {
		if err = w.Amend(ctx, edit); err == nil {
			err = w.commitRows(ctx, ops, cluster.Change{})
		}
		return err
	}
	if err == nil {
		*w.Cluster = *after.Cluster
		if withDetails {
			w.details = after.Details
		}
	}
	return err
}

// commitRows writes changed rows, their nodes and a change in one Commit. It
// writes nothing if there is no change.
func (w rowOps) commitRows(ctx context.Context, ops []*rowOp, change cluster.Change) error {
	for _, h := range ops {
		if !h.dirty {
			continue
		}
		change.Journal = append(change.Journal, h.row)
		if h.node != nil {
			change.Nodes = append(change.Nodes, h.node)
		}
	}
	if err := w.Save(ctx, change); err != nil {
		return err
	}
	for _, h := range ops {
		h.dirty = false
	}
	return nil
}

// advanceRow looks up and decides until the row needs a call, has to wait, or
// has ended.
func (w rowOps) advanceRow(ctx context.Context, h *rowOp) {
	if h.isNew {
		h.isNew, h.send = false, cluster.SendCreate
		return
	}
	if w.Now.Before(h.row.NextAt) { // it failed a moment ago
		h.waits = true
		return
	}
	for asked := false; h.open() && !h.waits && h.send == ""; {
		switch act := h.decide(w.Attempt); act {
		case cluster.LookUpFirst, cluster.FollowJob:
			if asked {
				h.wait(w.Attempt)
				return
			}
			h.lookup, asked = w.lookUp(ctx, h), true
		case cluster.StoreIDs:
			if h.storeFound(*h.lookup.Found); h.row.ProviderID == "" {
				h.wait(w.Attempt)
			}
			if h.row.Phase == cluster.Intent {
				h.row.Phase, h.dirty = cluster.Accepted, true
			}
		case cluster.MarkClosing:
			h.row.Phase, h.row.ClosingAt, h.row.Attempts, h.dirty = cluster.Closing, w.Now, 0, true
		case cluster.SendCreate:
			h.retryCreate(w.Attempt)
		case cluster.SendDelete:
			h.destroy(w.Attempt)
		case cluster.Confirm:
			h.confirm(w.Attempt)
		case cluster.MarkGone, cluster.MarkNeverCreated, cluster.Lost:
			h.closeRow(act, w.Now)
		case cluster.MarkGiven:
			h.row.LeaveToNetwork(w.Now)
			h.done, h.dirty = true, true
		case cluster.NoAction:
			h.done = true
		default:
			h.wait(w.Attempt)
		}
	}
}

func (h *rowOp) decide(w *Attempt) cluster.JournalAction {
	settle := w.options.Settings.Settle
	if h.deleting {
		return cluster.DecideDelete(h.row, h.lookup, w.Now, settle)
	}
	return cluster.DecideCreate(h.row, h.lookup, w.Now, settle, true)
}

// lookUp polls the job of a row, and then reads the resource.
func (w rowOps) lookUp(ctx context.Context, h *rowOp) cluster.Lookup {
	row := h.row
	job := row.JobID
	if job == "" && row.Phase == cluster.Intent && w.Caps.CallIDs {
		job = row.CallID // the answer may be lost: the provider knows the call by our id
	}
	if job != "" {
		p, err := w.Provider.Poll(ctx, cluster.Call{Job: job, Ref: w.Ref(row)})
		switch {
		case err != nil && row.JobID == "": // the call may not have arrived: read the resource
		case errors.Is(err, cluster.CredentialsRefused), err != nil && fault.Of(err).Class == fault.Transient:
			h.lookupFailed(err)
			return cluster.Lookup{Err: err}
		case err != nil: // the job is unknown or expired: read the resource
			row.JobID, h.dirty = "", true
		case !p.Done:
			h.storeIDs(p.Ref)
			if row.JobID == "" {
				row.JobID, h.dirty = job, true
			}
			return cluster.Lookup{Open: true}
		default:
			row.JobID, h.dirty = "", true
			h.storeIDs(p.Ref)
			if p.Err != nil {
				h.noteFailure(providers.Translate(p.Err, w.Cluster.Provider, "job"))
			}
		}
	}
	r, err := w.findResource(ctx, row)
	if err != nil && !errors.Is(err, cluster.ErrGone) {
		h.lookupFailed(err)
	}
	return cluster.LookupOf(r, err)
}

// findResource reads the resource of a row, by its id or else by its
// description.
func (w rowOps) findResource(ctx context.Context, row *cluster.JournalRow) (cluster.Resource, error) {
	if row.ProviderID != "" {
		return w.Provider.Get(ctx, w.Ref(row))
	}
	return w.Provider.Find(ctx, w.desired(row, nil))
}

// Ref returns the reference to the resource of a row.
func (w *Attempt) Ref(row *cluster.JournalRow) cluster.Ref {
	return cluster.Ref{Kind: row.Kind, ID: row.ProviderID, Name: row.Name, Zone: w.Cluster.Zone.ID, Identity: row.Identity}
}

// desired returns the resource of a row as it is sent to the provider.
func (w *Attempt) desired(row *cluster.JournalRow, userData []byte) cluster.DesiredResource {
	spec := row.Spec
	spec.UserData = userData
	return cluster.DesiredResource{
		Kind: row.Kind, Name: row.Name, Key: row.Key, CallID: row.CallID, Owner: w.Cluster.Owner, Spec: spec,
		Tags: map[string]string{cluster.TagInstallation: w.options.Installation, cluster.TagCluster: w.Cluster.UUID, cluster.TagKey: row.Key},
	}
}

// NewRow returns a row with an intent of the current step.
func (w *Attempt) NewRow(kind cluster.Kind, name string, spec cluster.Spec) *cluster.JournalRow {
	return &cluster.JournalRow{
		ClusterID: w.Cluster.ID, Kind: kind, Name: name, Key: w.Task.Key() + "/" + name, RunID: w.Task.RunID(), Step: w.Task.Step(),
		Attempt: 1, Attempts: 1, CallID: control.NewUID(), Phase: cluster.Intent, Origin: cluster.OriginCreated, Spec: spec, IntentAt: w.Now,
	}
}

// retryCreate sends the create of a row again.
func (h *rowOp) retryCreate(w *Attempt) {
	if h.failure = h.finalFailure(); h.failure == nil {
		h.row.Attempts++
		h.row.IntentAt, h.send, h.dirty = w.Now, cluster.SendCreate, true
	}
}

// destroy sends a delete, but only with proof that the resource belongs to the
// cluster. It waits for a resource that is already going away.
func (h *rowOp) destroy(w *Attempt) {
	row, r := h.row, h.lookup.Found
	switch {
	case r != nil && !cluster.Ours(row, *r, w.options.Installation, w.Cluster):
		h.noteFailure(cluster.ProviderRefused.Errorf("%s is not proven to belong to this cluster: it is not deleted", r.ID))
		h.failure = FailureOf(row)
	case r != nil && (r.Power == cluster.PoweringOff || r.Power == cluster.PowerGone) && row.NextAt.IsZero() && w.Waited() > 0:
		h.wait(w)
	default:
		h.send = cluster.SendDelete
	}
}

// confirm handles a resource that was read back. A VM is present once it is
// powered on.
func (h *rowOp) confirm(w *Attempt) {
	r := h.lookup.Found
	h.storeFound(*r)
	switch {
	case h.row.Kind != cluster.VM || r.Power == cluster.PoweredOn:
		h.row.Phase, h.row.PresentAt, h.row.JobID, h.row.LastCode, h.row.LastError = cluster.Present, w.Now, "", "", ""
		h.row.NextAt, h.dirty, h.done = time.Time{}, true, true
		if r.SourceNAT { // clouds make the first address of a network its source NAT
			h.row.LeaveToNetwork(w.Now)
		}
	case r.Power == cluster.PowerBroken:
		if h.row.LastCode == "" {
			h.noteFailure(cluster.NodeMissing.Errorf("it is %s at the provider", r.State))
		}
		h.row.Phase, h.row.ClosingAt, h.row.NextAt, h.dirty, h.failure = cluster.Closing, w.Now, time.Time{}, true, FailureOf(h.row)
		if h.node != nil {
			h.node.Removed = w.Now
		}
	case r.Power == cluster.PoweredOff:
		h.send = startIt
	default:
		h.wait(w)
	}
}

// startIt is the call for a VM that was created but does not run.
const startIt cluster.JournalAction = "start"

// sendCalls makes the calls of operations and stores their answers in the rows.
func (w rowOps) sendCalls(ctx context.Context, ops []*rowOp) error {
	data := map[*rowOp][]byte{}
	for _, h := range ops {
		if h.send != cluster.SendCreate || h.node == nil {
			continue
		}
		var err error
		if data[h], err = w.userData(ctx, h.node); err != nil {
			return err
		}
	}
	providers.Each(ops, w.options.Settings.PerCluster, func(h *rowOp) {
		send := h.send
		h.send, h.lookup = "", cluster.Lookup{}
		if ctx.Err() != nil {
			return // not sent; the row says that the call may have been made, which is safe
		}
		var call cluster.Call
		var err error
		switch send {
		case cluster.SendCreate:
			call, err = w.Provider.Create(ctx, w.desired(h.row, data[h]))
		case cluster.SendDelete:
			call, err = w.Provider.Act(ctx, w.Ref(h.row), cluster.Destroy)
		default:
			call, err = w.Provider.Act(ctx, w.Ref(h.row), cluster.Start)
		}
		if errors.Is(err, cluster.ErrGone) {
			err = nil // the next lookup proves it
		}
		if err != nil {
			h.noteFailure(err)
			h.failure, h.row.NextAt, h.waits, h.dirty = h.finalFailure(), w.Now.Add(h.backoff(w.Attempt)), true, true
			return
		}
		h.storeIDs(call.Ref)
		h.row.JobID, h.row.NextAt, h.dirty = call.Job, time.Time{}, true
		if send == cluster.SendCreate {
			h.row.Phase, h.row.LastCode, h.row.LastError = cluster.Accepted, "", ""
		}
	})
	return nil
}

// expect announces the nodes that are about to be created.
func (w rowOps) expect(ops []*rowOp) {
	var nodes []*cluster.Node
	var rows []*cluster.JournalRow
	for _, h := range ops {
		if h.send == cluster.SendCreate && h.node != nil {
			nodes, rows = append(nodes, h.node), append(rows, h.row)
		}
	}
	w.options.Members.Expect(w.Cluster.UUID, nodes, rows)
}

// userData returns the user data for the first boot of a node. The join token
// of the run must be stored before.
func (w rowOps) userData(ctx context.Context, node *cluster.Node) ([]byte, error) {
	d, err := w.Details(ctx)
	if err != nil {
		return nil, err
	}
	home := w.options.Home()
	b := bootstrap.Data{
		Home: home.URL, HomeCA: home.CA, Cluster: w.Cluster.UUID, Node: node.Name, Role: node.Role, Version: node.Version, Token: w.options.Tokens.Of(w.Task.RunID()),
	}
	if node.Role == cluster.Worker {
		b.Control, b.CAHash = w.Record.ControlURL(w.Caps), bootstrap.CAHash(d.CACert)
	}
	return b.Render(home.Bootstrap)
}
