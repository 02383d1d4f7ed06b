package api

import (
	"context"

	"github.com/pawl-dev/pawl/cluster"
)

// CreateRequest asks for a cluster.
type CreateRequest struct {
	Name, Description  string
	Zone, Offering     string // ids or names
	Template, Network  string
	KeyPair, Version   string
	Size, ControlNodes int    // ControlNodes 0: 1
	Account, DomainID  string // of another owner; empty: the caller
	DiskGB             int    // root disk of a node; 0: the template decides
	Registry           Registry
	CIDRs              []string
	Recovery           cluster.Recovery // nil: Settings.Recovery
	OnFailure          cluster.OnFailure
	Provider           string // name; empty: the provider of the zone
	JobID              string // customjobid
	Command            string // name of the command that the caller used; empty: createCluster
}

// Registry is the image registry of the nodes. Either all fields are set or none.
type Registry struct {
	Username string
	Password cluster.Secret
	URL      string
	Email    string
}

// Create stores a cluster and its job; the controller starts it. A repeated
// request with the same JobID returns the same job; a different request with
// that JobID is JOB_ID_REUSED.
func (s *Requests) Create(ctx context.Context, who cluster.Caller, r CreateRequest) (*cluster.Cluster, *cluster.Job, error) {
	digest := digestOf("create", "", r)
	if job, err := s.earlierJob(ctx, who, r.JobID, digest); job != nil || err != nil {
		if err != nil {
			return nil, nil, err
		}
		record, err := s.options.Store.Record(ctx, job.Cluster)
		if err != nil {
			return nil, nil, err
		}
		return &record.Cluster, job, nil
	}
	c, details, err := s.drafter.draft(ctx, who, r)
	if err != nil {
		return nil, nil, s.explainConflict(ctx, err, r.JobID)
	}
	job := s.job(who, c, r.JobID, r.Command, "create", digest)
	job.Owner, job.Password = c.Owner, details.Password
	c.Request = &cluster.Request{Kind: cluster.RequestStart, Job: job.ID}
	event := s.options.newEvent(c, who, "cluster", "Create")
	event.Job = job.ID
	if err := s.options.Store.Commit(ctx, &cluster.Change{Cluster: c, Details: details, Jobs: []*cluster.Job{job}, Events: []*cluster.Event{event}}); err != nil {
		return nil, nil, s.explainConflict(ctx, err, r.JobID)
	}
	s.options.Notify(c.UUID)
	return c, job, nil
}
