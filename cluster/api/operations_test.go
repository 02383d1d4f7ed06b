package api_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/api"
	"github.com/pawl-dev/pawl/cluster/memory"
	"github.com/pawl-dev/pawl/cluster/providers"

	"github.com/pawl-dev/pawl/cluster/service"
	"github.com/pawl-dev/pawl/cluster/settings"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/provider/sim"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

// fixture is a service that accepts requests but does not run its controller.
type fixture struct {
	*service.Service

	t       *testing.T
	records *memory.Store
}

// people is the Directory of these tests: the accounts uma and udo are in one
// domain.
type people struct{ limits cluster.Limits }

func (p people) Resolve(_ context.Context, account, domain string) (cluster.Owner, error) {
	if (account == "uma" || account == "udo") && domain == "dev" {
		return cluster.Owner{AccountID: account, DomainID: domain}, nil
	}
	return cluster.Owner{}, cluster.AccessRefused.Errorf("there is no account %q", account)
}

func (p people) Names(_ context.Context, o cluster.Owner) (account, domain string, enabled bool, err error) {
	return o.AccountID, o.DomainID, o.AccountID != "disabled", nil
}
func (p people) Limits(context.Context, cluster.Owner) (cluster.Limits, error) { return p.limits, nil }
func (p people) Subtree(_ context.Context, domain string) ([]string, error) {
	return []string{domain}, nil
}

func as(account string) cluster.Caller {
	return cluster.Caller{User: account, Owner: cluster.Owner{AccountID: account, DomainID: "dev"}, Scope: cluster.Scope{AccountID: account}}
}

var superuser = cluster.Caller{User: "root", Owner: cluster.Owner{AccountID: "root", DomainID: "ROOT"}, Scope: cluster.Scope{All: true}, Operator: true}

func newFixture(t *testing.T, limits cluster.Limits) *fixture {
	cloud, err := sim.New(sim.Options{Installation: "here"})
	if err != nil {
		t.Fatal(err)
	}
	c := &fixture{t: t, records: memory.New()}
	c.Service, err = service.New(service.Options{
		Records: c.records, Directory: people{limits}, Installation: "here", Providers: []providers.Named{{Name: "sim", Provider: cloud}},
		Versions: settings.Versions{
			{ID: "v1", Name: "one", Semantic: "1.0.0"}, {ID: "v2", Name: "two", Semantic: "1.1.0"}, {ID: "v4", Name: "four", Semantic: "1.3.0"},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	engine, err := workflow.New(runstore.NewMemory(), c.Flows(), workflow.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Bind(engine); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *fixture) make(who cluster.Caller, name string) *cluster.Cluster {
	c.t.Helper()
	created, _, err := c.Create(c.t.Context(), who, api.CreateRequest{Name: name, Zone: "zone-1", Offering: "small", Size: 2, Version: "v1"})
	if err != nil {
		c.t.Fatal(err)
	}
	return created
}

// put sets the state of a cluster in place of the controller.
func (c *fixture) put(uuid string, s machine.State, edit func(*cluster.Cluster)) {
	c.t.Helper()
	record, err := c.records.Record(c.t.Context(), uuid)
	if err != nil {
		c.t.Fatal(err)
	}
	cl := &record.Cluster
	cl.State, cl.Request, cl.Desired = s, nil, cluster.WantRunning
	if s == cluster.Stopped || s == cluster.Stopping {
		cl.Desired = cluster.WantStopped
	}
	if edit != nil {
		edit(cl)
	}
	change := &cluster.Change{Cluster: cl}
	if len(record.Nodes) == 0 {
		for i, role := range []cluster.Role{cluster.Control, cluster.Worker, cluster.Worker} {
			change.Nodes = append(change.Nodes, &cluster.Node{Name: cluster.NodeName(cl, role, i+1), VMID: "vm-" + string(rune('a'+i)), Role: role, Ordinal: i + 1})
		}
	}
	if err := c.records.Commit(c.t.Context(), change); err != nil {
		c.t.Fatal(err)
	}
}

// Every operation in every state: operations that are not listed here are refused.
func TestWhoMayChangeWhatInWhichState(t *testing.T) {
	const refused, done, joins, changes = "refused", "done", "joins", "changes"
	all := func(verdict string, except map[machine.State]string) map[machine.State]string {
		m := map[machine.State]string{}
		for _, s := range cluster.States {
			if m[s] = verdict; except[s] != "" {
				m[s] = except[s]
			}
		}
		return m
	}
	table := map[cluster.RequestKind]map[machine.State]string{
		cluster.RequestStart:   all(refused, map[machine.State]string{cluster.Created: joins, cluster.Starting: joins, cluster.Running: done, cluster.Stopped: changes, cluster.Alert: changes}),
		cluster.RequestStop:    all(refused, map[machine.State]string{cluster.Running: changes, cluster.Alert: changes, cluster.Stopping: joins, cluster.Stopped: done}),
		cluster.RequestScale:   all(refused, map[machine.State]string{cluster.Running: changes, cluster.Alert: changes}),
		cluster.RequestUpgrade: all(refused, map[machine.State]string{cluster.Running: changes, cluster.Alert: changes}),
		cluster.RequestRecover: all(refused, map[machine.State]string{cluster.Running: done, cluster.Recovering: joins, cluster.Alert: changes}),
		cluster.RequestDelete:  all(changes, map[machine.State]string{cluster.Expunging: joins, cluster.Destroyed: refused}),
	}
	for kind, row := range table {
		for state, want := range row {
			t.Run(string(kind)+" in "+string(state), func(t *testing.T) {
				c := newFixture(t, cluster.Limits{})
				id := c.make(as("uma"), "blue").UUID
				c.put(id, state, nil)
				after, job, err := c.Change(t.Context(), as("uma"), id, api.ChangeRequest{Kind: kind, Size: 3, Version: "v2", Consent: true})
				got := refused
				switch {
				case err != nil && !errors.Is(err, cluster.StateRefused):
					t.Fatal(err)
				case err != nil:
				case job.Status == cluster.JobDone:
					got = done
				case after.Request != nil && after.Request.Job == job.ID:
					got = changes
				default:
					got = joins
				}
				if got != want {
					t.Errorf("%s, want %s (%v)", got, want, err)
				}
			})
		}
	}
}

// The same job id with the same request and account returns the same job. Any other request with that id is refused.
func TestAJobIDIsOneRequest(t *testing.T) {
	c := newFixture(t, cluster.Limits{})
	r := api.CreateRequest{Name: "blue", Zone: "zone-1", Offering: "small", Size: 2, JobID: "11111111-2222-4333-8444-555555555555"}
	first, job, err := c.Create(t.Context(), as("uma"), r)
	if err != nil {
		t.Fatal(err)
	}
	again, same, err := c.Create(t.Context(), as("uma"), r)
	if err != nil || again.UUID != first.UUID || same.ID != job.ID {
		t.Errorf("the second request gave %v, %v, %v", again, same, err)
	}
	other := r
	other.Size = 3
	if _, _, err := c.Create(t.Context(), as("uma"), other); !errors.Is(err, cluster.JobReused) {
		t.Errorf("another request: %v", err)
	}
	if _, _, err := c.Create(t.Context(), as("udo"), r); !errors.Is(err, cluster.JobReused) {
		t.Errorf("another account: %v", err)
	}
	if _, total, _ := c.List(t.Context(), superuser, cluster.ClusterQuery{}); total != 1 {
		t.Errorf("%d clusters, want 1", total)
	}
}

// A caller may use its own clusters only, and a name is looked up in its scope only.
func TestAnotherAccountsClusterIsRefused(t *testing.T) {
	c := newFixture(t, cluster.Limits{})
	id := c.make(as("uma"), "blue").UUID
	if _, err := c.Get(t.Context(), as("udo"), id); !errors.Is(err, cluster.AccessRefused) {
		t.Errorf("get: %v", err)
	}
	if _, err := c.Get(t.Context(), as("udo"), "blue"); !errors.Is(err, cluster.NotFound) {
		t.Errorf("get by name: %v", err)
	}
	if _, _, err := c.Change(t.Context(), as("udo"), id, api.ChangeRequest{Kind: cluster.RequestDelete}); !errors.Is(err, cluster.AccessRefused) {
		t.Errorf("delete: %v", err)
	}
	for what, err := range map[string]error{
		"forget": func() error { _, err := c.Forget(t.Context(), as("uma"), id, "blue", ""); return err }(),
		"leaks":  func() error { _, _, err := c.Leaks(t.Context(), as("uma"), "", "", 0, 0); return err }(),
		"gc": func() error {
			off := false
			_, _, err := c.Patch(t.Context(), as("uma"), id, api.PatchRequest{GC: &off})
			return err
		}(),
	} {
		if !errors.Is(err, cluster.AccessRefused) {
			t.Errorf("%s by its owner, who is no operator: %v", what, err)
		}
	}
	if b, err := c.Get(t.Context(), as("uma"), "blue"); err != nil || b.Cluster.UUID != id {
		t.Errorf("its owner, by name: %v", err)
	}
}

// A caller may create a cluster for another account only if the account is in its scope.
func TestCreateForAnotherAccount(t *testing.T) {
	c := newFixture(t, cluster.Limits{})
	r := api.CreateRequest{Name: "blue", Zone: "zone-1", Offering: "small", Size: 1, Account: "udo"}
	if _, _, err := c.Create(t.Context(), superuser, r); !errors.Is(err, cluster.ClusterInvalid) {
		t.Errorf("without its domain: %v", err)
	}
	r.DomainID = "dev"
	if _, _, err := c.Create(t.Context(), as("uma"), r); !errors.Is(err, cluster.AccessRefused) {
		t.Errorf("by a user: %v", err)
	}
	admin := cluster.Caller{User: "ada", Owner: cluster.Owner{AccountID: "ada", DomainID: "dev"}, Scope: cluster.Scope{DomainIDs: []string{"dev"}}, DomainAdmin: true}
	created, job, err := c.Create(t.Context(), admin, r)
	if err != nil || created.Owner.AccountID != "udo" || job.Owner.AccountID != "udo" {
		t.Errorf("by the domain's admin: %+v, %v", created, err)
	}
}

// A deletion ends the open jobs of the cluster, and those jobs have a code.
func TestADeletionOvertakesOpenJobs(t *testing.T) {
	c := newFixture(t, cluster.Limits{})
	created := c.make(as("uma"), "blue")
	create := created.Request.Job
	_, job, err := c.Change(t.Context(), as("uma"), created.UUID, api.ChangeRequest{Kind: cluster.RequestDelete})
	if err != nil {
		t.Fatal(err)
	}
	if old, _ := c.Job(t.Context(), as("uma"), create); old.Status != cluster.JobFailed || old.Code != cluster.RunOvertaken.Code || old.Completed.IsZero() {
		t.Errorf("the create job: %+v", old)
	}
	_, second, err := c.Change(t.Context(), as("uma"), created.UUID, api.ChangeRequest{Kind: cluster.RequestDelete})
	if err != nil || second.ID == job.ID || second.Status != cluster.JobOpen {
		t.Errorf("a second deletion joins the first: %+v, %v", second, err)
	}
	if _, _, err := c.Change(t.Context(), as("uma"), created.UUID, api.ChangeRequest{Kind: cluster.RequestStart}); !errors.Is(err, cluster.StateRefused) {
		t.Errorf("Destroyed as desired is final: %v", err)
	}
}

// A change that names a revision fails if the cluster has another one.
func TestAChangeIsForItsRevision(t *testing.T) {
	c := newFixture(t, cluster.Limits{})
	created := c.make(as("uma"), "blue")
	c.put(created.UUID, cluster.Running, nil)
	_, _, err := c.Change(t.Context(), as("uma"), created.UUID, api.ChangeRequest{Kind: cluster.RequestStop, Revision: created.Revision})
	if !errors.Is(err, fault.WriteConflict) {
		t.Errorf("an old revision: %v", err)
	}
	if _, _, err := c.Change(t.Context(), as("uma"), created.UUID, api.ChangeRequest{Kind: cluster.RequestStop, Revision: created.Revision + 1}); err != nil {
		t.Errorf("the present one: %v", err)
	}
}

// A scale needs exactly one of size, nodes and autoscaling. Named nodes are removed exactly.
func TestWhatAScaleWrites(t *testing.T) {
	for name, x := range map[string]struct {
		r       api.ChangeRequest
		want    int // workers
		victims string
		done    bool
		err     error
	}{
		"up":               {r: api.ChangeRequest{Size: 5}, want: 5},
		"down":             {r: api.ChangeRequest{Size: 1}, want: 1},
		"as it is":         {r: api.ChangeRequest{Size: 2}, want: 2, done: true},
		"one by name":      {r: api.ChangeRequest{NodeIDs: []string{"vm-b"}}, want: 1, victims: "worker2"},
		"a control node":   {r: api.ChangeRequest{NodeIDs: []string{"vm-a"}}, want: 2, err: cluster.ClusterInvalid},
		"all of them":      {r: api.ChangeRequest{NodeIDs: []string{"vm-b", "vm-c"}}, want: 2, err: cluster.ClusterInvalid},
		"size and nodes":   {r: api.ChangeRequest{Size: 3, NodeIDs: []string{"vm-b"}}, want: 2, err: cluster.ClusterInvalid},
		"nothing":          {want: 2, err: cluster.ClusterInvalid},
		"autoscale":        {r: api.ChangeRequest{Autoscale: &cluster.Autoscale{Enabled: true, Min: 1, Max: 4}}, want: 2, done: true},
		"autoscale, wrong": {r: api.ChangeRequest{Autoscale: &cluster.Autoscale{Enabled: true, Min: 4, Max: 4}}, want: 2, err: cluster.ClusterInvalid},
		"too many":         {r: api.ChangeRequest{Size: 101}, want: 2, err: cluster.ClusterInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			c := newFixture(t, cluster.Limits{})
			id := c.make(as("uma"), "blue").UUID
			c.put(id, cluster.Running, nil)
			x.r.Kind = cluster.RequestScale
			_, job, err := c.Change(t.Context(), as("uma"), id, x.r)
			if !errors.Is(err, x.err) || x.err == nil && err != nil {
				t.Fatalf("%v, want %v", err, x.err)
			}
			b, _ := c.Get(t.Context(), as("uma"), id)
			if b.Cluster.NodeCount != x.want {
				t.Errorf("%d workers wanted, want %d", b.Cluster.NodeCount, x.want)
			}
			if x.err != nil {
				return
			}
			if done := job.Status == cluster.JobDone; done != x.done {
				t.Errorf("done %v, want %v", done, x.done)
			}
			if x.victims != "" && (b.Cluster.Request == nil || !strings.HasSuffix(strings.Join(b.Cluster.Request.Victims, ","), x.victims)) {
				t.Errorf("ask %+v, want victims %s", b.Cluster.Request, x.victims)
			}
		})
	}
}

// An upgrade goes up one minor version at a time. New CIDRs need a run.
func TestUpgradesAndRules(t *testing.T) {
	c := newFixture(t, cluster.Limits{})
	id := c.make(as("uma"), "blue").UUID
	c.put(id, cluster.Running, nil)
	for version, want := range map[string]error{"v4": cluster.ClusterInvalid, "none": cluster.EntityRefused} {
		if _, _, err := c.Change(t.Context(), as("uma"), id, api.ChangeRequest{Kind: cluster.RequestUpgrade, Version: version}); !errors.Is(err, want) {
			t.Errorf("to %s: %v", version, err)
		}
	}
	cidrs := []string{"10.0.0.0/8"}
	cl, job, err := c.Patch(t.Context(), as("uma"), id, api.PatchRequest{CIDRs: &cidrs})
	if err != nil || job == nil || cl.Request == nil || cl.Request.Kind != cluster.RequestScale || cluster.DueEvent(cl, nil, cl.Created) != cluster.OnScaleUp {
		t.Errorf("other rules: %+v, %+v, %v", cl, job, err)
	}
	wrong := []string{"10.0.0.0/99"}
	if _, _, err := c.Patch(t.Context(), as("uma"), id, api.PatchRequest{CIDRs: &wrong}); !errors.Is(err, cluster.ClusterInvalid) {
		t.Errorf("wrong networks: %v", err)
	}
}

// A plan returns the resources that would be created and the limits that prevent it, and writes nothing.
func TestAPlanWritesNothing(t *testing.T) {
	c := newFixture(t, cluster.Limits{Nodes: 2, Clusters: 5})
	plan, err := c.PlanCreate(t.Context(), as("uma"), api.CreateRequest{Name: "blue", Zone: "zone-1", Offering: "small", Size: 2})
	if err != nil {
		t.Fatal(err)
	}
	vms := 0
	for _, r := range plan.Resources {
		if r.Kind == cluster.VM && r.Act == "create" {
			vms++
		}
	}
	if vms != 3 || len(plan.Steps) == 0 {
		t.Errorf("%d VMs and %d steps in %+v", vms, len(plan.Steps), plan)
	}
	if len(plan.Findings) != 1 || plan.Findings[0].Code != cluster.AccountLimit.Code {
		t.Errorf("findings %+v, want the limit of 2 nodes", plan.Findings)
	}
	if _, total, _ := c.List(t.Context(), superuser, cluster.ClusterQuery{}); total != 0 {
		t.Errorf("%d clusters were stored", total)
	}
	id := c.make(as("uma"), "blue").UUID
	c.put(id, cluster.Running, nil)
	before, _ := c.Get(t.Context(), superuser, id)
	for _, r := range []api.ChangeRequest{
		{Kind: cluster.RequestScale, Size: 4}, {Kind: cluster.RequestScale, Size: 1}, {Kind: cluster.RequestStop}, {Kind: cluster.RequestDelete},
		{Kind: cluster.RequestUpgrade, Version: "v2"}, {Kind: cluster.RequestStart}, {Kind: cluster.RequestRecover},
	} {
		plan, err := c.PlanChange(t.Context(), as("uma"), id, r)
		if err != nil {
			t.Errorf("plan of %s: %v", r.Kind, err)
			continue
		}
		if r.Kind == cluster.RequestScale && r.Size == 4 {
			for _, step := range plan.Steps {
				if strings.Contains(step.Name, "upgrade") || strings.Contains(step.Name, "drain") || strings.Contains(step.Name, "victims") {
					t.Errorf("the plan of growing shows the step %s", step.Name)
				}
			}
		}
	}
	if after, _ := c.Get(t.Context(), superuser, id); after.Cluster.Revision != before.Cluster.Revision || after.Cluster.NodeCount != 2 {
		t.Errorf("a plan changed the cluster: %+v", after.Cluster)
	}
	if jobs, _, _ := c.Jobs(t.Context(), superuser, cluster.JobQuery{}); len(jobs) != 1 {
		t.Errorf("%d jobs, want that of the creation", len(jobs))
	}
}

// The plan of an upgrade has all steps and exactly the nodes that it replaces. A
// node that already has the new version is not among them, although nodes report
// their version as x.y.z and not by its id.
func TestThePlanOfAnUpgradeNamesWhatIsReplaced(t *testing.T) {
	c := newFixture(t, cluster.Limits{})
	id := c.make(as("uma"), "blue").UUID
	c.put(id, cluster.Running, func(c *cluster.Cluster) { c.Started = true })
	b, err := c.Get(t.Context(), superuser, id)
	if err != nil {
		t.Fatal(err)
	}
	control, old, isNew := &b.Nodes[0], &b.Nodes[1], &b.Nodes[2]
	control.Version, old.Version, isNew.Version = "1.0.0", "v1", "1.1.0"
	isNew.Template = b.Cluster.Template
	gone := *old
	gone.ID, gone.Name, gone.Ordinal, gone.Removed = 0, "gone", 9, b.Cluster.Created
	if err := c.records.Commit(t.Context(), &cluster.Change{ClusterID: b.Cluster.ID, Nodes: []*cluster.Node{control, old, isNew, &gone}}); err != nil {
		t.Fatal(err)
	}
	for consent, want := range map[bool]string{false: control.Name + " " + old.Name + "; LAST_CONTROL_NODE", true: control.Name + " " + old.Name + "; "} {
		plan, err := c.PlanChange(t.Context(), as("uma"), id, api.ChangeRequest{Kind: cluster.RequestUpgrade, Version: "v2", Consent: consent})
		if err != nil {
			t.Fatal(err)
		}
		var replaced, told, steps []string
		for _, r := range plan.Resources {
			if r.Act != "replace" {
				t.Errorf("it would %s %s", r.Act, r.Name)
			}
			replaced = append(replaced, r.Name)
		}
		for _, f := range plan.Findings {
			told = append(told, string(f.Code))
		}
		for _, s := range plan.Steps {
			steps = append(steps, s.Name)
		}
		if got := strings.Join(replaced, " ") + "; " + strings.Join(told, " "); got != want {
			t.Errorf("consent %t: %s, want %s", consent, got, want)
		}
		if got := strings.Join(steps, " "); got != "order replace upgrade endpoint new ready drain remove rules rules verify publish" {
			t.Errorf("steps %s", got)
		}
	}
}

// conflicting is a Store whose next commits conflict.
type conflicting struct {
	*memory.Store
	conflicts int
}

func (h *conflicting) Commit(ctx context.Context, change *cluster.Change) error {
	if h.conflicts > 0 {
		h.conflicts--
		return fault.WriteConflict.Errorf("somebody was faster")
	}
	return h.Store.Commit(ctx, change)
}

// After a write conflict the service reads the cluster and decides again, unless the request names a
// revision: then the caller receives the conflict.
func TestAConflictIsDecidedAgain(t *testing.T) {
	c := newFixture(t, cluster.Limits{})
	id := c.make(as("uma"), "blue").UUID
	c.put(id, cluster.Running, nil)
	cloud, err := sim.New(sim.Options{Installation: "here"})
	if err != nil {
		t.Fatal(err)
	}
	records := &conflicting{Store: c.records, conflicts: 2}
	s, err := service.New(service.Options{Records: records, Directory: people{}, Installation: "here", Providers: []providers.Named{{Name: "sim", Provider: cloud}}})
	if err != nil {
		t.Fatal(err)
	}
	b, _ := c.Get(t.Context(), superuser, id)
	if _, _, err := s.Change(t.Context(), superuser, id, api.ChangeRequest{Kind: cluster.RequestStop, Revision: b.Cluster.Revision}); !errors.Is(err, fault.WriteConflict) {
		t.Errorf("of a revision: %v", err)
	}
	records.conflicts = 2
	if got, _, err := s.Change(t.Context(), superuser, id, api.ChangeRequest{Kind: cluster.RequestStop}); err != nil || got.Desired != cluster.WantStopped {
		t.Errorf("of any revision: %+v, %v", got, err)
	}
	records.conflicts = 2
	policy := cluster.Recovery{cluster.Replace}
	if _, _, err := s.Patch(t.Context(), superuser, id, api.PatchRequest{Recovery: &policy, Revision: b.Cluster.Revision}); !errors.Is(err, fault.WriteConflict) {
		t.Errorf("a patch of a revision: %v", err)
	}
	if got, _, err := s.Patch(t.Context(), superuser, id, api.PatchRequest{Recovery: &policy}); err != nil || !slices.Equal(got.Recovery, policy) {
		t.Errorf("a patch of any revision: %+v, %v", got, err)
	}
	records.conflicts = 1000
	if _, _, err := s.Change(t.Context(), superuser, id, api.ChangeRequest{Kind: cluster.RequestStart}); err == nil {
		t.Error("it tries for ever, or believes what was not written")
	}
}

// The plan of a scale checks the limits for the new nodes, their cores and their memory.
func TestAPlanOfGrowingCountsTheNewNodes(t *testing.T) {
	for name, limits := range map[string]cluster.Limits{"nodes": {Nodes: 4}, "cores": {Cores: 4}, "memory in MB": {MemoryMB: 4 * 1024}} {
		c := newFixture(t, limits)
		id := c.make(as("uma"), "blue").UUID
		c.put(id, cluster.Running, func(c *cluster.Cluster) { c.Started = true })
		for size, want := range map[int]int{3: 0, 4: 1} { // beside the control node
			plan, err := c.PlanChange(t.Context(), as("uma"), id, api.ChangeRequest{Kind: cluster.RequestScale, Size: size})
			if err != nil || len(plan.Findings) != want || want == 1 && !strings.Contains(plan.Findings[0].Evidence, name) {
				t.Errorf("limit of 4 %s, size %d: %+v, %v", name, size, plan, err)
			}
		}
	}
}
