package api

import (
	"context"
	"errors"
	"slices"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/capacity"
	"github.com/pawl-dev/pawl/cluster/validate"
	"github.com/pawl-dev/pawl/fault"
)

// ChangeRequest asks for a change. Kind is one of start, stop, scale, upgrade, recover, delete.
type ChangeRequest struct {
	Kind      cluster.RequestKind
	Revision  int64 // compare-and-set; 0: any
	Forced    bool
	Size      int      // scale; 0: not given
	NodeIDs   []string // scale: provider ids or names of workers to remove
	Autoscale *cluster.Autoscale
	Version   string
	Surge     int
	Recovery  cluster.Recovery // recover; nil: restart,replace
	Consent   bool
	Downtime  bool // upgrade: the endpoint may be unavailable while the only control node is upgraded in place
	JobID     string
	Command   string
}

// Change requests a change of a cluster. The returned job ends with the change;
// if there is nothing to do it is done at once. After a write conflict, a
// request without a revision is decided again.
func (s *Requests) Change(ctx context.Context, who cluster.Caller, uuid string, r ChangeRequest) (*cluster.Cluster, *cluster.Job, error) {
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

func (s *Requests) changeOnce(ctx context.Context, who cluster.Caller, uuid string, r ChangeRequest) (*cluster.Cluster, *cluster.Job, error) {
	record, err := s.reader.Get(ctx, who, uuid)
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
	if err := s.options.Store.Commit(ctx, change); err != nil {
		return nil, nil, s.explainConflict(ctx, err, r.JobID)
	}
	s.options.Notify(record.Cluster.UUID)
	return &record.Cluster, change.Jobs[len(change.Jobs)-1], nil
}

// checkCapacity refuses a scale beyond the limits of the account or the capacity
// of the provider, before anything is stored. A provider that does not answer is
// no refusal: the run checks again and waits for it.
func (s *Requests) checkCapacity(ctx context.Context, record *cluster.Record, was int) error {
	c := &record.Cluster
	more := c.NodeCount - len(livingWorkers(record.Nodes))
	if more <= 0 {
		return nil
	}
	found, err := s.options.Capacity.Findings(ctx, c, more, c.NodeCount-was, capacity.WithFormerSize)
	if err != nil {
		return ctx.Err()
	}
	return capacity.Refusal(found)
}

// decide returns the change that a request writes. The job of the request is the
// last one of the change.
func (s *Requests) decide(ctx context.Context, who cluster.Caller, record *cluster.Record, r ChangeRequest, digest string) (*cluster.Change, error) {
	c := &record.Cluster
	if r.Revision != 0 && r.Revision != c.Revision {
		return nil, fault.WriteConflict.Errorf("cluster %s is at revision %d, the request is for %d", c.Name, c.Revision, r.Revision)
	}
	v, err := admit(c, r.Kind)
	if err != nil {
		return nil, err
	}
	job := s.job(who, c, r.JobID, r.Command, string(r.Kind), digest)
	event := s.options.newEvent(c, who, "cluster", string(r.Kind))
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
func (s *Requests) applyRequest(ctx context.Context, who cluster.Caller, record *cluster.Record, r ChangeRequest, job string) (admitDecision, error) {
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
		if err := s.options.Upgrades.MayUpgradeControl(record, ask); err != nil {
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
func (s *Requests) applySize(record *cluster.Record, r ChangeRequest, ask *cluster.Request) (only bool, err error) {
	c := &record.Cluster
	limit := s.options.Settings.MaxWorkers
	if err := validate.Scale(validate.ScaleFacts{
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
func (s *Requests) applyVersion(c *cluster.Cluster, r ChangeRequest, ask *cluster.Request) error {
	to, err := s.options.Versions.Find(r.Version)
	if err != nil {
		return err
	}
	from := ""
	if old, err := s.options.Versions.Find(c.Version); err == nil {
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
