package servicetest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/provider/sim"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

// mayCreate checks a create: the journal has an intent with the same name, and
// the cluster is not Destroyed.
func (l *Lab) mayCreate(w cluster.DesiredResource) {
	b, err := l.records.Record(context.Background(), w.Tags[cluster.TagCluster])
	if err != nil {
		l.Violated("%s %s is created for a cluster that nobody knows", w.Kind, w.Name)
		return
	}
	if b.Cluster.State == cluster.Destroyed {
		l.Violated("%s %s is created for a cluster that is Destroyed", w.Kind, w.Name)
	}
	i := slices.IndexFunc(b.Journal, func(r cluster.JournalRow) bool { return r.Key == w.Key })
	switch {
	case i < 0:
		l.Violated("%s %s is created without a row in the journal", w.Kind, w.Name)
	case b.Journal[i].Name != w.Name || b.Journal[i].CallID != w.CallID || b.Journal[i].Kind != w.Kind:
		l.Violated("%s %s is created, and its row says %s %s", w.Kind, w.Name, b.Journal[i].Kind, b.Journal[i].Name)
	case b.Journal[i].Phase != cluster.Intent:
		l.Violated("%s %s is created while its row is %s", w.Kind, w.Name, b.Journal[i].Phase)
	}
}

// arrived checks that each resource is recorded, after the late call of a dead
// process.
func (l *Lab) arrived(label string) {
	for _, r := range l.Cloud.All() {
		uuid := r.Tags[cluster.TagCluster]
		if r.Tags[cluster.TagInstallation] != Installation {
			continue
		}
		if b, err := l.records.Record(context.Background(), uuid); err != nil || !b.Contains(r) {
			l.Violated("%s came late: %s %s is not recorded\n%s", label, r.Kind, r.Name, l.Story(uuid))
		}
	}
}

// mayAct checks an action: a resource that is destroyed has a closing row of its
// cluster, and no VM of a Destroyed cluster is started or stopped.
func (l *Lab) mayAct(ref cluster.Ref, a cluster.Action) {
	r, there := l.Cloud.Lookup(ref.Kind, ref.ID)
	if !there {
		return
	}
	b, err := l.records.Record(context.Background(), r.Tags[cluster.TagCluster])
	if err != nil {
		if b = l.RecordOf(ref); b == nil { // its tags are gone
			l.Violated("%s of %s %s, which belongs to no cluster", a, ref.Kind, cmp.Or(ref.Name, ref.ID))
			return
		}
	}
	i := slices.IndexFunc(b.Journal, func(row cluster.JournalRow) bool {
		return row.Kind == ref.Kind && row.ProviderID == ref.ID && row.Phase.Open()
	})
	switch {
	case i < 0:
		l.Violated("%s of %s %s without an open row", a, ref.Kind, r.Name)
	case a == cluster.Destroy && b.Journal[i].Origin == cluster.OriginGiven:
		l.Violated("%s %s was given, and is destroyed", ref.Kind, r.Name)
	case a == cluster.Destroy && b.Journal[i].Phase != cluster.Closing && b.Journal[i].Phase != cluster.Leaked:
		l.Violated("%s %s is destroyed while its row is %s", ref.Kind, r.Name, b.Journal[i].Phase)
	case b.Cluster.State == cluster.Destroyed && (a != cluster.Destroy || b.Journal[i].Origin != cluster.OriginAdopted):
		l.Violated("%s of %s %s after its cluster was Destroyed", a, ref.Kind, r.Name)
	}
}

// RecordOf returns the record of the cluster with a row for a resource; nil if there
// is none.
func (l *Lab) RecordOf(ref cluster.Ref) *cluster.Record {
	rows, _, _ := l.records.Rows(context.Background(), cluster.RowQuery{Kind: ref.Kind, Limit: -1})
	for _, row := range rows {
		if row.ProviderID == ref.ID {
			b, _ := l.records.Record(context.Background(), row.Cluster)
			return b
		}
	}
	return nil
}

// Clusters returns all clusters, also removed ones.
func (l *Lab) Clusters() []cluster.Cluster {
	found, _, err := l.records.List(context.Background(), cluster.ClusterQuery{Scope: All, WithDestroyed: true, Limit: -1})
	if err != nil {
		l.T.Fatal(err)
	}
	return found
}

// unsettled returns why a cluster has not settled; empty if it has. Alert and
// Expunge count as settled only in may.
func (l *Lab) unsettled(b *cluster.Record, may []machine.State) string {
	c := &b.Cluster
	jobs, _, _ := l.records.Jobs(context.Background(), cluster.JobQuery{Scope: All, Cluster: c.UUID, OnlyOpen: true})
	old := time.Since(c.StateSince) > 3*time.Minute
	switch {
	case len(jobs) > 0:
		return fmt.Sprintf("job %s is open", jobs[0].ID)
	case c.Request != nil:
		return fmt.Sprintf("%s was asked and not done", c.Request.Kind)
	case cluster.Transient(c.State) || c.State == cluster.Created || c.Position.Ending != nil:
		return "it is " + string(c.State)
	case (c.State == cluster.Alert || c.State == cluster.Expunge) && (!old || !slices.Contains(may, c.State)):
		return "it is " + string(c.State)
	case c.State == cluster.Alert && !c.RecoverNext.IsZero() && (c.Desired == cluster.WantRunning || c.RecoverTries < 3): // a missing VM cannot be stopped
		return "it is tried to be brought back"
	case c.State == cluster.Stopped && time.Since(c.StateSince) < 2*time.Minute && c.RecoverTries > 0: // the next pass may find a missing VM
		return "it was in Alert a moment ago"
	case c.State == cluster.Expunge && c.Reason.Code != cluster.ForeignVM.Code:
		return "it could not be deleted, though nothing is in the way"
	case (c.State == cluster.Running || c.State == cluster.Stopped) && (c.Alarm || string(c.Desired) != string(c.State)):
		return fmt.Sprintf("it is %s, %s is desired, findings %v", c.State, c.Desired, c.Findings)
	}
	for _, r := range b.Journal {
		if r.Phase == cluster.Intent || r.Phase == cluster.Accepted || r.Phase == cluster.Closing && c.State != cluster.Expunge {
			return fmt.Sprintf("row %s %s is %s", r.Kind, r.Name, r.Phase)
		}
	}
	return ""
}

// Settle waits until every cluster has settled. may has further states in which a
// cluster may settle.
func (l *Lab) Settle(limit time.Duration, may ...machine.State) {
	end := time.Now().Add(limit)
	for step := 10 * time.Second; ; step = min(step+step/4, 2*time.Minute) {
		l.Wait(step)
		why := ""
		for _, c := range l.Clusters() {
			if why = l.unsettled(l.Record(c.UUID), may); why != "" {
				if time.Now().After(end) {
					l.Violated("after %s cluster %s has not come to rest: %s\n%s", limit, c.Name, why, l.Story(c.UUID))
					return
				}
				break
			}
		}
		if why == "" {
			return
		}
	}
}

// Collected waits for passes of the collector, and then until every cluster has
// settled.
func (l *Lab) Collected(may ...machine.State) {
	l.Wait(LabGrace + 3*LabCollect)
	l.Settle(time.Hour, may...)
}

const (
	LabGrace   = 10 * time.Minute
	LabCollect = 2 * time.Minute
)

// Check checks the invariants of settled clusters.
func (l *Lab) Check() {
	clusters := map[string]*cluster.Record{}
	for _, c := range l.Clusters() {
		clusters[c.UUID] = l.Record(c.UUID)
		l.checkCluster(clusters[c.UUID])
	}
	for _, r := range l.Cloud.All() {
		uuid := r.Tags[cluster.TagCluster]
		switch {
		case r.Tags[cluster.TagInstallation] != Installation, theirs(l.Cloud, r):
		case clusters[uuid] == nil:
			l.Violated("%s %s belongs to no cluster", r.Kind, r.Name)
		case !slices.ContainsFunc(clusters[uuid].Journal, func(row cluster.JournalRow) bool {
			return row.Kind == r.Kind && row.ProviderID == r.ID && row.Phase.Open()
		}):
			l.Violated("%s %s has no open row\n%s", r.Kind, r.Name, l.Story(uuid))
		}
	}
	l.checkMutations()
	runs, _, err := l.runs.List(context.Background(), runstore.Query{Active: true})
	if err != nil {
		l.T.Fatal(err)
	}
	for _, r := range runs {
		uuid, _ := cluster.FromSubject(r.Subject)
		if b := clusters[uuid]; b != nil && !cluster.Transient(b.Cluster.State) {
			l.Violated("run %s of %s is %s though all rest\n%s", r.ID, r.Flow, r.Phase, l.Story(uuid))
		}
	}
}

// checkMutations checks that no foreign resource was destroyed, and that no two
// resources had the same name at the same time.
func (l *Lab) checkMutations() {
	living := map[string]bool{}
	for _, d := range l.Cloud.Mutations() {
		name := string(d.Kind) + " " + d.Name
		switch d.Op {
		case sim.Made:
			if living[name] {
				l.Violated("two resources are named %s", name)
			}
			living[name] = true
		case sim.Destroyed:
			delete(living, name)
			if d.By == "call" && d.Foreign {
				l.Violated("%s is foreign and was destroyed", name)
			}
		}
	}
}

func (l *Lab) checkCluster(b *cluster.Record) {
	c := &b.Cluster
	bad := func(format string, args ...any) {
		l.Violated("%s: %s\n%s", c.Name, fmt.Sprintf(format, args...), l.Story(c.UUID))
	}
	jobs, _, _ := l.records.Jobs(context.Background(), cluster.JobQuery{Scope: All, Cluster: c.UUID, Limit: -1})
	for _, j := range jobs {
		if j.Status == cluster.JobFailed && j.Code == "" || j.Status != cluster.JobOpen && j.Completed.IsZero() {
			bad("job %s ended as %+v", j.ID, j)
		}
	}
	if string(c.Desired) != string(c.State) && c.Reason.Code == "" {
		bad("it is %s, not %s, without a reason", c.State, c.Desired)
	}
	d, err := l.records.Details(context.Background(), c.UUID)
	if err != nil || d.JoinTokenHash != "" && time.Now().Before(d.JoinTokenExpires) {
		bad("the join token is still valid (%v)", err)
	}
	resources := map[string]cluster.Resource{}
	kinds := map[cluster.Kind]int{}
	for _, r := range l.Cloud.All() {
		known := slices.ContainsFunc(b.Journal, func(row cluster.JournalRow) bool {
			return row.Kind == r.Kind && row.ProviderID == r.ID && row.Phase.Open() && row.Origin != cluster.OriginGiven
		})
		if (known || r.Tags[cluster.TagCluster] == c.UUID) && !theirs(l.Cloud, r) {
			resources[r.ID] = r
			kinds[r.Kind]++
		}
	}
	names := map[string]bool{}
	for _, n := range b.Nodes {
		if names[n.Name] {
			bad("two nodes are named %s", n.Name)
		}
		names[n.Name] = true
	}
	switch c.State {
	case cluster.Destroyed:
		if len(resources) > 0 {
			bad("%d resources are left", len(resources))
		}
		for _, r := range b.Journal {
			if r.Phase.Open() && r.Origin != cluster.OriginGiven {
				bad("row %s %s is %s", r.Kind, r.Name, r.Phase)
			}
		}
		if len(b.Nodes) > 0 {
			bad("%d nodes are recorded", len(b.Nodes))
		}
	case cluster.Running, cluster.Stopped:
		l.checkComplete(b, resources, kinds, bad)
	}
}

// checkComplete checks that a cluster in its desired state has exactly the
// resources that it needs.
func (l *Lab) checkComplete(b *cluster.Record, resources map[string]cluster.Resource, kinds map[cluster.Kind]int, bad func(string, ...any)) {
	c := &b.Cluster
	count := map[cluster.Role]int{}
	power := map[machine.State]cluster.Power{cluster.Running: cluster.PoweredOn, cluster.Stopped: cluster.PoweredOff}[c.State]
	for _, n := range b.Nodes {
		count[n.Role]++
		if vm, there := resources[n.VMID]; !there || vm.Power != power || vm.Name != n.Name {
			bad("node %s has VM %q, which is %s %s", n.Name, n.VMID, vm.Name, cmp.Or(string(vm.Power), "not there"))
		}
	}
	if count[cluster.Control] != c.ControlCount || count[cluster.Worker] != c.NodeCount {
		bad("%v nodes, %d control and %d workers are wanted", count, c.ControlCount, c.NodeCount)
	}
	leads := kinds[cluster.Forward] + kinds[cluster.Balancer]
	network := kinds[cluster.Network] + len(slices.DeleteFunc(slices.Clone(b.Journal), func(r cluster.JournalRow) bool {
		return r.Kind != cluster.Network || r.Origin != cluster.OriginGiven || !r.Phase.Open()
	}))
	rules := kinds[cluster.Firewall] == 1 && leads == 1
	if c.State == cluster.Stopped && c.Position.Rest == cluster.Alert { // stopped before a recovery has made them anew: the next start does
		rules = kinds[cluster.Firewall] <= 1 && leads <= 1
	}
	if kinds[cluster.VM] != len(b.Nodes) || !rules || network != 1 {
		bad("it has %v", kinds)
	}
	if c.State == cluster.Running && l.heartbeats {
		if err := l.Cloud.Probe(context.Background(), c.Endpoint); err != nil {
			bad("the endpoint does not answer: %v", err)
		}
	}
}

// CreatedVMs returns how many VMs were created for a cluster.
func (l *Lab) CreatedVMs(uuid string) int {
	n := 0
	for _, d := range l.Cloud.Mutations() {
		if d.Op == sim.Made && d.Kind == cluster.VM && d.Cluster == uuid && !d.Foreign {
			n++
		}
	}
	return n
}

// JobOf returns a job.
func (l *Lab) JobOf(id string) cluster.Job {
	j, err := l.records.Job(context.Background(), id)
	if err != nil {
		l.Violated("job %s: %v", id, err)
		return cluster.Job{}
	}
	return *j
}
