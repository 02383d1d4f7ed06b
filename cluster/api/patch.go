package api

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/validate"
	"github.com/pawl-dev/pawl/fault"
)

// PatchRequest changes settings. A nil field does not change.
type PatchRequest struct {
	Revision    int64
	Size        *int
	Description *string
	Recovery    *cluster.Recovery
	OnFailure   *cluster.OnFailure
	CIDRs       *[]string
	GC          *bool // operator
}

// Patch changes settings. A new size, or new CIDRs of a running cluster, need a
// scale; then Patch returns its job. After a write conflict, a patch without a
// revision is decided again.
func (s *Requests) Patch(ctx context.Context, who cluster.Caller, uuid string, r PatchRequest) (*cluster.Cluster, *cluster.Job, error) {
	return retryConflict(r.Revision, func() (*cluster.Cluster, *cluster.Job, error) { return s.patchOnce(ctx, who, uuid, r) })
}

func (s *Requests) patchOnce(ctx context.Context, who cluster.Caller, uuid string, r PatchRequest) (*cluster.Cluster, *cluster.Job, error) {
	record, err := s.reader.Get(ctx, who, uuid)
	if err != nil {
		return nil, nil, err
	}
	was := record.Cluster.NodeCount
	change, err := s.decidePatch(ctx, who, record, r)
	if err != nil {
		return nil, nil, err
	}
	if r.Size != nil {
		if err := s.checkCapacity(ctx, record, was); err != nil {
			return nil, nil, err
		}
	}
	if err := s.options.Store.Commit(ctx, change); err != nil {
		return nil, nil, err
	}
	s.options.Notify(record.Cluster.UUID)
	if change.Jobs == nil {
		return &record.Cluster, nil, nil
	}
	return &record.Cluster, change.Jobs[0], nil
}

// decidePatch returns the change that a patch writes. Its first job is that of
// the scale, if there is one.
func (s *Requests) decidePatch(ctx context.Context, who cluster.Caller, record *cluster.Record, r PatchRequest) (*cluster.Change, error) {
	c := &record.Cluster
	if err := s.patch(c, who, r); err != nil {
		return nil, err
	}
	change := &cluster.Change{Cluster: c, Events: []*cluster.Event{s.options.newEvent(c, who, "cluster", "Patch")}}
	rules := r.CIDRs != nil && c.State == cluster.Running
	if r.Size != nil || rules {
		size := c.NodeCount
		if r.Size != nil {
			size = *r.Size
		}
		scale, err := s.decide(ctx, who, record, ChangeRequest{Kind: cluster.RequestScale, Size: size, Revision: r.Revision}, digestOf("patch", c.UUID, r))
		if err != nil {
			return nil, err
		}
		if job := scale.Jobs[0]; rules && job.Status == cluster.JobDone { // the size is the same: the run corrects the rules
			job.Status, job.Completed = cluster.JobOpen, time.Time{}
			c.Request = &cluster.Request{Kind: cluster.RequestScale, Job: job.ID, PreviousCount: c.NodeCount}
		}
		change.Jobs, change.Events = scale.Jobs, append(change.Events, scale.Events...)
	}
	return change, nil
}

func (s *Requests) patch(c *cluster.Cluster, who cluster.Caller, r PatchRequest) error {
	if r.Revision != 0 && r.Revision != c.Revision {
		return fault.WriteConflict.Errorf("cluster %s is at revision %d, the request is for %d", c.Name, c.Revision, r.Revision)
	}
	if c.Desired == cluster.WantDestroyed && r.GC == nil {
		return cluster.StateRefused.Errorf("cluster %s is %s: it is being deleted", c.Name, c.State).With("state", string(c.State))
	}
	if r.Description != nil {
		if err := validate.Description(*r.Description); err != nil {
			return err
		}
		c.Description = *r.Description
	}
	if r.Recovery != nil {
		if err := cluster.ValidateRecovery(*r.Recovery); err != nil {
			return err
		}
		c.Recovery = *r.Recovery
	}
	if r.OnFailure != nil {
		if err := cluster.ValidateOnFailure(*r.OnFailure); err != nil {
			return err
		}
		c.OnFailure = *r.OnFailure
	}
	if r.CIDRs != nil {
		if err := validate.CIDRs(*r.CIDRs); err != nil {
			return err
		}
		c.CIDRs = *r.CIDRs
	}
	if r.GC != nil {
		if !who.Operator {
			return cluster.AccessRefused.Errorf("whether the collector works on a cluster is for operators to say")
		}
		c.GC = *r.GC
	}
	return nil
}
