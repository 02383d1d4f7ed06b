package clusters_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/pawl-dev/pawl/control"
	fdbsim "github.com/pawl-dev/pawl/fdb/sim"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters"
	"github.com/pawl-dev/pawl/operator/foundationdb/sim"
	"github.com/pawl-dev/pawl/outcome"
)

const namespace = "test"

// life is a world with one cluster, and an operator that looks after it.
type life struct {
	t tester
	*sim.World
	operator *clusters.Operator
	last     outcome.Outcome
	passes   int
	name     string
	owner    string // of the instance that works now
	dead     string // why it does not any more
	away     time.Duration

	fails     int                // one after the other
	next      *clusters.Operator // that works once the dead one has ended
	nested    bool               // an instance works while another one is frozen
	lost      string             // node
	skew      time.Duration      // of the operator's clock
	slow      time.Duration      // its clock goes wrong by one part of so many
	slowSince time.Time
	locks     bool        // acts need the lock
	forgiving bool        // the API server may fail
	late      []time.Time // when instances went on that stood still
}

// death is what an instance panics with that dies.
type death string

// dies lets the instance that works now die at an effect: it has no other one, and a new instance begins its
// work after a while.
func (l *life) dies(e sim.Effect, after bool) {
	l.dead = fmt.Sprintf("died before effect %d, %s", e.Number, e)
	if after {
		l.dead = fmt.Sprintf("died after effect %d, %s", e.Number, e)
	}
	panic(death(l.dead))
}

// tester is what a life needs of a test: testing.T and rapid.T have it.
type tester interface {
	Helper()
	Logf(format string, args ...any)
	Error(args ...any)
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// begin makes a world with a cluster: double redundancy, unless change says otherwise.
func begin(t tester, o sim.Options, change func(*v1beta2.FoundationDBCluster)) *life {
	t.Helper()
	if o.Seed == 0 {
		o.Seed = 1
	}
	l := &life{t: t, World: sim.New(o), name: "main", away: 5 * time.Second}
	l.Before(func(sim.Effect) error {
		if l.dead != "" { // what is dead does nothing
			panic(death(l.dead))
		}
		return nil
	})
	l.restart("operator")
	c := &v1beta2.FoundationDBCluster{}
	c.Namespace, c.Name = namespace, l.name
	c.Spec.Version = "7.3.69"
	if change != nil {
		change(c)
	}
	if err := l.As("").Objects.Create(context.Background(), c); err != nil {
		t.Fatal(err)
	}
	return l
}

// restart makes a new instance of the operator, which remembers nothing.
func (l *life) restart(owner string) {
	l.owner = owner
	instance := l.As(owner)
	l.operator = clusters.New(instance.Objects, instance.Database, instance.Sidecars, clusters.Options{Now: func() time.Time { return l.Now().Add(l.skew + l.drift()) }, Parallel: 1})
}

func (l *life) say(format string, args ...any) {
	l.Cluster().Note("== "+format, args...)
}

// pass makes one pass and lets time go on until the next one is due.
func (l *life) pass() outcome.Outcome {
	l.t.Helper()
	before, effects := l.last, l.Effects()
	l.last = l.reconcile()
	l.passes++
	if l.dead != "" {
		l.say("%s", l.dead)
		l.last, l.dead = outcome.Later(l.away, "Died", "a new instance begins"), ""
		if l.restart(l.owner); l.next != nil {
			l.operator, l.next = l.next, nil
		}
	}
	if text := l.last.String(); text != before.String() {
		l.say("%s", text)
	}
	if v := l.violations(); len(v) > 0 {
		l.fail("invariant %s", v[0])
	}
	after := l.last.After()
	if !l.last.IsFail() {
		l.fails = 0
	}
	switch {
	case l.last.IsFail():
		after = time.Second << min(l.fails, 6)
		l.fails++
	case after <= 0 && l.last.IsDone():
		after = time.Minute
	case l.Effects() != effects || l.last.String() != before.String():
		after = min(max(after, time.Second), 15*time.Second) // as a change of a child wakes it
	case after <= 0 || after > time.Minute:
		after = time.Minute // as it is looked at
	}
	l.Advance(max(after, time.Second))
	return l.last
}

// violations are those that the operator answers for: a restart that an instance ordered before it stood still knows
// nothing of one that another instance has made since.
func (l *life) violations() []fdbsim.Violation {
	return slices.DeleteFunc(slices.Clone(l.Cluster().Violations()), func(v fdbsim.Violation) bool {
		return v.Invariant == 4 && slices.ContainsFunc(l.late, func(at time.Time) bool { return !v.At.Before(at) && v.At.Sub(at) < 5*time.Second })
	})
}

// idle is longer than anything that an operator waits for.
const idle = 150 * time.Minute

// reconcile lets the instance that works now make a pass, in which it may die.
func (l *life) reconcile() (out outcome.Outcome) {
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(death); !ok {
				panic(r)
			}
			out = outcome.Done()
		}
	}()
	return l.operator.Reconcile(context.Background(), l.ref())
}

func (l *life) ref() control.Ref {
	return control.Ref{Kind: clusters.Kind, Namespace: namespace, Name: l.name}
}

// settle makes passes until the cluster is as it should be.
func (l *life) settle(limit time.Duration) {
	l.t.Helper()
	effects, since := 0, l.Now()
	for until := l.Now().Add(limit); !l.pass().IsDone(); {
		if l.Effects() != effects {
			effects, since = l.Effects(), l.Now()
		}
		if l.Now().Sub(since) > idle {
			l.fail("nothing happens for %s: %s", idle, l.last)
		}
		if l.last.IsFail() && !l.forgiving {
			l.fail("%v", l.last.Err())
		}
		if l.Now().After(until) {
			l.fail("not settled within %s: %s", limit, l.last)
		}
	}
}

// cluster reads the object.
func (l *life) cluster() *v1beta2.FoundationDBCluster {
	l.t.Helper()
	c := &v1beta2.FoundationDBCluster{}
	c.Namespace, c.Name = namespace, l.name
	if found, err := l.As("").Objects.Get(context.Background(), c); err != nil || !found {
		l.t.Fatalf("no cluster: %v", err)
	}
	return c
}

// podList are the pods that are there.
func (l *life) podList() []corev1.Pod {
	l.t.Helper()
	var list corev1.PodList
	if err := l.As("").Objects.List(context.Background(), &list, namespace, nil); err != nil {
		l.t.Fatal(err)
	}
	return list.Items
}

// edit changes the spec by a merge patch.
func (l *life) edit(patch string) {
	l.t.Helper()
	if err := l.As("").Objects.Patch(context.Background(), l.cluster(), []byte(patch)); err != nil {
		l.t.Fatal(err)
	}
}

// writes lets a client write keys all the while.
func (l *life) writes(every time.Duration, versions ...string) {
	c := fdbsim.Client{Address: "192.0.2.1:4000", LogGroup: "app", Writes: every}
	c.Versions = versionsOf(l.t, versions...)
	l.Cluster().Connect(c)
}

// fail ends the test with what has happened.
func (l *life) fail(format string, args ...any) {
	l.t.Helper()
	c := l.cluster()
	var groups []string
	for _, g := range c.Status.ProcessGroups {
		var conditions []string
		for _, condition := range g.ProcessGroupConditions {
			conditions = append(conditions, string(condition.Type)+"@"+time.Unix(condition.Timestamp, 0).UTC().Format(time.TimeOnly))
		}
		text := fmt.Sprintf("%s %v %s %s", g.ProcessGroupID, g.Addresses, g.FaultDomain, strings.Join(conditions, ","))
		if g.RemovalTimestamp != nil {
			text += " marked"
		}
		if g.ExclusionTimestamp != nil {
			text += " excluded"
		}
		groups = append(groups, text)
	}
	var plan []string
	for _, e := range c.Status.Plan {
		plan = append(plan, fmt.Sprintf("%s: %s %v %s %s", e.Link, e.Action, e.Targets, e.Reason, e.Message))
	}
	status := c.Status.DeepCopy()
	status.ProcessGroups, status.Plan, status.Conditions = nil, nil, nil
	rest, _ := json.Marshal(status)
	lines := 250
	if os.Getenv("PAWL_LIFE") != "" { // one life, to be read from its beginning
		lines = 1 << 20
	}
	l.t.Fatalf("%s\n\nthe database: %s\n\ngroups:\n%s\n\nplan:\n%s\n\nstatus: %s\n\nwhat has happened:\n%s", fmt.Sprintf(format, args...), l.Cluster().Unhealthy(),
		strings.Join(groups, "\n"), strings.Join(plan, "\n"), rest, strings.Join(tail(told(l.Cluster().Transcript()), lines), "\n"))
}

// told leaves out of a transcript what says little.
func told(lines []string) []string {
	return slices.DeleteFunc(lines, func(line string) bool { return strings.Contains(line, ": SaveStatus ") })
}

func tail[T any](lines []T, n int) []T { return lines[max(0, len(lines)-n):] }

// whole skips what takes minutes, unless all is to run: make test-fdb.
func whole(t *testing.T) {
	t.Helper()
	if os.Getenv("PAWL_TEST_FDB") != "whole" {
		t.Skip("it takes a minute: make test-fdb runs it")
	}
}
