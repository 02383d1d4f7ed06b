package sharedstorage

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/kube/condition"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

var at = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// fixture returns a cluster at rest: writer 1, readers 2 and 3.
func fixture() *Cluster {
	readers, size := int32(2), resource.MustParse("10Gi")
	c := &Cluster{Kind: Kind, Ref: port.Ref{Namespace: "default", Name: "blue", UID: "u"}, Generation: 4}
	c.Spec.Readers, c.Spec.Storage.Size, c.Spec.Engine.Version = &readers, &size, "15.4"
	c.Facts = &Facts{At: at, Engines: map[string]port.Status{}, Unknown: map[string]error{},
		Classes:  map[string]port.Class{"small": {Name: "small"}, "large": {Name: "large"}},
		Volume:   port.Volume{ID: "v", Size: 10 << 30, State: port.VolumeReady, Writer: "blue-1", Epoch: 1},
		Topology: port.Topology{Present: true, Ready: true, HA: true, Writer: "blue-1", Epoch: 1, Sync: []string{"blue-2", "blue-3"}}}
	for _, id := range []string{"1", "2", "3"} {
		i := port.Instance{Name: "blue-" + id, ID: id, Type: port.Reader, Class: port.Class{Name: "small"}, Version: "15.4", State: port.Up, Node: "node-" + id}
		st := port.Status{Installed: true, Running: true, Ready: true, Role: port.Follower, Streaming: true, Upstream: "blue-1"}
		if id == "1" {
			i.Type, st = port.Writer, port.Status{Installed: true, Running: true, Ready: true, Role: port.Primary, Epoch: 1}
		}
		c.Facts.Instances = append(c.Facts.Instances, i)
		c.Facts.Engines[i.Name] = st
		c.Facts.Topology.Members = append(c.Facts.Topology.Members, memberOf(&i))
	}
	c.Status.NextID = 4
	c.Status.Version = "15.4"
	return c
}

func onOneNode(c *Cluster) {
	for i := range c.Facts.Instances {
		c.Facts.Instances[i].Node = "node-1"
	}
}

// wants makes a cluster want something. The cases are in the order of section 3.
func wants(c *Cluster, what string) {
	request := func(kind, args string) {
		c.Status.Requests = append(c.Status.Requests, v1alpha1.RequestStatus{ID: kind + args, Kind: kind, Args: args, State: Pending})
	}
	failed := func(i int) {
		in := &c.Facts.Instances[i]
		in.State = port.Down
		delete(c.Facts.Engines, in.Name)
		if c.Status.Instances == nil {
			c.Status.Instances = map[string]v1alpha1.InstanceStatus{}
		}
		c.Status.Instances[in.ID] = v1alpha1.InstanceStatus{Name: in.Name, Health: string(Failed), Since: metav1.NewTime(at.Add(-time.Minute))}
	}
	switch what {
	case "deletion mark":
		c.DeletedAt = at
	case "rebuild=cluster":
		request(Rebuild, "cluster")
	case "every instance failed for 60 s":
		for i := range c.Facts.Instances {
			failed(i)
		}
	case "a reader failed for 60 s":
		failed(1)
	case "a reader failed just now":
		failed(1)
		s := c.Status.Instances["2"]
		s.Since = metav1.NewTime(at.Add(-59 * time.Second))
		c.Status.Instances["2"] = s
	case "rebuild=3":
		request(Rebuild, "3")
	case "switch-writer":
		request(SwitchWriter, "2")
	case "restart":
		request(Restart, "cluster")
	case "restart=1":
		request(Restart, "1")
	case "migrate=2":
		request(Migrate, "2|node-1")
	case "migrate=1":
		request(Migrate, "1|node-2")
	case "remove-reader":
		request(RemoveReader, "3")
	case "class":
		c.Spec.Class.Name = "large"
	case "version":
		c.Spec.Engine.Version = "15.5"
	case "template":
		c.Facts.Instances[1].Template = "of former images"
	case "parameters":
		c.Spec.Parameters = map[string]string{"work_mem": "8MB"}
	case "flush-parameters":
		request(FlushParameters, "T")
	case "size":
		size := resource.MustParse("20Gi")
		c.Spec.Storage.Size = &size
	case "more readers":
		n := int32(4)
		c.Spec.Readers = &n
	case "fewer readers":
		n := int32(1)
		c.Spec.Readers = &n
	case "the writer fails":
		failed(0)
	case "instances unknown":
		c.Facts.Unknown[factInstances] = fault.APIUnavailable.Errorf("no answer")
	}
}

func decide(t *testing.T, c *Cluster, state machine.State) machine.Decision {
	t.Helper()
	o := &Operator{options: Options{FailedAfter: time.Minute, Now: func() time.Time { return at }}}
	f := machine.Facts{Position: machine.Position{State: state, Visit: 2}, Now: at}
	if o.Table().States[state].Transient() {
		f.Position.Run, f.Run = "r", &machine.RunFacts{ID: "r", Phase: runtype.Running}
	}
	return machine.Decide(o.Table(), c, f)
}

// The order of section 3 of the specification: each event wins over all later ones.
func TestOrderOfTransitions(t *testing.T) {
	order := []struct {
		what string
		to   machine.State
	}{
		{"deletion mark", Deleting}, {"rebuild=cluster", Recreating}, {"rebuild=3", RebuildingReader},
		{"switch-writer", Switching}, {"class", ChangingSpecification}, {"version", Upgrading}, {"template", ChangingSpecification}, {"parameters", ModifyingParameters},
		{"size", ExtendingStorage}, {"more readers", Locking},
	}
	for i := range order {
		c := fixture()
		for _, w := range order[i:] {
			wants(c, w.what)
		}
		if d := decide(t, c, Running); d.Move.To.State != order[i].to {
			t.Errorf("%s and all behind it: %s, want %s", order[i].what, d.Move.To.State, order[i].to)
		}
	}
}

func TestTransitions(t *testing.T) {
	for _, r := range []struct {
		from  machine.State
		wants []string
		to    machine.State // empty: the state does not change
		flow  string
	}{
		{Running, nil, "", ""},
		{Running, []string{"every instance failed for 60 s"}, Recreating, ""},
		{Interrupted, []string{"every instance failed for 60 s"}, Recreating, ""},
		{Interrupted, []string{"rebuild=cluster"}, Recreating, ""},
		{Interrupted, []string{"class", "restart", "size"}, "", ""},
		{Interrupted, []string{"deletion mark"}, Deleting, ""},
		{Running, []string{"a reader failed for 60 s"}, RebuildingReader, ""},
		{Running, []string{"a reader failed just now"}, "", ""},
		{Running, []string{"a reader failed for 60 s", "the writer fails"}, "", ""},
		{Running, []string{"restart"}, Restarting, ""},
		{Running, []string{"restart=1"}, Restarting, "RestartInstance"},
		{Running, []string{"migrate=2"}, Migrating, ""},
		{Running, []string{"migrate=1"}, Migrating, "MigrateWriter"},
		{Running, []string{"remove-reader"}, ScalingIn, ""},
		{Running, []string{"remove-reader", "switch-writer", "restart"}, ScalingIn, ""}, // the oldest of row 3
		{Running, []string{"flush-parameters", "restart"}, Restarting, ""},              // of which this is none
		{Running, []string{"flush-parameters"}, ModifyingParameters, ""},
		{Running, []string{"template"}, ChangingSpecification, ""},
		{Running, []string{"template", "the writer fails"}, "", ""},
		{Running, []string{"fewer readers"}, ScalingIn, ""},
		{Running, []string{"class", "the writer fails"}, "", ""},
		{Running, []string{"size", "the writer fails"}, ExtendingStorage, ""},
		{Running, []string{"class", "more readers", "restart", "instances unknown"}, "", ""},
		{Init, nil, Creating, ""},
		{Init, []string{"deletion mark"}, Deleting, ""},
		{Creating, []string{"class", "restart"}, "", ""},
		{Creating, []string{"deletion mark"}, Deleting, ""},
		{Deleting, []string{"rebuild=cluster"}, "", ""},
		{Deleted, []string{"deletion mark", "rebuild=cluster"}, "", ""},
	} {
		c := fixture()
		for _, what := range r.wants {
			wants(c, what)
		}
		d := decide(t, c, r.from)
		to := d.Move.To
		if to.State != r.to || to.Flow != r.flow || d.Err != nil {
			t.Errorf("%s with %v: %q %s %v, want %q %s", r.from, r.wants, to.State, to.Flow, d.Err, r.to, r.flow)
		}
	}
}

// Conditions for different observations of a cluster; the messages are golden.
func TestConditions(t *testing.T) {
	o := &Operator{options: Options{FailedAfter: time.Minute, Now: func() time.Time { return at }}}
	running := machine.Position{State: Running, Visit: 2}
	held := machine.Position{State: Interrupted, Previous: Creating, Visit: 1, Held: true, Code: "POD_UNSCHEDULED", Reason: "PodUnscheduled", Message: "step CreateRwPod: no node takes it"}
	off := false
	var b strings.Builder
	for _, r := range []struct {
		what string
		edit func(c *Cluster)
		view view
	}{
		{"at rest", func(*Cluster) {}, view{position: running}},
		{"the first visit", func(c *Cluster) { c.Facts = &Facts{At: at, Classes: c.Facts.Classes} }, view{position: machine.Position{State: Init}}},
		{"nothing could be asked", func(c *Cluster) {
			c.Facts = &Facts{At: at, Unknown: map[string]error{factInstances: fault.APIUnavailable.Errorf("no answer"), factManager: fault.APIUnavailable.Errorf("no answer"), factVolume: fault.APIUnavailable.Errorf("no answer"), factClasses: fault.APIUnavailable.Errorf("no answer")}}
			on := true
			c.Status.Manager = v1alpha1.ManagerStatus{HA: &on, Since: metav1.NewTime(at)}
		}, view{position: running}},
		{"the manager does not answer, and failover was off", func(c *Cluster) {
			c.Facts.Unknown[factManager] = port.ManagerUnreachable.Errorf("no answer")
			c.Status.Manager = v1alpha1.ManagerStatus{HA: &off, Since: metav1.NewTime(at)}
		}, view{position: running}},
		{"failover is off for a while", func(c *Cluster) {
			c.Facts.Topology.HA, c.Facts.Topology.Until = false, at.Add(time.Minute)
			c.Status.Manager.Since = metav1.NewTime(at)
			c.Status.Run = &v1alpha1.CurrentRun{ID: "gk3v", Step: "HA/Replace/AwaitCaughtUp"}
		}, view{position: machine.Position{State: Migrating, Visit: 3}}},
		{"a step waits", func(c *Cluster) {
			c.Status.Run = &v1alpha1.CurrentRun{ID: "gk3v", Step: "Readers[4]/CreateReader", Message: "instance blue-4 waits for a node"}
		}, view{position: machine.Position{State: ScalingOut, Visit: 3}}},
		{"the volume is filled with a copy", func(c *Cluster) {
			c.Facts.Volume.State, c.Facts.Volume.Message = port.VolumeCloning, "copying the data of default/green"
		}, view{position: machine.Position{State: Cloning, Visit: 1, Message: "a cluster to copy is named"}}},
		{"failover is off and not wanted", func(c *Cluster) { c.Facts.Topology.HA, c.Spec.HA.Enabled = false, &off }, view{position: running}},
		{"failover is off for good, and wanted", func(c *Cluster) { c.Facts.Topology.HA = false; c.Status.Manager.Since = metav1.NewTime(at) }, view{position: running}},
		{"failover would be unsafe", func(c *Cluster) {
			wants(c, "the writer fails")
			c.Facts.Topology.Code, c.Facts.Topology.Message = "FAILOVER_UNSAFE", "reader blue-2 cannot be asked"
		}, view{position: running}},
		{"there is no manager", func(c *Cluster) { c.Facts.Topology = port.Topology{} }, view{position: running}},
		{"the manager starts", func(c *Cluster) { c.Facts.Topology = port.Topology{Present: true} }, view{position: running}},
		{"the writer fails", func(c *Cluster) { wants(c, "the writer fails") }, view{position: running}},
		{"the writer cannot be asked", func(c *Cluster) { delete(c.Facts.Engines, "blue-1") }, view{position: running}},
		{"a reader fails", func(c *Cluster) { wants(c, "a reader failed for 60 s") }, view{position: running}},
		{"a reader cannot be asked", func(c *Cluster) { delete(c.Facts.Engines, "blue-2") }, view{position: running}},
		{"a reader does not stream", func(c *Cluster) {
			st := c.Facts.Engines["blue-2"]
			st.Streaming = false
			c.Facts.Engines["blue-2"] = st
		}, view{position: running}},
		{"the writer does not stream to a reader that says it streams", func(c *Cluster) {
			st := c.Facts.Engines["blue-1"]
			st.Followers = []string{"blue-3"}
			c.Facts.Engines["blue-1"] = st
		}, view{position: running}},
		{"the writer does not stream to a reader that cannot be asked", func(c *Cluster) {
			st := c.Facts.Engines["blue-1"]
			st.Followers = []string{"blue-3"}
			c.Facts.Engines["blue-1"] = st
			delete(c.Facts.Engines, "blue-2")
		}, view{position: running}},
		{"no commit is answered", func(c *Cluster) {
			st := c.Facts.Engines["blue-1"]
			st.Followers, st.Stalled = []string{}, true
			c.Facts.Engines["blue-1"] = st
		}, view{position: running}},
		{"all instances are on one node, and there is no other", func(c *Cluster) {
			onOneNode(c)
			c.Facts.Nodes = []port.Node{{Name: "node-1", Ready: true, Schedulable: true}, {Name: "node-2"}}
		}, view{position: running}},
		{"all instances are on one node of two", func(c *Cluster) {
			onOneNode(c)
			c.Facts.Nodes = []port.Node{{Name: "node-1", Ready: true, Schedulable: true}, {Name: "node-2", Ready: true, Schedulable: true}}
		}, view{position: running}},
		{"all instances are on one node, and may take over there", func(c *Cluster) { onOneNode(c); c.Spec.HA.SameNode = true }, view{position: running}},
		{"there are no readers", func(c *Cluster) { c.Facts.Instances = c.Facts.Instances[:1]; c.Spec.Readers = new(int32) }, view{position: running}},
		{"no reader is known to be in sync", func(c *Cluster) { c.Facts.Topology.Sync = nil }, view{position: running}},
		{"no reader is known to be in sync, and none has to be", func(c *Cluster) { c.Facts.Topology.Sync = nil; c.Spec.Durability = "available" }, view{position: running}},
		{"a claim is being deleted", func(c *Cluster) {
			c.Facts.Volume.State, c.Facts.Volume.Message = port.VolumeTerminating, "claim blue-2 is being deleted, and the data of its instance end with its pod"
		}, view{position: running}},
		{"two writers", func(c *Cluster) {
			c.Facts.Engines["blue-2"] = port.Status{Installed: true, Running: true, Ready: true, Role: port.Primary, Epoch: 2}
		}, view{position: running}},
		{"the volume is full", func(c *Cluster) {
			c.Facts.Engines["blue-1"] = port.Status{Installed: true, Code: "STORAGE_FULL", Message: "no space"}
		}, view{position: running}},
		{"the volume grows", func(c *Cluster) { c.Facts.Volume.State = port.VolumeGrowing }, view{position: machine.Position{State: ExtendingStorage, Visit: 3, Message: "a larger volume is wanted"}}},
		{"the volume is broken", func(c *Cluster) { c.Facts.Volume.Message = "the disk is gone" }, view{position: running}},
		{"interrupted", func(c *Cluster) { c.Facts = &Facts{At: at, Classes: c.Facts.Classes} }, view{position: held}},
		{"deletion is held up", func(*Cluster) {}, view{position: machine.Position{State: Deleting, Visit: 5}, out: outcome.Wait(0, "PodLost", "instances are going away"),
			run: &runtype.Run{Phase: runtype.Paused, Fault: &runtype.Fault{Code: "POD_LOST", Message: "instances are going away"}}}},
		{"deleted", func(*Cluster) {}, view{position: machine.Position{State: Deleted, Visit: 6}}},
		{"the class is not there", func(c *Cluster) { c.Spec.Class.Name = "huge" }, view{position: running}},
		{"another kind of cluster", func(c *Cluster) { c.Refused = ClusterTypeUnsupported.Errorf("dbClusterType: local") }, view{position: machine.Position{State: Init}}},
		{"the pass failed", func(*Cluster) {}, view{position: running, out: outcome.Fail(runstore.StoreUnavailable.Errorf("gone"))}},
	} {
		c := fixture()
		r.edit(c)
		var all []metav1.Condition
		condition.Set(&all, c.Generation, at, o.conditions(c, r.view)...)
		if len(all) != 6 {
			t.Fatalf("%s: %d conditions", r.what, len(all))
		}
		fmt.Fprintf(&b, "## %s\n", r.what)
		for _, cond := range all {
			if cond.Reason == "" || cond.Message == "" || cond.ObservedGeneration != 4 || cond.LastTransitionTime.IsZero() {
				t.Errorf("%s: %+v", r.what, cond)
			}
			fmt.Fprintf(&b, "%s=%s %s: %s\n", cond.Type, cond.Status, cond.Reason, cond.Message)
		}
		b.WriteString("\n")
	}
	path := filepath.Join("testdata", "conditions.txt")
	if slices.ContainsFunc(os.Args, func(arg string) bool {
		return strings.HasSuffix(arg, "-update") || strings.HasSuffix(arg, "-update=true")
	}) {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil { //nolint:gosec // it is public
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("conditions differ; look at them with -update:\n%s", b.String())
	}
}

func TestPlacesAreOrderedByNumber(t *testing.T) {
	ids := []string{"t-b", "10", "9", "t-a", "1"}
	slices.SortFunc(ids, compareIDs)
	if got := strings.Join(ids, " "); got != "1 9 10 t-a t-b" {
		t.Error(got)
	}
}
