package service

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
)

// Create stores a cluster and its job; the controller starts it. A repeated
// request with the same JobID returns the same job; a different request with
// that JobID is JOB_ID_REUSED.
func (s *Service) Create(ctx context.Context, who cluster.Caller, r CreateRequest) (*cluster.Cluster, *cluster.Job, error) {
	digest := digestOf("create", "", r)
	if job, err := s.earlierJob(ctx, who, r.JobID, digest); job != nil || err != nil {
		if err != nil {
			return nil, nil, err
		}
		record, err := s.options.Records.Record(ctx, job.Cluster)
		if err != nil {
			return nil, nil, err
		}
		return &record.Cluster, job, nil
	}
	c, details, err := s.draft(ctx, who, r)
	if err != nil {
		return nil, nil, err
	}
	job := s.job(who, c, r.JobID, r.Command, "create", digest)
	job.Owner, job.Password = c.Owner, details.Password
	c.Request = &cluster.Request{Kind: cluster.RequestStart, Job: job.ID}
	event := s.event(c, who, "cluster", "Create")
	event.Job = job.ID
	if err := s.commit(ctx, &cluster.Change{Cluster: c, Details: details, Jobs: []*cluster.Job{job}, Events: []*cluster.Event{event}}); err != nil {
		return nil, nil, s.explainConflict(ctx, err, r.JobID)
	}
	s.notify(c.UUID)
	return c, job, nil
}

// Change requests a change of a cluster. The returned job ends with the change;
// if there is nothing to do it is done at once. After a write conflict, a
// request without a revision is decided again.
func (s *Service) Change(ctx context.Context, who cluster.Caller, uuid string, r ChangeRequest) (*cluster.Cluster, *cluster.Job, error) {
	return retryConflict(r.Revision, func() (*cluster.Cluster, *cluster.Job, error) { return s.changeOnce(ctx, who, uuid, r) })
}

// changeTries is how often a change is decided, at most.
const changeTries = 5

// retryConflict decides a change again after a write conflict, unless it is for
// one revision.
func retryConflict(revision int64, once func() (*cluster.Cluster, *cluster.Job, error)) (*cluster.Cluster, *cluster.Job, error) {
	for try := 1; ; try++ {
		c, job, err := once()
		if revision != 0 || try == changeTries || !errors.Is(err, fault.WriteConflict) {
			return c, job, err
		}
	}
}

func (s *Service) changeOnce(ctx context.Context, who cluster.Caller, uuid string, r ChangeRequest) (*cluster.Cluster, *cluster.Job, error) {
	record, err := s.Get(ctx, who, uuid)
	if err != nil {
		return nil, nil, err
	}
	digest := digestOf(string(r.Kind), record.Cluster.UUID, r)
	if job, err := s.earlierJob(ctx, who, r.JobID, digest); job != nil || err != nil {
		return &record.Cluster, job, err
	}
	was := record.Cluster.NodeCount
	change, err := s.decide(ctx, who, record, r, digest)
	if err != nil {
		return nil, nil, err
	}
	if r.Kind == cluster.RequestScale && r.Size > 0 {
		if err := s.checkCapacity(ctx, record, was); err != nil {
			return nil, nil, err
		}
	}
	if err := s.commit(ctx, change); err != nil {
		return nil, nil, s.explainConflict(ctx, err, r.JobID)
	}
	s.notify(record.Cluster.UUID)
	return &record.Cluster, change.Jobs[len(change.Jobs)-1], nil
}

// checkCapacity refuses a scale beyond the limits of the account or the capacity
// of the provider, before anything is stored. A provider that does not answer is
// no refusal: the run checks again and waits for it.
func (s *Service) checkCapacity(ctx context.Context, record *cluster.Record, was int) error {
	c := &record.Cluster
	more := c.NodeCount - len(livingWorkers(record.Nodes))
	if more <= 0 {
		return nil
	}
	found, err := s.findings(ctx, c, more, c.NodeCount-was, withFormerSize)
	if err != nil {
		return ctx.Err()
	}
	return refusalOf(found)
}

// decide returns the change that a request writes. The job of the request is the
// last one of the change.
func (s *Service) decide(ctx context.Context, who cluster.Caller, record *cluster.Record, r ChangeRequest, digest string) (*cluster.Change, error) {
	c := &record.Cluster
	if r.Revision != 0 && r.Revision != c.Revision {
		return nil, fault.WriteConflict.Errorf("cluster %s is at revision %d, the request is for %d", c.Name, c.Revision, r.Revision)
	}
	v, err := admit(c, r.Kind)
	if err != nil {
		return nil, err
	}
	job := s.job(who, c, r.JobID, r.Command, string(r.Kind), digest)
	event := s.event(c, who, "cluster", string(r.Kind))
	event.Job = job.ID
	change := &cluster.Change{ClusterID: c.ID, Jobs: []*cluster.Job{job}, Events: []*cluster.Event{event}}
	if v == changes {
		if v, err = s.applyRequest(ctx, who, record, r, job.ID); err != nil {
			return nil, err
		}
	}
	switch v {
	case already:
		job.Status, job.Completed = cluster.JobDone, s.options.Now()
		if r.Kind == cluster.RequestScale { // only settings change
			change.Cluster = c
		}
	case joins:
		job.RunID = c.RunID
		// The end of the run ends this job too: it must not fall between our read and this write.
		change.Cluster = c
	default:
		change.Cluster = c
	}
	if r.Kind == cluster.RequestDelete && v == changes {
		overtaken, err := s.overtaken(ctx, c)
		if err != nil {
			return nil, err
		}
		change.Jobs = slices.Concat(overtaken, change.Jobs)
	}
	event.State = string(c.State)
	return change, nil
}

// applyRequest writes the request and the desired state into the cluster.
func (s *Service) applyRequest(ctx context.Context, who cluster.Caller, record *cluster.Record, r ChangeRequest, job string) (admitDecision, error) {
	c := &record.Cluster
	ask := &cluster.Request{Kind: r.Kind, Job: job, Forced: r.Forced, Consent: r.Consent, Downtime: r.Downtime}
	switch r.Kind {
	case cluster.RequestStart:
		c.Desired = cluster.WantRunning
	case cluster.RequestStop:
		c.Desired = cluster.WantStopped
	case cluster.RequestDelete:
		c.Desired = cluster.WantDestroyed
	case cluster.RequestRecover:
		c.Desired = cluster.WantRunning
		if ask.Recovery = r.Recovery; ask.Recovery == nil {
			ask.Recovery = cluster.Recovery{cluster.Restart, cluster.Replace}
		}
	case cluster.RequestUpgrade:
		if err := s.applyVersion(c, r, ask); err != nil {
			return refused, err
		}
		if err := s.mayUpgradeControl(record, ask); err != nil {
			return refused, err
		}
		c.Desired = cluster.WantRunning
	case cluster.RequestScale:
		only, err := s.applySize(record, r, ask)
		if err != nil || only {
			return already, err
		}
		c.Desired = cluster.WantRunning
	default:
		return refused, cluster.ClusterInvalid.Errorf("unknown change %q", r.Kind)
	}
	c.Request = ask
	return changes, nil
}

// applySize writes size, victims or autoscaling. only: no run is needed.
func (s *Service) applySize(record *cluster.Record, r ChangeRequest, ask *cluster.Request) (only bool, err error) {
	c := &record.Cluster
	limit := s.options.Settings.MaxWorkers
	if err := cluster.ValidateScale(cluster.ScaleFacts{
		Size: r.Size, NodeIDs: r.NodeIDs, Autoscale: r.Autoscale, MaxWorkers: limit, Nodes: record.Nodes,
	}); err != nil {
		return false, err
	}
	if r.Autoscale != nil {
		c.Autoscale = *r.Autoscale
		return true, nil
	}
	ask.PreviousCount = c.NodeCount
	if len(r.NodeIDs) > 0 {
		victims, err := cluster.Victims(record.Nodes, r.NodeIDs, 0)
		if err != nil {
			return false, err
		}
		ask.Victims = nodeNames(victims)
		c.NodeCount = len(livingWorkers(record.Nodes)) - len(victims)
		return false, nil
	}
	c.NodeCount = r.Size
	return r.Size == ask.PreviousCount && c.State == cluster.Running && len(livingWorkers(record.Nodes)) == r.Size, nil
}

func livingWorkers(nodes []cluster.Node) []cluster.Node {
	return slices.DeleteFunc(slices.Clone(nodes), func(n cluster.Node) bool { return n.Role != cluster.Worker || !n.Removed.IsZero() })
}

// applyVersion writes the version of an upgrade into its request.
func (s *Service) applyVersion(c *cluster.Cluster, r ChangeRequest, ask *cluster.Request) error {
	to, err := s.version(r.Version)
	if err != nil {
		return err
	}
	from := ""
	if old, err := s.version(c.Version); err == nil {
		from = old.Semantic
	}
	if err := cluster.ValidateUpgrade(from, to.Semantic); err != nil {
		return err
	}
	if r.Surge < 0 {
		return cluster.ClusterInvalid.Errorf("surge %d: at least 1 node is added at a time", r.Surge).With("parameter", "surge")
	}
	ask.Version, ask.Template, ask.Surge = to.ID, to.Template, max(1, r.Surge)
	return nil
}

// version finds a configured version by id or name.
func (s *Service) version(id string) (Version, error) {
	for _, v := range s.options.Versions {
		if id != "" && (v.ID == id || v.Name == id) {
			if v.Disabled {
				return v, cluster.EntityRefused.Errorf("version %s is disabled", id).With("parameter", "versionid")
			}
			return v, nil
		}
	}
	return Version{}, cluster.EntityRefused.Errorf("version %q is not configured", id).With("parameter", "versionid")
}

// Patch changes settings. A new size, or new CIDRs of a running cluster, need a
// scale; then Patch returns its job. After a write conflict, a patch without a
// revision is decided again.
func (s *Service) Patch(ctx context.Context, who cluster.Caller, uuid string, r PatchRequest) (*cluster.Cluster, *cluster.Job, error) {
	return retryConflict(r.Revision, func() (*cluster.Cluster, *cluster.Job, error) { return s.patchOnce(ctx, who, uuid, r) })
}

func (s *Service) patchOnce(ctx context.Context, who cluster.Caller, uuid string, r PatchRequest) (*cluster.Cluster, *cluster.Job, error) {
	record, err := s.Get(ctx, who, uuid)
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
	if err := s.commit(ctx, change); err != nil {
		return nil, nil, err
	}
	s.notify(record.Cluster.UUID)
	if change.Jobs == nil {
		return &record.Cluster, nil, nil
	}
	return &record.Cluster, change.Jobs[0], nil
}

// decidePatch returns the change that a patch writes. Its first job is that of
// the scale, if there is one.
func (s *Service) decidePatch(ctx context.Context, who cluster.Caller, record *cluster.Record, r PatchRequest) (*cluster.Change, error) {
	c := &record.Cluster
	if err := s.patch(c, who, r); err != nil {
		return nil, err
	}
	change := &cluster.Change{Cluster: c, Events: []*cluster.Event{s.event(c, who, "cluster", "Patch")}}
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

func (s *Service) patch(c *cluster.Cluster, who cluster.Caller, r PatchRequest) error {
	if r.Revision != 0 && r.Revision != c.Revision {
		return fault.WriteConflict.Errorf("cluster %s is at revision %d, the request is for %d", c.Name, c.Revision, r.Revision)
	}
	if c.Desired == cluster.WantDestroyed && r.GC == nil {
		return cluster.StateRefused.Errorf("cluster %s is %s: it is being deleted", c.Name, c.State).With("state", string(c.State))
	}
	if r.Description != nil {
		if err := cluster.ValidateDescription(*r.Description); err != nil {
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
		if err := cluster.ValidateCIDRs(*r.CIDRs); err != nil {
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

// Forget ends the deletion of a cluster in Expunge with resources left. It reads
// each open resource once more; one that is not proven gone becomes Forgotten
// and stays in the leak report. confirm is the cluster's name.
func (s *Service) Forget(ctx context.Context, who cluster.Caller, uuid, confirm, jobID string) (*cluster.Job, error) {
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
	change := &cluster.Change{Cluster: c, Journal: rows, Jobs: []*cluster.Job{job}, Events: []*cluster.Event{s.event(c, who, "leak", "ForceForget")}}
	if err := s.commit(ctx, change); err != nil {
		return nil, err
	}
	s.notify(c.UUID)
	return job, nil
}

// forgettable returns the record of a cluster to an operator.
func (s *Service) forgettable(ctx context.Context, who cluster.Caller, uuid string) (*cluster.Record, error) {
	if !who.Operator {
		return nil, cluster.AccessRefused.Errorf("to forget a cluster is for operators")
	}
	return s.Get(ctx, who, uuid)
}

// decideForget reads each open resource of a cluster once more and returns the
// rows with their new phases.
func (s *Service) decideForget(ctx context.Context, record *cluster.Record, confirm string) (rows []*cluster.JournalRow, err error) {
	c := &record.Cluster
	if confirm != c.Name {
		return nil, cluster.ClusterInvalid.Errorf("confirm %q is not the name of the cluster, which is %q", confirm, c.Name).With("parameter", "confirm")
	}
	if _, err := cluster.Next(c.State, cluster.OnForget); err != nil {
		return nil, err
	}
	provider, err := s.provider(c.Provider)
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

// overtaken returns the open jobs of a cluster that its deletion ends.
func (s *Service) overtaken(ctx context.Context, c *cluster.Cluster) ([]*cluster.Job, error) {
	open, _, err := s.options.Records.Jobs(ctx, cluster.JobQuery{Scope: cluster.Scope{All: true}, Cluster: c.UUID, OnlyOpen: true})
	if err != nil {
		return nil, err
	}
	var ended []*cluster.Job
	for _, job := range open {
		if job.Kind == string(cluster.RequestDelete) {
			continue
		}
		job.Status, job.Code, job.Text = cluster.JobFailed, RunOvertaken.Code, "the cluster is being deleted"
		job.Completed = s.options.Now()
		ended = append(ended, &job)
	}
	return ended, nil
}

// RunOvertaken is the fault of a job that a deletion of the cluster has ended.
var RunOvertaken = fault.Declare(fault.Kind{
	Code: "OPERATION_OVERTAKEN", Class: fault.Blocked, Title: "a deletion has overtaken the operation",
	Remedy: "Nothing is to be done: the cluster is being deleted.", Guide: "container-clusters.md",
})

// earlierJob returns the job of an earlier request with the same id; nil if
// there is none. JOB_ID_REUSED if the request was different.
func (s *Service) earlierJob(ctx context.Context, who cluster.Caller, id, digest string) (*cluster.Job, error) {
	if id == "" {
		return nil, nil //nolint:nilnil // there is none, and that is no error
	}
	job, err := s.options.Records.Job(ctx, id)
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

// explainConflict returns JOB_ID_REUSED for a write conflict with another
// request of the same job id, and other errors as they are.
func (s *Service) explainConflict(ctx context.Context, err error, jobID string) error {
	if jobID == "" || !errors.Is(err, fault.WriteConflict) {
		return err
	}
	if _, readErr := s.options.Records.Job(ctx, jobID); readErr == nil {
		return cluster.JobReused.Errorf("job %s was created by another request at the same time; send the request again", jobID)
	}
	return err
}

func (s *Service) job(who cluster.Caller, c *cluster.Cluster, id, command, kind, digest string) *cluster.Job {
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

func (s *Service) event(c *cluster.Cluster, who cluster.Caller, kind, what string) *cluster.Event {
	return &cluster.Event{
		At: s.options.Now(), Cluster: c.UUID, Owner: c.Owner, Type: kind, State: string(c.State),
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
