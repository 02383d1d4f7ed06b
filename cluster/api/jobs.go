package api

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
)

// overtaken returns the open jobs of a cluster that its deletion ends.
func (s *Requests) overtaken(ctx context.Context, c *cluster.Cluster) ([]*cluster.Job, error) {
	open, _, err := s.options.Store.Jobs(ctx, cluster.JobQuery{Scope: cluster.Scope{All: true}, Cluster: c.UUID, OnlyOpen: true})
	if err != nil {
		return nil, err
	}
	var ended []*cluster.Job
	for _, job := range open {
		if job.Kind == string(cluster.RequestDelete) {
			continue
		}
		job.Status, job.Code, job.Text = cluster.JobFailed, cluster.RunOvertaken.Code, "the cluster is being deleted"
		job.Completed = s.options.Now()
		ended = append(ended, &job)
	}
	return ended, nil
}

// earlierJob returns the job of an earlier request with the same id; nil if
// there is none. JOB_ID_REUSED if the request was different.
func (s *Requests) earlierJob(ctx context.Context, who cluster.Caller, id, digest string) (*cluster.Job, error) {
	if id == "" {
		return nil, nil //nolint:nilnil // there is none, and that is no error
	}
	job, err := s.options.Store.Job(ctx, id)
	switch {
	case errors.Is(err, cluster.JobNotFound):
		return nil, nil //nolint:nilnil // as above
	case err != nil:
		return nil, err
	case job.User != who.User || job.Digest != digest:
		return nil, cluster.JobReused.Errorf("job %s is that of another request", id)
	}
	return job, nil
}

// explainConflict returns JOB_ID_REUSED for a conflict with another request of
// the same job id, and other errors as they are.
func (s *Requests) explainConflict(ctx context.Context, err error, jobID string) error {
	if jobID == "" || !errors.Is(err, fault.WriteConflict) && !errors.Is(err, cluster.NameTaken) {
		return err
	}
	if _, readErr := s.options.Store.Job(ctx, jobID); readErr == nil {
		return cluster.JobReused.Errorf("job %s was created by another request at the same time; send the request again", jobID)
	}
	return err
}

func (s *Requests) job(who cluster.Caller, c *cluster.Cluster, id, command, kind, digest string) *cluster.Job {
	if id == "" {
		id = control.NewUID()
	}
	if command == "" {
		command = kind + "Cluster"
	}
	return &cluster.Job{
		ID: id, ClusterID: c.ID, Cluster: c.UUID, Command: command, Kind: kind, Digest: digest,
		Owner: who.Owner, User: who.User, Created: s.options.Now(),
	}
}

// newEvent returns an event in the history of a cluster.
func (o *Options) newEvent(c *cluster.Cluster, who cluster.Caller, kind, what string) *cluster.Event {
	return &cluster.Event{
		At: o.Now(), Cluster: c.UUID, Owner: c.Owner, Type: kind, State: string(c.State),
		Revision: c.Revision, Event: what, Actor: who.User, RunID: c.RunID,
	}
}

// digestOf returns a hash that differs between different requests. It contains
// no secrets: they encode as stars.
func digestOf(kind, uuid string, r any) string {
	if create, ok := r.(CreateRequest); ok {
		create.JobID = ""
		r = create
	}
	if change, ok := r.(ChangeRequest); ok {
		change.JobID, change.Revision = "", 0
		r = change
	}
	data, err := json.Marshal(r)
	if err != nil {
		data = fmt.Append(nil, r)
	}
	sum := sha256.Sum256(slices.Concat([]byte(kind+"\x00"+uuid+"\x00"), data))
	return hex.EncodeToString(sum[:])
}
