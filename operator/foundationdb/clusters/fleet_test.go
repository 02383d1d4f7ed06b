package clusters_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fdb"
	fdbsim "github.com/pawl-dev/pawl/fdb/sim"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters"
	"github.com/pawl-dev/pawl/operator/foundationdb/sim"
	"github.com/pawl-dev/pawl/outcome"
)

// fleet is one database made by several objects, each with an instance of the operator of its own.
//
//	kc1/events ── operator kc1 ─┐
//	kc2/events ── operator kc2 ─┼── one database
//	kc3/events ── operator kc3 ─┘
type fleet struct {
	t tester
	*sim.World
	units []*unit
	trace []string
	kills int // that instances have sent
	acts  []done
	// configures are the configurations that were asked for.
	configures []string
}

// done is an effect of an instance.
type done struct {
	at time.Time
	sim.Effect
}

func (d done) String() string { return d.at.Format("15:04:05 ") + d.Owner + " " + d.Effect.String() }

// unit is one object, and the instance that looks after it. It is called by the prefix of its groups, which
// is also the owner of its lock.
type unit struct {
	f         *fleet
	namespace string
	name      string
	owner     string
	skew      time.Duration // of its clock
	operator  *clusters.Operator
	options   clusters.Options
	due       time.Time
	last      outcome.Outcome
	passes    int
	stopped   bool // nobody looks after it
	dies      bool // its passes may fail: then there is a new instance
}

// newFleet makes a world without objects. Acts need the lock, unless the rules are changed.
func newFleet(t tester, o sim.Options) *fleet {
	t.Helper()
	if o.Seed == 0 {
		o.Seed = 1
	}
	f := &fleet{t: t, World: sim.New(o)}
	f.World.After(func(e sim.Effect) error {
		if e.Verb == "Run" && e.Call.Command == fdb.CommandKill {
			f.kills++
		}
		if e.Verb == "Run" && e.Call.Command == fdb.CommandConfigure {
			f.configures = append(f.configures, e.Call.Configuration)
		}
		f.acts = append(f.acts, done{f.Now(), e})
		return nil
	})
	return f
}

// add makes an object, and an instance that looks after it.
func (f *fleet) add(c *v1beta2.FoundationDBCluster) *unit {
	f.t.Helper()
	if err := f.As("").Objects.Create(context.Background(), c); err != nil {
		f.t.Fatal(err)
	}
	owner := c.Spec.ProcessGroupIDPrefix
	if owner == "" {
		owner = sim.Operator
	}
	u := &unit{f: f, namespace: c.Namespace, name: c.Name, owner: owner, due: f.Now()}
	u.restart()
	f.units = append(f.units, u)
	return u
}

// restart makes a new instance, which remembers nothing.
func (u *unit) restart() {
	instance := u.f.As(u.owner)
	options := u.options
	options.Now = func() time.Time { return u.f.Now().Add(u.skew) }
	options.Parallel = 1
	u.operator = clusters.New(instance.Objects, instance.Database, instance.Sidecars, options)
}

// step makes the pass that is due next, when it is due.
func (f *fleet) step() *unit {
	f.t.Helper()
	var next *unit
	for _, u := range f.units {
		if !u.stopped && (next == nil || u.due.Before(next.due)) {
			next = u
		}
	}
	if wait := next.due.Sub(f.Now()); wait > 0 {
		f.Advance(wait)
	}
	next.pass()
	return next
}

// pass makes one pass over an object.
func (u *unit) pass() outcome.Outcome {
	f := u.f
	f.t.Helper()
	before := u.last
	u.last = u.operator.Reconcile(context.Background(), control.Ref{Kind: clusters.Kind, Namespace: u.namespace, Name: u.name})
	u.passes++
	if text := u.last.String(); text != before.String() {
		f.trace = append(f.trace, f.Now().Format("15:04:05 ")+u.owner+" "+text)
	}
	if v := f.Cluster().Violations(); len(v) > 0 {
		f.fail("invariant %s", v[0])
	}
	switch {
	case u.last.IsFail() && u.dies:
		u.restart()
	case u.last.IsFail():
		f.fail("%s: %v", u.owner, u.last.Err())
	}
	after := u.last.After()
	switch {
	case u.last.IsDone():
		after = time.Minute
	case after <= 0 || after > 15*time.Second:
		after = 15 * time.Second
	}
	u.due = f.Now().Add(max(after, time.Second))
	return u.last
}

// settle makes passes until no instance has found anything to do for two minutes.
func (f *fleet) settle(limit time.Duration) {
	f.t.Helper()
	for _, u := range f.units {
		u.due = f.Now()
	}
	effects, quiet := f.Effects(), f.Now()
	for until := f.Now().Add(limit); f.Now().Sub(quiet) < 2*time.Minute; {
		f.step()
		if n := f.Effects(); n != effects || slices.ContainsFunc(f.units, func(u *unit) bool { return !u.stopped && !u.last.IsDone() }) {
			effects, quiet = n, f.Now()
		}
		if f.Now().After(until) {
			f.fail("not settled within %s", limit)
		}
	}
}

// goOn makes passes for some time.
func (f *fleet) goOn(d time.Duration) {
	f.t.Helper()
	for until := f.Now().Add(d); f.Now().Before(until); {
		f.step()
	}
}

// settled checks that nothing is done to, and nothing written about, objects that are as they should be.
func (f *fleet) settled() {
	f.t.Helper()
	mark, before := f.Cluster().Mark(), f.Effects()
	f.goOn(5 * time.Minute)
	for _, u := range f.units {
		if !u.last.IsDone() {
			f.fail("%s: %s", u.owner, u.last)
		}
	}
	if n := f.Effects() - before; n != 0 {
		f.fail("%d effects on a settled database: %s", n, f.acts[len(f.acts)-min(n, 10):])
	}
	f.Cluster().JudgeSettled(mark)
	if v := f.Cluster().Violations(); len(v) > 0 {
		f.fail("invariant %s", v[0])
	}
}

// object reads the object of a unit.
func (u *unit) object() *v1beta2.FoundationDBCluster {
	u.f.t.Helper()
	c := &v1beta2.FoundationDBCluster{}
	c.Namespace, c.Name = u.namespace, u.name
	if found, err := u.f.As("").Objects.Get(context.Background(), c); err != nil || !found {
		u.f.t.Fatalf("no cluster %s/%s: %v", u.namespace, u.name, err)
	}
	return c
}

// edit changes the spec of an object by a merge patch.
func (u *unit) edit(patch string) {
	u.f.t.Helper()
	if err := u.f.As("").Objects.Patch(context.Background(), u.object(), []byte(patch)); err != nil {
		u.f.t.Fatal(err)
	}
	u.due = u.f.Now()
}

// edit changes the spec of all objects.
func (f *fleet) edit(patch string) {
	f.t.Helper()
	for _, u := range f.units {
		u.edit(patch)
	}
}

// writes lets a client write keys all the while.
func (f *fleet) writes() {
	c := fdbsim.Client{Address: "192.0.2.1:4000", LogGroup: "app", Writes: 200 * time.Millisecond}
	for _, text := range []string{"7.3.69", "7.4.6"} {
		v, err := fdb.ParseVersion(text)
		if err != nil {
			f.t.Fatal(err)
		}
		c.Versions = append(c.Versions, v)
	}
	f.Cluster().Connect(c)
}

// kept checks that every key that the client was told to be there is there.
func (f *fleet) kept() {
	f.t.Helper()
	w := f.Cluster().Written("192.0.2.1:4000")
	if len(w.Missing) > 0 || w.Acknowledged == 0 {
		f.fail("%d keys acknowledged, %d missing", w.Acknowledged, len(w.Missing))
	}
	f.t.Logf("%d keys acknowledged, longest gap %s, %d recoveries caused, until %s", w.Acknowledged, w.Gap, f.Cluster().CausedRecoveries(), f.Now().Format(time.DateTime))
}

// costs makes a change, lets everything settle, and checks how many recoveries that took.
func (f *fleet) costs(what string, recoveries int, limit time.Duration, change func()) {
	f.t.Helper()
	before, began := f.Cluster().CausedRecoveries(), f.Now()
	change()
	f.settle(limit)
	n := f.Cluster().CausedRecoveries() - before
	f.t.Logf("%s: %d recoveries, %s", what, n, f.Now().Sub(began).Round(time.Second))
	if n != recoveries {
		f.fail("%s: %d recoveries caused, %d expected", what, n, recoveries)
	}
	f.settled()
}

// has checks the number of groups of a class of an object.
func (u *unit) has(class v1beta2.ProcessClass, n int) {
	u.f.t.Helper()
	have := 0
	for _, g := range u.object().Status.ProcessGroups {
		if g.ProcessClass == class {
			have++
		}
	}
	if have != n {
		u.f.fail("%s: %d groups of class %s, %d expected", u.owner, have, class, n)
	}
}

// runs checks the version of all objects.
func (f *fleet) runs(version string) {
	f.t.Helper()
	for _, u := range f.units {
		if have := u.object().Status.RunningVersion; have != version {
			f.fail("%s runs %s", u.owner, have)
		}
	}
}

// spread checks that no value of a locality has more coordinators than most.
func (f *fleet) spread(locality string, count, most int) {
	f.t.Helper()
	at := f.units[0].status()
	values := map[string]int{}
	for _, c := range at.Client.Coordinators.Coordinators {
		for _, p := range at.Cluster.Processes {
			here := func(a fdb.Address) bool { return a.Host == c.Address.Host && a.Port == c.Address.Port }
			if strings.EqualFold(p.DNSName(), c.Address.Host) || slices.ContainsFunc(p.Addresses(), here) {
				values[p.Locality[locality]]++
			}
		}
	}
	total := 0
	for value, n := range values {
		total += n
		if n > most {
			f.fail("%d coordinators in %s %s, at most %d may be", n, locality, value, most)
		}
	}
	if total != count {
		f.fail("%d coordinators are known by %s, there should be %d: %v", total, locality, count, values)
	}
}

// status reads the status document of the database.
func (u *unit) status() *fdb.Status {
	u.f.t.Helper()
	v, err := fdb.ParseVersion(u.object().Status.RunningVersion)
	if err != nil {
		u.f.t.Fatal(err)
	}
	s, err := fdb.ParseStatus(u.f.Cluster().Status(u.f.Cluster().Connection(), v))
	if err != nil {
		u.f.t.Fatal(err)
	}
	return s
}

// fail ends the test with what has happened.
func (f *fleet) fail(format string, args ...any) {
	f.t.Helper()
	var text strings.Builder
	fmt.Fprintf(&text, format+"\n\npasses:\n%s\n", append(args, strings.Join(tail(f.trace, 60), "\n"))...)
	for _, u := range f.units {
		c := u.object()
		fmt.Fprintf(&text, "\n%s: %s\n", u.owner, u.last)
		for _, g := range c.Status.ProcessGroups {
			var conditions []string
			for _, condition := range g.ProcessGroupConditions {
				conditions = append(conditions, string(condition.Type))
			}
			fmt.Fprintf(&text, "%s %v %s %s marked=%t excluded=%t\n", g.ProcessGroupID, g.Addresses, g.FaultDomain, strings.Join(conditions, ","), g.Marked(), g.Excluded())
		}
		plan, _ := json.MarshalIndent(c.Status.Plan, "", " ")
		status := c.Status.DeepCopy()
		status.ProcessGroups, status.Plan, status.Conditions = nil, nil, nil
		rest, _ := json.MarshalIndent(status, "", " ")
		fmt.Fprintf(&text, "plan: %s\nstatus: %s\n", plan, rest)
	}
	transcript := slices.DeleteFunc(slices.Clone(f.Cluster().Transcript()), func(line string) bool {
		return strings.Contains(line, ": SaveStatus ") || strings.Contains(line, ": Patch ") || strings.HasSuffix(line, ": Transact")
	})
	f.t.Fatalf("%s\ndatabase:\n%s", text.String(), strings.Join(tail(transcript, 100), "\n"))
}

// example reads the objects of an example, as they are given to people.
func example(t tester, name string) []*v1beta2.FoundationDBCluster {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "examples", "foundationdb", name))
	if err != nil {
		t.Fatal(err)
	}
	var found []*v1beta2.FoundationDBCluster
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		c := &v1beta2.FoundationDBCluster{}
		if err := yaml.UnmarshalStrict([]byte(document), c); err != nil {
			t.Fatal(err)
		}
		if c.Kind == clusters.Kind {
			if c.Namespace == "" {
				c.Namespace = namespace
			}
			found = append(found, c)
		}
	}
	return found
}
