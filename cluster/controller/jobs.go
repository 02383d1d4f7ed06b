package controller

import (
	"context"
	"slices"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/machine"
)

// jobsEndedBy has the kinds of jobs that end with the run of a state: the job
// that started the run, and jobs that joined it.
var jobsEndedBy = map[machine.State][]string{
	cluster.Starting:   {"create", "start"},
	cluster.Stopping:   {"stop"},
	cluster.Scaling:    {"scale", "upgrade"},
	cluster.Recovering: {"recover", "start", "scale"},
	cluster.Expunging:  {"delete"},
}

var outcomes = map[cluster.JobStatus]string{cluster.JobOpen: "open", cluster.JobDone: "done", cluster.JobFailed: "failed"}

// kindOf returns the kind of the job of a Request.
func kindOf(a *cluster.Request) string { return string(a.Kind) }

// endJobs returns the jobs of a cluster that a transition ends, with their
// results, and clears its Request. c is the cluster after the transition.
func (s *Controller) endJobs(ctx context.Context, c *cluster.Cluster, from machine.State, event cluster.LifecycleEvent, reason cluster.Reason) ([]*cluster.Job, error) {
	if !mayEnd(c, from) {
		return nil, nil
	}
	open, err := s.openJobs(ctx, c.UUID)
	if err != nil {
		return nil, err
	}
	var ended []*cluster.Job
	for _, job := range open {
		status, why := jobResult(job.Kind, c, from, event, reason)
		if status == cluster.JobOpen {
			continue
		}
		job.Status, job.Code, job.Text, job.Step, job.Completed = status, why.Code, why.Text, why.Step, s.options.Now()
		if job.RunID == "" {
			job.RunID = c.RunID
		}
		ended = append(ended, &job)
	}
	if c.Request != nil {
		if status, _ := jobResult(kindOf(c.Request), c, from, event, reason); status != cluster.JobOpen {
			c.Request = nil
		}
	}
	return ended, nil
}

// mayEnd reports a transition that may end jobs. For others, jobs are not read.
func mayEnd(c *cluster.Cluster, from machine.State) bool {
	return cluster.Transient(from) || c.State == cluster.Destroyed || c.State == cluster.Expunging
}

// jobResult returns how a transition ends a job of a kind; JobOpen: it does not.
func jobResult(kind string, c *cluster.Cluster, from machine.State, event cluster.LifecycleEvent, reason cluster.Reason) (cluster.JobStatus, cluster.Reason) {
	overtaken := cluster.Reason{Code: cluster.RunOvertaken.Code, Text: "the cluster is being deleted"}
	switch {
	case c.State == cluster.Destroyed:
		if kind == "delete" || kind == "forget" {
			return cluster.JobDone, cluster.Reason{}
		}
		return cluster.JobFailed, overtaken
	case slices.Contains(jobsEndedBy[from], kind) && event == cluster.OnSucceeded:
		return cluster.JobDone, cluster.Reason{}
	case slices.Contains(jobsEndedBy[from], kind):
		return cluster.JobFailed, reason
	case c.State == cluster.Expunging && kind != "delete" && kind != "forget":
		return cluster.JobFailed, overtaken
	case from == cluster.Recovering && event == cluster.OnFailed && kind == "upgrade": // an upgrade waits for the recovery
		return cluster.JobFailed, reason
	}
	return cluster.JobOpen, cluster.Reason{}
}

func (s *Controller) openJobs(ctx context.Context, uuid string) ([]cluster.Job, error) {
	jobs, _, err := s.options.Store.Jobs(ctx, cluster.JobQuery{Scope: everything, Cluster: uuid, OnlyOpen: true, Limit: -1})
	return jobs, err
}

// noteRun stores the id of the cluster's run in the job of its Request.
func (s *Controller) noteRun(ctx context.Context, c *cluster.Cluster, change *cluster.Change) error {
	if c.Request == nil || c.RunID == "" {
		return nil
	}
	open, err := s.openJobs(ctx, c.UUID)
	if err != nil {
		return err
	}
	for _, job := range open {
		if job.ID == c.Request.Job && job.RunID == "" {
			job.RunID = c.RunID
			change.Jobs = append(change.Jobs, &job)
		}
	}
	return nil
}
