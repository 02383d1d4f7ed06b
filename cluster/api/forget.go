package api

import (
	"context"
	"errors"

	"github.com/pawl-dev/pawl/cluster"
)

// Forget ends the deletion of a cluster in Expunge with resources left. It reads
// each open resource once more; one that is not proven gone becomes Forgotten
// and stays in the leak report. confirm is the cluster's name.
func (s *Requests) Forget(ctx context.Context, who cluster.Caller, uuid, confirm, jobID string) (*cluster.Job, error) {
	record, err := s.forgettable(ctx, who, uuid)
	if err != nil {
		return nil, err
	}
	c := &record.Cluster
	digest := digestOf("forget", c.UUID, confirm)
	if job, err := s.earlierJob(ctx, who, jobID, digest); job != nil || err != nil {
		return job, err
	}
	rows, err := s.decideForget(ctx, record, confirm)
	if err != nil {
		return nil, err
	}
	job := s.job(who, c, jobID, "", "forget", digest)
	c.Forget = true
	change := &cluster.Change{Cluster: c, Journal: rows, Jobs: []*cluster.Job{job}, Events: []*cluster.Event{s.options.newEvent(c, who, "leak", "ForceForget")}}
	if err := s.options.Store.Commit(ctx, change); err != nil {
		return nil, err
	}
	s.options.Notify(c.UUID)
	return job, nil
}

// forgettable returns the record of a cluster to an operator.
func (s *Requests) forgettable(ctx context.Context, who cluster.Caller, uuid string) (*cluster.Record, error) {
	if !who.Operator {
		return nil, cluster.AccessRefused.Errorf("to forget a cluster is for operators")
	}
	return s.reader.Get(ctx, who, uuid)
}

// decideForget reads each open resource of a cluster once more and returns the
// rows with their new phases.
func (s *Requests) decideForget(ctx context.Context, record *cluster.Record, confirm string) (rows []*cluster.JournalRow, err error) {
	c := &record.Cluster
	if confirm != c.Name {
		return nil, cluster.ClusterInvalid.Errorf("confirm %q is not the name of the cluster, which is %q", confirm, c.Name).With("parameter", "confirm")
	}
	if _, err := cluster.Next(c.State, cluster.OnForget); err != nil {
		return nil, err
	}
	provider, err := s.options.Providers.Provider(c.Provider)
	if err != nil {
		return nil, err
	}
	now := s.options.Now()
	for i := range record.Journal {
		row := &record.Journal[i]
		if !row.Phase.Open() || row.Origin == cluster.OriginGiven {
			continue
		}
		_, err := provider.Get(ctx, cluster.Ref{Kind: row.Kind, ID: row.ProviderID, Name: row.Name, Zone: c.Zone.ID, Identity: row.Identity})
		if row.ProviderID != "" && errors.Is(err, cluster.ErrGone) {
			row.Phase, row.GoneAt = cluster.Gone, now
		} else {
			row.Phase = cluster.Forgotten
		}
		rows = append(rows, row)
	}
	return rows, nil
}
