package sharedstorage_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/workflow"
)

// checkInvariants checks a cluster at rest: one writer, the desired number of streaming readers,
// no temporaries, no place held twice, parameters and failover as the spec wants, and the manager
// on another node than the writer.
func (l *harness) checkInvariants(name string) {
	l.t.Helper()
	var wrong []string
	for range 30 { // the status is that of the last pass
		if wrong = l.violations(name); len(wrong) == 0 {
			return
		}
		time.Sleep(10 * time.Second)
	}
	l.t.Fatalf("%s:\n%s\n%s", name, strings.Join(wrong, "\n"), l.story())
}

func (l *harness) violations(name string) (wrong []string) {
	c := l.observe(name)
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	want := int(*c.Spec.Readers)
	writer := l.sim.Writer(ref(name))
	if writer == "" {
		say("there is no writer")
	}
	if n := len(l.sim.Streaming(ref(name))); n != want {
		say("%d readers stream, %d are wanted", n, want)
	}
	places := map[string]string{}
	for _, i := range l.sim.Instances(ref(name)) {
		if i.State == port.Leaving {
			continue
		}
		if i.Type == port.Temporary {
			say("%s is a temporary", i.Name)
		}
		if other := places[i.ID]; other != "" {
			say("%s and %s hold place %s", other, i.Name, i.ID)
		}
		if (i.Type == port.Writer) != (i.Name == writer) {
			say("%s is recorded as %s", i.Name, i.Type)
		}
		places[i.ID] = i.Name
	}
	if len(places) != want+1 {
		say("%d places: %v", len(places), places)
	}
	l.clusters.mu.Lock()
	class := l.clusters.classes[cmp.Or(c.Spec.Class.Name, "small")]
	l.clusters.mu.Unlock()
	params := maps.Clone(class.Parameters)
	maps.Copy(params, c.Spec.Parameters)
	if c.Status.ParametersHash != port.Hash(params) {
		say("the hash %s is recorded, want that of %v", c.Status.ParametersHash, params)
	}
	for _, i := range l.sim.Instances(ref(name)) {
		if got := l.sim.Parameters(ref(name), i.Name); i.State == port.Up && !maps.Equal(got, params) {
			say("%s runs with %v, want %v", i.Name, got, params)
		}
	}
	t := l.sim.Topology(ref(name))
	wanted := c.Spec.HA.Enabled == nil || *c.Spec.HA.Enabled
	if !t.Present || t.HA != wanted || !t.Until.IsZero() {
		say("failover is %+v, wanted %t", t, wanted)
	}
	if wanted := cmp.Or(c.Spec.Durability, "strict"); t.Durability != wanted {
		say("the durability is %q, wanted %s", t.Durability, wanted)
	}
	nodes, err := l.sim.Ports().Instances.Nodes(l.t.Context(), ref(name))
	for _, i := range l.sim.Instances(ref(name)) {
		if err == nil && i.Name == writer && i.Node == t.Node && slices.ContainsFunc(nodes, func(n port.Node) bool { return n.Ready && n.Schedulable && n.Name != i.Node }) {
			say("the cluster manager stands on %s, as the writer does", t.Node)
		}
	}
	members := map[string]string{}
	for _, m := range t.Members {
		members[m.ID] = m.Name
	}
	if !maps.Equal(members, places) {
		say("members %v, places %v", members, places)
	}
	if c.Status.Writer == "" || places[c.Status.Writer] != writer {
		say("status names %q as the writer", c.Status.Writer)
	}
	for _, cond := range c.Status.Conditions {
		want := map[string]string{"Ready": "True", "Available": "True", "Progressing": "False", "StorageReady": "True", "Interrupted": "False"}[cond.Type]
		if want != "" && string(cond.Status) != want {
			say("condition %s is %s: %s %s", cond.Type, cond.Status, cond.Reason, cond.Message)
		}
	}
	return wrong
}

// resume resumes the run of a cluster as a person does.
func (l *harness) resume(c *sharedstorage.Cluster) {
	l.t.Helper()
	l.must(l.engine.Resume(l.t.Context(), c.Status.Run.ID, workflow.FromFailed, "", workflow.Actor{Name: "uma"}))
}
