package gc

import (
	"context"
	"errors"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/fault"
)

// maxRounds is the maximum number of rounds for one row in a pass.
const maxRounds = 4

// cleanRow advances one row as far as possible without waiting. An error other
// than a conflict ends the pass.
func (p *collection) cleanRow(ctx context.Context, b *cluster.Record, row *cluster.JournalRow) error {
	deleting := row.Phase == cluster.Closing || row.Phase == cluster.Leaked || b.Cluster.State == cluster.Destroyed
	var seen cluster.Lookup
	for range maxRounds {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		now, settle := p.gc.options.Now(), p.gc.options.Settings.Settle
		act := cluster.DecideCreate(row, seen, now, settle, false)
		if deleting {
			act = cluster.DecideDelete(row, seen, now, settle)
		}
		switch act {
		case cluster.LookUpFirst, cluster.FollowJob:
			var stop error
			if seen, stop = p.lookUp(ctx, b, row); stop != nil {
				return stop
			}
			if seen.Open {
				return nil // the next pass polls the job again
			}
			if seen.Found == nil && !seen.Gone && seen.Err == nil { // its job failed
				return p.save(ctx, b, row)
			}
			continue
		case cluster.StoreIDs:
			row.ProviderID, row.Identity = seen.Found.ID, seen.Found.Identity
			if row.Phase == cluster.Intent {
				row.Phase = cluster.Accepted
			}
		case cluster.Confirm:
			row.Phase, row.PresentAt, row.JobID = cluster.Present, now, ""
			if seen.Found.SourceNAT {
				row.LeaveToNetwork(now)
			}
		case cluster.MarkGiven:
			row.LeaveToNetwork(now)
		case cluster.MarkClosing:
			row.Phase, row.ClosingAt, row.Attempts = cluster.Closing, now, 0
		case cluster.SendDelete:
			if !cluster.Ours(row, *seen.Found, p.gc.options.Installation, &b.Cluster) {
				return nil
			}
			if sent, err := p.destroy(ctx, b, row); err != nil || !sent || row.JobID != "" {
				return err
			}
			seen = cluster.Lookup{} // proof follows
			continue
		case cluster.MarkGone, cluster.MarkNeverCreated, cluster.Lost:
			row.Phase, row.GoneAt, row.JobID = cluster.Gone, now, ""
			if act == cluster.MarkNeverCreated {
				row.Phase = cluster.NeverCreated
			}
			if deleting {
				p.gc.options.Metrics.Collected("gone")
			}
			return p.save(ctx, b, row)
		default:
			return nil
		}
		if err := p.save(ctx, b, row); err != nil || row.Phase == cluster.Present {
			return err
		}
	}
	return nil
}

// lookUp reads the job of a row, or else the resource. An error ends the pass:
// it concerns the provider, not the row.
func (p *collection) lookUp(ctx context.Context, b *cluster.Record, row *cluster.JournalRow) (cluster.Lookup, error) {
	ref := cluster.Ref{Kind: row.Kind, ID: row.ProviderID, Name: row.Name, Zone: b.Cluster.Zone.ID, Identity: row.Identity}
	if row.JobID != "" {
		progress, err := p.provider.Poll(ctx, cluster.Call{Job: row.JobID, Ref: ref})
		switch {
		case p.endsPass(err):
			return cluster.Lookup{Err: err}, err
		case err == nil && !progress.Done:
			return cluster.Lookup{Open: true}, nil
		case err != nil && fault.Of(err).Class == fault.Transient:
			return cluster.Lookup{Err: err}, nil
		}
		row.JobID = "" // the job has ended or is unknown: the resource decides
		if err == nil && progress.Err != nil && (row.Phase == cluster.Closing || row.Phase == cluster.Leaked) {
			p.countFailure(b, row, progress.Err)
			return cluster.Lookup{}, nil
		}
	}
	var r cluster.Resource
	var err error
	if row.ProviderID != "" {
		r, err = p.provider.Get(ctx, ref)
	} else {
		r, err = p.provider.Find(ctx, cluster.DesiredResource{
			Kind: row.Kind, Name: row.Name, Key: row.Key, CallID: row.CallID, Owner: b.Cluster.Owner, Spec: row.Spec,
			Tags: map[string]string{cluster.TagInstallation: p.gc.options.Installation, cluster.TagCluster: b.Cluster.UUID, cluster.TagKey: row.Key},
		})
	}
	if p.endsPass(err) {
		return cluster.Lookup{Err: err}, err
	}
	return cluster.LookupOf(r, err), nil
}

// endsPass reports a failure that ends the pass: refused credentials, or
// maxUnanswered calls in a row without an answer. A single unanswered call does
// not: the other resources may still be readable.
func (p *collection) endsPass(err error) bool {
	if !errors.Is(err, cluster.ProviderUnreachable) {
		p.unanswered.Store(0)
		return errors.Is(err, cluster.CredentialsRefused)
	}
	return p.unanswered.Add(1) >= maxUnanswered
}

// destroy sends a delete and reports whether the provider accepted it. A refusal
// is stored in the row; an error ends the pass.
func (p *collection) destroy(ctx context.Context, b *cluster.Record, row *cluster.JournalRow) (sent bool, err error) {
	call, err := p.provider.Act(ctx, cluster.Ref{Kind: row.Kind, ID: row.ProviderID, Name: row.Name, Zone: b.Cluster.Zone.ID, Identity: row.Identity}, cluster.Destroy)
	switch {
	case p.endsPass(err):
		return false, err
	case err == nil || errors.Is(err, cluster.ErrGone):
		row.JobID = call.Job
		return true, p.save(ctx, b, row)
	case fault.Of(err).Uncharged: // throttled: no attempt was made
		return false, nil
	default:
		p.countFailure(b, row, err)
		return false, p.save(ctx, b, row)
	}
}

// countFailure counts a failed attempt. After Settings.ReportAfter attempts the
// row becomes a leak.
func (p *collection) countFailure(b *cluster.Record, row *cluster.JournalRow, err error) {
	set := p.gc.options.Settings
	if cluster.RecordFailure(row, err, p.gc.options.Now(), cluster.Backoff{Initial: set.GCFirst, Max: set.GCLongest}, set.ReportAfter) {
		p.gc.options.Metrics.Collected("leaked")
		p.gc.options.Logger.Warn("a resource leaks", "cluster", b.Cluster.UUID, "kind", row.Kind, "id", row.ProviderID, "name", row.Name, "error", err)
		return
	}
	p.gc.options.Metrics.Collected("failed")
}

// save writes a row and the change of its node that follows from it.
func (p *collection) save(ctx context.Context, b *cluster.Record, row *cluster.JournalRow) error {
	change := &cluster.Change{ClusterID: b.Cluster.ID, Journal: []*cluster.JournalRow{row}}
	for i := range b.Nodes {
		n := &b.Nodes[i]
		if row.Kind != cluster.VM || row.Key == "" || n.Key != row.Key {
			continue
		}
		switch {
		case row.ProviderID != "" && n.VMID == "":
			n.VMID = row.ProviderID
			change.Nodes = append(change.Nodes, n)
		case !row.Phase.Open() && n.Removed.IsZero():
			n.Removed = p.gc.options.Now()
			change.Nodes = append(change.Nodes, n)
		}
	}
	if row.Phase == cluster.Leaked && row.Attempts == p.gc.options.Settings.ReportAfter {
		change.Events = []*cluster.Event{{At: p.gc.options.Now(), Type: "leak", Event: "Leaked", State: string(b.Cluster.State), Actor: "collector",
			Reason: cluster.Reason{Code: row.LastCode, Text: row.LastError, Resource: row.Name}}}
	}
	return p.gc.options.Store.Commit(ctx, change)
}
