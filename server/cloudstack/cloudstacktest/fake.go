// Package cloudstacktest is a fake cluster service for tests of the query API and of its
// clients: it keeps clusters in memory and creates no VMs.
package cloudstacktest

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/account"
	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/api"
	"github.com/pawl-dev/pawl/cluster/memory"
	"github.com/pawl-dev/pawl/cluster/settings"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/server/auth"
)

// Fake is a cloudstack.Clusters. New returns one.
type Fake struct {
	Records   *memory.Store
	Directory auth.Directory
	Now       func() time.Time
	Offers    map[cluster.Kind][]cluster.Entry
	Known     settings.Versions
	Polls     int              // reads of a job until it is done; 0: only End ends it
	Fails     map[string]error // method -> its error
	Leaked    []api.Leak
	Stands    map[string]api.Explanation // by uuid of the cluster

	mu      sync.Mutex
	Calls   []string // received calls: method and command
	polled  map[string]int
	created int
}

// New returns a fake without clusters.
func New(accounts account.Store, now func() time.Time) *Fake {
	return &Fake{
		Records: memory.New(), Directory: auth.Directory{Store: accounts}, Now: now, polled: map[string]int{}, Fails: map[string]error{},
		Offers: map[cluster.Kind][]cluster.Entry{
			cluster.Zone:     {{Kind: cluster.Zone, ID: "z1", Name: "Zone One"}, {Kind: cluster.Zone, ID: "z2", Name: "Zone Two", Disabled: true}},
			cluster.Offering: {{Kind: cluster.Offering, ID: "o1", Name: "Small", Cores: 2, MemoryMB: 2048}, {Kind: cluster.Offering, ID: "o2", Name: "Own size", Custom: true}},
			cluster.Template: {{Kind: cluster.Template, ID: "t1", Name: "Node", Zone: "z1"}},
			cluster.Network:  {{Kind: cluster.Network, ID: "n1", Name: "net", Zone: "z1", State: "Implemented", Services: []string{"Dhcp", "SourceNat"}}},
		},
		Known: settings.Versions{
			{ID: "v1", Name: "1.30.1", Semantic: "1.30.1", Template: cluster.Entity{ID: "t1", Name: "Node"}, MinCores: 2, MinMemory: 2048},
			{ID: "v2", Name: "1.31.0", Semantic: "1.31.0", Template: cluster.Entity{ID: "t2", Name: "Node 2"}, Disabled: true},
		},
	}
}

func (f *Fake) record(method, what string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.Calls = append(f.Calls, strings.TrimSpace(method+" "+what))
	return f.Fails[method]
}

// uuid returns the next id of a kind.
func (f *Fake) uuid(kind string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.created++
	sum := sha256.Sum256(fmt.Append(nil, kind, f.created))
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[0:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

func (f *Fake) job(who cluster.Caller, c *cluster.Cluster, id, command, kind string) *cluster.Job {
	if id == "" {
		id = f.uuid("job")
	}
	return &cluster.Job{ID: id, Cluster: c.UUID, Command: command, Kind: kind, Owner: who.Owner, User: who.User, Created: f.Now()}
}

// Create stores a cluster in state Starting.
func (f *Fake) Create(ctx context.Context, who cluster.Caller, r api.CreateRequest) (*cluster.Cluster, *cluster.Job, error) {
	if err := f.record("Create", r.Command); err != nil {
		return nil, nil, err
	}
	owner := who.Owner
	if r.Account != "" {
		found, err := f.Directory.Resolve(ctx, r.Account, r.DomainID)
		if err != nil {
			return nil, nil, err
		}
		if !who.Scope.Sees(found) {
			return nil, nil, cluster.AccessRefused.Errorf("account %s is not in the reach of %s", r.Account, who.User)
		}
		owner = found
	}
	if r.JobID != "" {
		if job, err := f.Records.Job(ctx, r.JobID); err == nil {
			if job.Digest != fmt.Sprint(r) {
				return nil, nil, cluster.JobReused.Errorf("job %s was for another request", r.JobID)
			}
			b, err := f.Records.Record(ctx, job.Cluster)
			return &b.Cluster, job, err
		}
	}
	if r.Size < 1 || r.Size > cluster.MaxWorkers {
		return nil, nil, cluster.ClusterInvalid.Errorf("size %d: it is 1 to %d", r.Size, cluster.MaxWorkers)
	}
	zone, err := f.entity(cluster.Zone, r.Zone)
	if err != nil {
		return nil, nil, err
	}
	offering, err := f.entity(cluster.Offering, r.Offering)
	if err != nil {
		return nil, nil, err
	}
	control := max(r.ControlNodes, 1)
	c := &cluster.Cluster{
		UUID: f.uuid("cluster"), Name: r.Name, Description: r.Description, Owner: owner, Provider: "fake", Zone: zone, Offering: offering,
		Template: cluster.Entity{ID: "t1", Name: "Node"}, Network: cluster.Entity{ID: "n1", Name: "net"}, KeyPair: r.KeyPair, DiskGB: r.DiskGB, Version: r.Version,
		Desired: cluster.WantRunning, NodeCount: r.Size, ControlCount: control, State: cluster.Starting, StateSince: f.Now(), GC: true,
		Cores: 2 * (r.Size + control), MemoryMB: 2048 * (r.Size + control), Created: f.Now(),
	}
	job := f.job(who, c, r.JobID, r.Command, "create")
	job.Owner, job.Digest, job.Password = owner, fmt.Sprint(r), "planted-password"
	c.Request = &cluster.Request{Kind: cluster.RequestStart, Job: job.ID}
	change := &cluster.Change{Cluster: c, Jobs: []*cluster.Job{job}, Details: &cluster.Details{Username: "admin", Password: "planted-password"}}
	for i := range control + r.Size {
		role, ordinal := cluster.Worker, i-control
		if i < control {
			role, ordinal = cluster.Control, i
		}
		change.Nodes = append(change.Nodes, f.node(c, role, ordinal))
	}
	return c, job, f.Records.Commit(ctx, change)
}

func (f *Fake) node(c *cluster.Cluster, role cluster.Role, ordinal int) *cluster.Node {
	name := fmt.Sprintf("%s-%s%d", c.Name, role, ordinal)
	return &cluster.Node{VMID: f.uuid("vm"), Key: name, Name: name, Role: role, Ordinal: ordinal, Address: fmt.Sprintf("10.0.0.%d", ordinal+10)}
}

func (f *Fake) entity(kind cluster.Kind, id string) (cluster.Entity, error) {
	for _, e := range f.Offers[kind] {
		if e.ID == id && e.Disabled {
			return cluster.Entity{}, cluster.EntityRefused.Errorf("%s %s is disabled", kind, id).With("disabled", true)
		}
		if e.ID == id {
			return cluster.Entity{ID: e.ID, Name: e.Name}, nil
		}
	}
	return cluster.Entity{}, cluster.EntityRefused.Errorf("there is no %s %q", kind, id)
}

// Change moves a cluster into the transient state of the request.
func (f *Fake) Change(ctx context.Context, who cluster.Caller, uuid string, r api.ChangeRequest) (*cluster.Cluster, *cluster.Job, error) {
	if err := f.record("Change", string(r.Kind)); err != nil {
		return nil, nil, err
	}
	b, err := f.Get(ctx, who, uuid)
	if err != nil {
		return nil, nil, err
	}
	c := &b.Cluster
	if c.State == cluster.Destroyed || c.State == cluster.Stopped && r.Kind == cluster.RequestScale {
		return nil, nil, cluster.StateRefused.Errorf("%s of cluster %s: it is %s", r.Kind, c.Name, c.State).With("state", string(c.State))
	}
	job := f.job(who, c, r.JobID, r.Command, string(r.Kind))
	job.Owner = c.Owner
	change := &cluster.Change{Cluster: c, Jobs: []*cluster.Job{job}}
	c.Request = &cluster.Request{Kind: r.Kind, Job: job.ID}
	c.State = map[cluster.RequestKind]machine.State{
		cluster.RequestStart: cluster.Starting, cluster.RequestStop: cluster.Stopping, cluster.RequestScale: cluster.Scaling,
		cluster.RequestUpgrade: cluster.Scaling, cluster.RequestRecover: cluster.Recovering, cluster.RequestDelete: cluster.Expunging,
	}[r.Kind]
	if r.Version != "" {
		c.Request.Version = r.Version
	}
	switch {
	case r.Autoscale != nil:
		c.Autoscale = *r.Autoscale
	case len(r.NodeIDs) > 0:
		for i := range b.Nodes {
			if n := &b.Nodes[i]; slices.Contains(r.NodeIDs, n.VMID) {
				n.Removed = f.Now()
				change.Nodes = append(change.Nodes, n)
				c.NodeCount--
			}
		}
		if len(change.Nodes) != len(r.NodeIDs) {
			return nil, nil, cluster.ClusterInvalid.Errorf("nodeids: not all are workers of cluster %s", c.Name)
		}
	case r.Size > 0:
		for i := c.NodeCount; i < r.Size; i++ {
			n := f.node(c, cluster.Worker, i)
			change.Nodes = append(change.Nodes, n)
		}
		c.NodeCount = r.Size
	}
	return c, job, f.Records.Commit(ctx, change)
}

// End ends a job: done, or failed with why.
func (f *Fake) End(ctx context.Context, id string, why error) error {
	job, err := f.Records.Job(ctx, id)
	if err != nil || job.Status != cluster.JobOpen {
		return err
	}
	b, err := f.Records.Record(ctx, job.Cluster)
	if err != nil {
		return err
	}
	c := &b.Cluster
	c.Request, job.Status, job.Completed = nil, cluster.JobDone, f.Now()
	switch cluster.RequestKind(job.Kind) {
	case cluster.RequestStop:
		c.State, c.Desired = cluster.Stopped, cluster.WantStopped
	case cluster.RequestDelete, "forget":
		c.State, c.Desired, c.Removed = cluster.Destroyed, cluster.WantDestroyed, f.Now()
	default:
		c.State, c.Endpoint = cluster.Running, "https://10.1.1.9:6443/"
	}
	if why != nil {
		reason := Reason(why)
		job.Status, job.Code, job.Text, job.Step = cluster.JobFailed, reason.Code, reason.Text, reason.Step
		c.State, c.Reason = cluster.Alert, reason
	}
	return f.Records.Commit(ctx, &cluster.Change{Cluster: c, Jobs: []*cluster.Job{job}})
}

// Forget creates a job that gives a cluster up.
func (f *Fake) Forget(ctx context.Context, who cluster.Caller, uuid, confirm, jobID string) (*cluster.Job, error) {
	if err := f.record("Forget", ""); err != nil {
		return nil, err
	}
	b, err := f.Get(ctx, who, uuid)
	if err != nil {
		return nil, err
	}
	if confirm != b.Cluster.Name {
		return nil, cluster.ClusterInvalid.Errorf("confirm %q is not the name of the cluster", confirm)
	}
	job := f.job(who, &b.Cluster, jobID, "forgetContainerCluster", "forget")
	return job, f.Records.Commit(ctx, &cluster.Change{ClusterID: b.Cluster.ID, Jobs: []*cluster.Job{job}})
}

// PlanCreate returns a plan with one step.
func (f *Fake) PlanCreate(_ context.Context, _ cluster.Caller, r api.CreateRequest) (*api.DryRun, error) {
	return &api.DryRun{Steps: []api.DryRunStep{{Name: "check", Text: "check quota"}}, Resources: []api.DryRunResource{}, Findings: []cluster.Finding{}}, f.record("PlanCreate", r.Command)
}

// PlanChange returns a plan with one step.
func (f *Fake) PlanChange(ctx context.Context, who cluster.Caller, uuid string, r api.ChangeRequest) (*api.DryRun, error) {
	if _, err := f.Get(ctx, who, uuid); err != nil {
		return nil, err
	}
	return f.PlanCreate(ctx, who, api.CreateRequest{Command: r.Command})
}

// Get refuses unknown clusters and those outside the caller's scope, as the service does.
func (f *Fake) Get(ctx context.Context, who cluster.Caller, uuid string) (*cluster.Record, error) {
	if err := f.record("Get", ""); err != nil {
		return nil, err
	}
	b, err := f.Records.Record(ctx, uuid)
	if err == nil && !who.Scope.Sees(b.Cluster.Owner) {
		return nil, cluster.AccessRefused.Errorf("cluster %s is not in the reach of %s", uuid, who.User)
	}
	return b, err
}

// List returns the clusters in the caller's scope.
func (f *Fake) List(ctx context.Context, who cluster.Caller, q cluster.ClusterQuery) ([]cluster.Cluster, int, error) {
	q.Scope = who.Scope
	if err := f.record("List", ""); err != nil {
		return nil, 0, err
	}
	return f.Records.List(ctx, q)
}

// VMs implements cloudstack.Clusters.
func (f *Fake) VMs(ctx context.Context, clusters []cluster.Cluster) (map[int64][]string, error) {
	ids := make([]int64, len(clusters))
	for i, c := range clusters {
		ids[i] = c.ID
	}
	return f.Records.VMs(ctx, ids)
}

// Reach implements cloudstack.Clusters.
func (f *Fake) Reach(ctx context.Context, clusters []cluster.Cluster) (map[int64]cluster.Reach, error) {
	ids := make([]int64, len(clusters))
	for i, c := range clusters {
		ids[i] = c.ID
	}
	return f.Records.Reach(ctx, ids)
}

// Nodes implements cloudstack.Clusters.
func (f *Fake) Nodes(ctx context.Context, clusters []cluster.Cluster) (map[int64][]cluster.Node, error) {
	var ids []int64
	for _, c := range clusters {
		ids = append(ids, c.ID)
	}
	return f.Records.Nodes(ctx, ids)
}

// Details returns the details of a cluster.
func (f *Fake) Details(ctx context.Context, _ cluster.Caller, uuid string) (*cluster.Details, error) {
	return f.Records.Details(ctx, uuid)
}

// Explanations returns Stands.
func (f *Fake) Explanations(context.Context, []cluster.Cluster) (map[string]api.Explanation, error) {
	return f.Stands, f.record("Standings", "")
}

// Explanation returns one of Stands.
func (f *Fake) Explanation(_ context.Context, uuid string) (api.Explanation, error) {
	return f.Stands[uuid], f.record("Standing", "")
}

// Drift returns a report with the stored findings.
func (f *Fake) Drift(ctx context.Context, who cluster.Caller, uuid string) (*api.DriftReport, error) {
	b, err := f.Get(ctx, who, uuid)
	if err != nil {
		return nil, err
	}
	return &api.DriftReport{Cluster: uuid, State: b.Cluster.State, At: f.Now(), Findings: append([]cluster.Finding{}, b.Cluster.Findings...)}, f.record("Drift", "")
}

// Config returns a short configuration.
func (f *Fake) Config(ctx context.Context, who cluster.Caller, uuid string) (*api.Config, error) {
	b, err := f.Get(ctx, who, uuid)
	if err != nil {
		return nil, err
	}
	return &api.Config{ID: uuid, Name: b.Cluster.Name, Data: "apiVersion: v1\n"}, f.record("Config", "")
}

// Leaks returns Leaked.
func (f *Fake) Leaks(_ context.Context, _ cluster.Caller, uuid string, kind cluster.Kind, offset, limit int) ([]api.Leak, int, error) {
	all := slices.DeleteFunc(slices.Clone(f.Leaked), func(l api.Leak) bool {
		return uuid != "" && l.Cluster != uuid || kind != "" && l.Kind != kind
	})
	from := min(offset, len(all))
	return all[from:min(from+min(limit, len(all)), len(all))], len(all), f.record("Leaks", "")
}

// Job returns a job, and ends it when it was read Polls times.
func (f *Fake) Job(ctx context.Context, who cluster.Caller, id string) (*cluster.Job, error) {
	if err := f.record("Job", ""); err != nil {
		return nil, err
	}
	job, err := f.Records.Job(ctx, id)
	if err != nil {
		return nil, err
	}
	if job.Owner != who.Owner && !who.Operator {
		return nil, cluster.AccessRefused.Errorf("job %s is not in the reach of %s", id, who.User)
	}
	f.mu.Lock()
	f.polled[id]++
	over := f.Polls > 0 && f.polled[id] >= f.Polls
	f.mu.Unlock()
	if over {
		if err := f.End(ctx, id, nil); err != nil {
			return nil, err
		}
		return f.Records.Job(ctx, id)
	}
	return job, nil
}

// Jobs returns the jobs in the caller's scope.
func (f *Fake) Jobs(ctx context.Context, who cluster.Caller, q cluster.JobQuery) ([]cluster.Job, int, error) {
	q.Scope = who.Scope
	return f.Records.Jobs(ctx, q)
}

// Catalog returns Offers.
func (f *Fake) Catalog(_ context.Context, _ cluster.Caller, kind cluster.Kind) ([]cluster.Entry, error) {
	return f.Offers[kind], f.record("Catalog", string(kind))
}

// Versions returns Known.
func (f *Fake) Versions() settings.Versions { return f.Known }

// Reason returns the recorded form of an error.
func Reason(err error) cluster.Reason {
	return cluster.Reason{Code: fault.Of(err).Code, Text: fault.Message(err), Step: "network"}
}
