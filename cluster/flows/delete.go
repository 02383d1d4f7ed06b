package flows

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/heartbeat"
	"github.com/pawl-dev/pawl/cluster/providers"
	"github.com/pawl-dev/pawl/cluster/resources"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
)

// deleteFlow deletes everything that was created for a cluster. It continues
// after failures; the last step fails if a resource is left.
func (s *flows) deleteFlow() workflow.Flow {
	lazy := func(in cluster.RunInput) bool { return in.Event == cluster.OnCreateFailed }
	removal := resources.Bounds{Timeout: cluster.NodeRemoval, Tries: 5}
	return workflow.Flow{
		Name: cluster.FlowDelete, Version: 1, Description: "deletes everything that was created for a cluster", Deadline: cluster.RunDeadline,
		Steps: []workflow.Step{
			when(s.step("collector", "a lazy clean-up waits for the collector", resources.Bounds{}, awaitCollector), "the first start failed", lazy),
			s.step("tokens", "revoke join token and credentials", publishBounds, revokeAll),
			s.step("rules", "delete the rules, by id", resources.ResourceBounds, deleteKinds(resources.ResourceBounds.Timeout, resources.RuleKinds...)),
			s.step("vms", "destroy and expunge all VMs", removal, deleteVMs),
			s.step("address", "release the address that was acquired", resources.ResourceBounds, deleteKinds(resources.ResourceBounds.Timeout, cluster.Address, cluster.KeyPair)),
			s.step("network", "delete the network that was created, once every VM is gone", resources.ResourceBounds, deleteNetwork),
			s.step("close", "verify that nothing is left", publishBounds, closeRecords),
		},
	}
}

// awaitCollector delays a lazy clean-up until the next pass of the collector, or
// until a caller requests the deletion.
func awaitCollector(_ context.Context, w *work) outcome.Outcome {
	_, told := w.Task.Signal(cluster.SignalCollect)
	limit := w.s.options.Settings.CollectEvery + time.Minute
	if told || !cluster.LazyCleanup(w.Cluster) || w.Waited() >= limit {
		return outcome.Done()
	}
	return outcome.Wait(min(resources.NodePollInterval, limit-w.Waited()), "Collector", "waits for the collector's next pass")
}

func revokeAll(ctx context.Context, w *work) outcome.Outcome {
	return outcome.Fail(w.Amend(ctx, func(_ *cluster.Cluster, d *cluster.Details) bool {
		known := len(d.Credentials) > 0
		d.Credentials = nil
		return heartbeat.Revoke(d, "") || known
	}))
}

// deleteKinds returns a body that deletes all rows of some kinds.
func deleteKinds(timeout time.Duration, kinds ...cluster.Kind) stepBody {
	return func(ctx context.Context, w *work) outcome.Outcome {
		var rows []*cluster.JournalRow
		for _, kind := range kinds {
			for i := range w.Record.Journal {
				if w.Record.Journal[i].Kind == kind {
					rows = append(rows, &w.Record.Journal[i])
				}
			}
		}
		return w.deleteBestEffort(ctx, rows, timeout)
	}
}

// deleteBestEffort deletes rows. A row that fails stays in the journal with its
// fault, and the step goes on.
func (w *work) deleteBestEffort(ctx context.Context, rows []*cluster.JournalRow, timeout time.Duration) outcome.Outcome {
	open, _, err := w.DeleteRows(ctx, rows, timeout)
	switch {
	case err != nil:
		return outcome.Fail(err)
	case len(open) > 0:
		return w.WaitFor(open, "the provider deletes")
	}
	return outcome.Done()
}

// deleteVMs destroys all recorded VMs, and the VMs with the cluster's tags and
// a name of this service that have no row.
func deleteVMs(ctx context.Context, w *work) outcome.Outcome {
	if w.Task.Waited() == nil {
		if err := w.journalOrphans(ctx); err != nil && fault.Of(err).Class != fault.Transient {
			w.Task.Logger().WarnContext(ctx, "VMs without a row could not be listed", "error", err)
		} else if err != nil {
			return outcome.Fail(err)
		}
	}
	return deleteKinds(cluster.NodeRemoval, cluster.VM)(ctx, w)
}

// journalOrphans writes a closing row for each VM of the cluster without one.
func (w *work) journalOrphans(ctx context.Context) error {
	if !w.Caps.Tags {
		return nil
	}
	items, err := providers.All(ctx, w.Provider, cluster.Filter{Kind: cluster.VM, Zone: w.Cluster.Zone.ID, Cluster: w.Cluster.UUID})
	if err != nil {
		return err
	}
	var change cluster.Change
	for _, r := range items {
		if w.Record.Contains(r) || !cluster.Ours(nil, r, w.s.options.Installation, w.Cluster) {
			continue
		}
		change.Journal = append(change.Journal, w.orphanRow(r))
	}
	if err := w.Save(ctx, change); err != nil {
		return err
	}
	return w.Reload(ctx)
}

// orphanRow returns a closing row for a resource of the cluster without one.
func (w *work) orphanRow(r cluster.Resource) *cluster.JournalRow {
	row := w.NewRow(r.Kind, r.Name, cluster.Spec{Zone: w.Cluster.Zone.ID})
	row.Key, row.CallID, row.Attempts = w.Task.Key()+"/"+r.ID, "", 0
	row.ProviderID, row.Identity, row.Phase, row.Origin, row.ClosingAt = r.ID, r.Identity, cluster.Closing, cluster.OriginAdopted, w.Now
	return row
}

// deleteNetwork deletes the network that was created for the cluster, once all
// its VMs are proven gone. The network stays if it has a VM of another owner.
func deleteNetwork(ctx context.Context, w *work) outcome.Outcome {
	var rows []*cluster.JournalRow
	for i := range w.Record.Journal {
		row := &w.Record.Journal[i]
		switch {
		case row.Kind == cluster.VM && row.Phase.Open():
			return outcome.Done() // the last step reports it
		case row.Kind == cluster.Network && row.Phase.Open() && row.Origin != cluster.OriginGiven:
			rows = append(rows, row)
		}
	}
	if len(rows) == 0 {
		return outcome.Done()
	}
	d, err := w.s.options.Store.Details(ctx, w.Cluster.UUID)
	if err != nil || !d.NetworkCleanup {
		return outcome.Fail(err)
	}
	for _, row := range rows {
		if row.ProviderID == "" {
			continue
		}
		items, err := providers.All(ctx, w.Provider, cluster.Filter{Kind: cluster.VM, Zone: w.Cluster.Zone.ID, Network: row.ProviderID})
		if err != nil {
			return outcome.Fail(err)
		}
		foreign := slices.DeleteFunc(items, func(r cluster.Resource) bool {
			return r.Tags[cluster.TagCluster] == w.Cluster.UUID && r.Tags[cluster.TagInstallation] == w.s.options.Installation
		})
		if len(foreign) > 0 {
			return outcome.Fail(w.reportForeignVMs(ctx, row, foreign))
		}
	}
	return w.deleteBestEffort(ctx, rows, resources.ResourceBounds.Timeout)
}

// reportForeignVMs stores in the row of a network that foreign VMs prevent its
// deletion.
func (w *work) reportForeignVMs(ctx context.Context, row *cluster.JournalRow, foreign []cluster.Resource) error {
	names := make([]string, len(foreign))
	for i, r := range foreign {
		names[i] = r.Name + " (" + r.ID + ")"
	}
	w.NoteFailure(row, cluster.ForeignVM.Errorf("in the network, but not of this cluster: %s", strings.Join(names, ", ")))
	row.NextAt = w.Now
	if row.Phase != cluster.Leaked {
		row.Phase, row.ClosingAt = cluster.Closing, w.Now
	}
	return w.Save(ctx, cluster.Change{Journal: []*cluster.JournalRow{row}})
}

// closeSourceNATs returns the rows of source NAT addresses that the provider
// deleted with the cluster's network, closed. Only addresses that are proven
// gone are closed.
func (w *work) closeSourceNATs(ctx context.Context) []*cluster.JournalRow {
	networks := map[string]bool{}
	for _, row := range w.Record.Journal {
		networks[row.ProviderID] = networks[row.ProviderID] || row.Kind == cluster.Network && row.Phase == cluster.Gone
	}
	var closed []*cluster.JournalRow
	for i := range w.Record.Journal {
		row := &w.Record.Journal[i]
		if row.Kind != cluster.Address || row.Origin != cluster.OriginGiven || !row.Phase.Open() || !networks[w.Cluster.Network.ID] {
			continue
		}
		if _, err := w.Provider.Get(ctx, w.Ref(row)); errors.Is(err, cluster.ErrGone) { // otherwise the address belongs to a given network
			row.Phase, row.GoneAt = cluster.Gone, w.Now
			closed = append(closed, row)
		}
	}
	return closed
}

// closeRecords ends the deletion. It fails with the fault of the first resource
// that is left. It counts each failure for the collector's backoff and the leak
// report.
func closeRecords(ctx context.Context, w *work) outcome.Outcome {
	var change cluster.Change
	var left, first error
	set := w.s.options.Settings
	for i := range w.Record.Journal {
		row := &w.Record.Journal[i]
		if !row.Phase.Open() || row.Origin == cluster.OriginGiven {
			continue
		}
		err := resources.FailureOf(row)
		if err == nil || row.RunID != w.Task.RunID() { // it was not tried because another failed, such as a network with VMs
			left = cmp.Or[error](left, cluster.ResourceLeaked.Errorf("%s %s is not proven gone", row.Kind, row.Name).With("resource", row.Name))
			continue
		}
		if first == nil || fault.Of(err) == cluster.ForeignVM {
			first = err
		}
		text := row.LastError
		if cluster.RecordFailure(row, err, w.Now, cluster.Backoff{Initial: set.GCFirst, Max: set.GCLongest}, set.ReportAfter) {
			change.Events = append(change.Events, &cluster.Event{
				At: w.Now, Type: "leak", Event: "Leaked", State: string(w.Cluster.State), RunID: w.Task.RunID(), Actor: "collector",
				Reason: cluster.Reason{Code: fault.Of(err).Code, Text: fault.Message(err), Resource: row.Name},
			})
		}
		row.LastError = text
		change.Journal = append(change.Journal, row)
	}
	if first = cmp.Or(first, left); first == nil {
		change.Journal = append(change.Journal, w.closeSourceNATs(ctx)...)
	}
	for _, n := range w.Nodes("") {
		if !w.PhaseOf(n).Open() || w.Row(n.Key) == nil {
			n.Removed = w.Now
			change.Nodes = append(change.Nodes, n)
		}
	}
	if err := w.Save(ctx, change); err != nil {
		return outcome.Fail(err)
	}
	if first == nil {
		return outcome.Done()
	}
	kind := fault.Of(first)
	if kind.Class == fault.Transient { // a retry at once would not help: the collector tries again later
		return outcome.Fail(cluster.ResourceLeaked.Errorf("%s: %s", kind.Code, fault.Message(first)).With("resource", fault.Details(first)["resource"]))
	}
	return outcome.Fail(first)
}
