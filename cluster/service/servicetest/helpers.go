package servicetest

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/api"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/provider/sim"
)

// Running runs a test with one running cluster.
func Running(t *testing.T, s Setup, workers int, test func(t *testing.T, w *World, id string)) {
	t.Helper()
	InWorld(t, s, func(t *testing.T, w *World) {
		id := w.Create("blue", workers)
		w.Until(id, 30*time.Minute, cluster.Running)
		test(t, w, id)
	})
}

// Done checks that a job has succeeded.
func (w *World) Done(job string) {
	w.T.Helper()
	if j := w.Job(job); j.Status != cluster.JobDone {
		w.T.Errorf("job %+v\n%s", j, w.Story(j.Cluster))
	}
}

// Failed checks that a job has failed with a code.
func (w *World) Failed(job string, code string) {
	w.T.Helper()
	if j := w.Job(job); j.Status != cluster.JobFailed || string(j.Code) != code {
		w.T.Errorf("job %+v, want %s\n%s", j, code, w.Story(j.Cluster))
	}
}

// RequestUntil sends a request and waits for a state.
func (w *World) RequestUntil(id string, kind cluster.RequestKind, state machine.State) string {
	w.T.Helper()
	job := w.Ask(id, kind, nil)
	w.Until(id, time.Hour, state)
	return job
}

// DisableRecovery forbids automatic recovery of a cluster.
func (w *World) DisableRecovery(id string) {
	w.T.Helper()
	record := w.Record(id)
	record.Cluster.Recovery = cluster.Recovery{}
	if err := w.Records.Commit(w.T.Context(), &cluster.Change{Cluster: &record.Cluster}); err != nil {
		w.T.Fatal(err)
	}
}

// CauseAlert forbids recovery and harms a running cluster until it is in Alert.
func (w *World) CauseAlert(id string, harm func(w *World) error) {
	w.T.Helper()
	w.DisableRecovery(id)
	if harm == nil {
		harm = func(w *World) error { return w.Cloud.StopVM("blue-8f3b2c-worker3") }
	}
	if err := harm(w); err != nil {
		w.T.Fatal(err)
	}
	w.Until(id, 10*time.Minute, cluster.Alert)
}

// AwaitJob waits for the end of a job.
func (w *World) AwaitJob(job string) {
	w.T.Helper()
	for range 7200 {
		if w.Job(job).Status != cluster.JobOpen {
			return
		}
		time.Sleep(time.Second)
	}
	w.T.Fatalf("job %s does not end\n%s", job, w.Story(w.Job(job).Cluster))
}

// Orphan creates a VM without a row, with proof that it belongs to the cluster.
func (w *World) Orphan(c *cluster.Cluster, ordinal int) cluster.Resource {
	w.T.Helper()
	r, err := w.Cloud.Add(cluster.DesiredResource{Kind: cluster.VM, Name: cluster.NodeName(c, cluster.Worker, ordinal), Owner: c.Owner,
		Tags: map[string]string{cluster.TagInstallation: Installation, cluster.TagCluster: c.UUID, cluster.TagKey: "lost"},
		Spec: cluster.Spec{Zone: "zone-1", Offering: "small", Template: "node-image"}})
	if err != nil {
		w.T.Fatal(err)
	}
	return r
}

// Exists reports whether the cloud has a VM.
func (w *World) Exists(id string) bool {
	_, ok := w.Cloud.Lookup(cluster.VM, id)
	return ok
}

// With returns an edited copy.
func (s Setup) With(edit func(s *Setup)) Setup {
	edit(&s)
	return s
}

// Foreign adds a VM of another owner to the network of a cluster.
func (l *Lab) Foreign(id string) {
	if _, err := l.Cloud.AddForeignVM("stranger", l.Record(id).Cluster.Network.ID); err != nil {
		l.T.Fatal(err)
	}
}

// JobsOf returns the jobs of a cluster, newest first.
func (l *Lab) JobsOf(id string) []cluster.Job {
	jobs, _, err := l.records.Jobs(l.T.Context(), cluster.JobQuery{Scope: All, Cluster: id})
	if err != nil {
		l.T.Fatal(err)
	}
	return jobs
}

// Vanish deletes a cluster and checks that no resource is left.
func (l *Lab) Vanish(id string) {
	if l.Record(id).Cluster.State != cluster.Destroyed {
		l.Must(id, api.ChangeRequest{Kind: cluster.RequestDelete})
		l.Settle(2 * time.Hour)
	}
	l.Check()
	for _, r := range l.Cloud.All() {
		if r.Tags[cluster.TagInstallation] == Installation && !theirs(l.Cloud, r) {
			l.Violated("%s %s is left\n%s", r.Kind, r.Name, l.Story(id))
		}
	}
}

// DeathCount returns how many processes have died at an armed point.
func (l *Lab) DeathCount() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, p := range l.processes {
		if p.diedAt != "" {
			n++
		}
	}
	return n
}

// SixVMs is a cloud with capacity for one control node and five workers. inJob: it
// refuses further VMs in the job, not in the call.
func SixVMs(inJob bool) Setup {
	return Setup{Sim: sim.Options{Zones: []sim.Zone{{ID: "zone-1", VMs: 6}}, Times: Slow, RefuseInJob: inJob}}
}

// Blind hides the limit of the zone from the check, as if another caller used
// the capacity after it.
func Blind(w *World) {
	w.Cloud.Inject(sim.Rule{Call: "check", Do: sim.Slow})
	w.Cloud.SetZone(sim.Zone{ID: "zone-1"})
	go func() {
		time.Sleep(20 * time.Second)
		w.Cloud.SetZone(sim.Zone{ID: "zone-1", VMs: 6})
	}()
}

// Heal ends all faults of the cloud and of its VMs.
func (l *Lab) Heal() {
	l.Cloud.ClearRules()
	l.Cloud.Unstick()
	l.Cloud.Unreachable(false)
	l.Cloud.RefuseCredentials(false)
	l.Cloud.SetZone(sim.Zone{ID: "zone-1"})
	for _, r := range l.Cloud.All(cluster.VM) {
		_ = l.Cloud.Silence(r.ID, false)
		_ = l.Cloud.NotReady(r.ID, "")
		if r.State == "Levitating" {
			_ = l.Cloud.StartVM(r.ID)
		}
	}
}

// Stories describes all clusters for a failed test.
func (l *Lab) Stories() string {
	var b strings.Builder
	for _, c := range l.Clusters() {
		b.WriteString(l.Story(c.UUID))
	}
	return b.String()
}

// Slow has the times of a slow cloud.
var Slow = sim.Times{Create: 40 * time.Second, Start: 10 * time.Second, Stop: 10 * time.Second, Destroy: 15 * time.Second, Network: 5 * time.Second, Rule: 2 * time.Second, Boot: 20 * time.Second}

// Running creates a cluster of one control node and two workers and waits until
// it runs.
func (w *World) Running(policy cluster.Recovery) string {
	w.T.Helper()
	id := w.Create("blue", 2, func(c *cluster.Cluster) { c.Recovery = policy })
	w.Until(id, 30*time.Minute, cluster.Running)
	time.Sleep(2 * time.Minute) // two passes, and a heartbeat of every node
	if c := w.Cluster(id); c.State != cluster.Running || len(c.Findings) > 0 {
		w.T.Fatalf("a new cluster is not healthy: %s\n%s", c.State, w.Story(id))
	}
	w.Cloud.ClearLog()
	return id
}

// Worker returns the VM id of the nth worker.
func (w *World) Worker(id string, n int) string {
	w.T.Helper()
	for _, node := range w.Record(id).Nodes {
		if node.Role == cluster.Worker {
			if n--; n == 0 {
				return node.VMID
			}
		}
	}
	w.T.Fatal("there is no such worker")
	return ""
}

// Lists counts the pages of lists that were read.
func (w *World) Lists() int { return w.Calls("list", "*") }

// Explanation returns the present Explanation of a cluster.
func (w *World) Explanation(id string) (waits, unseen string, since, until time.Time) {
	w.T.Helper()
	synctest.Wait()
	all, err := w.Service.Explanations(w.T.Context(), []cluster.Cluster{*w.Cluster(id)})
	if err != nil {
		w.T.Fatal(err)
	}
	one, err := w.Service.Explanation(w.T.Context(), id)
	if err != nil {
		w.T.Fatal(err)
	}
	s := all[id]
	if (s.Waiting == nil) != (one.Waiting == nil) || (s.Unseen == nil) != (one.Unseen == nil) {
		w.T.Errorf("a list says %+v, one %+v", s, one)
	}
	if s.Waiting != nil {
		waits = s.Waiting.Step + ": " + s.Waiting.For
		if s.Waiting.Code != "" {
			waits += "; " + s.Waiting.Code + ": " + s.Waiting.Error
		}
		since, until = s.Waiting.Since, s.Waiting.Until
	}
	if s.Unseen != nil {
		unseen = s.Unseen.Code + ": " + s.Unseen.Text
	}
	return waits, unseen, since, until
}
