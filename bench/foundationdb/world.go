package main

import (
	"context"
	"fmt"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fdb"
	fdbsim "github.com/pawl-dev/pawl/fdb/sim"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters"
	"github.com/pawl-dev/pawl/operator/foundationdb/port"
	"github.com/pawl-dev/pawl/operator/foundationdb/sim"
	"github.com/pawl-dev/pawl/outcome"
)

// world is a simulated world with one cluster and an operator whose CPU is measured.
type world struct {
	*sim.World
	operator *clusters.Operator
	outside  time.Duration // CPU spent in the ports
	cpu      time.Duration // CPU of passes without that
	passes   int
}

const (
	namespace = "bench"
	name      = "main"
)

// clusterOf is a cluster of a number of groups: of 12, 5 are stateless, 3 logs, the rest storage; of more, four fifths
// are storage.
func clusterOf(name string, groups int) *v1beta2.FoundationDBCluster {
	logs, stateless := max(3, groups/10), max(5, groups/10)
	c := &v1beta2.FoundationDBCluster{}
	c.Namespace, c.Name = namespace, name
	c.Spec.Version = tested
	c.Spec.ProcessCounts = map[v1beta2.ProcessClass]int{"storage": groups - logs - stateless, "log": logs, "stateless": stateless}
	return c
}

// newWorld makes a world with a cluster of a number of groups.
func newWorld(groups int) (*world, error) {
	w := &world{World: sim.New(sim.Options{
		Seed: 1, Nodes: max(20, groups), Zones: 3,
		Database: fdbsim.Options{Shards: max(60, groups), Times: fdbsim.Times{Transcript: 10}},
	})}
	i := w.As("operator")
	w.operator = clusters.New(objects{i.Objects, w}, database{i.Database, w}, sidecars{i.Sidecars, w}, clusters.Options{Now: w.Now, Parallel: 1})
	return w, w.As("").Objects.Create(context.Background(), clusterOf(name, groups))
}

// pass makes one pass, and lets time go on until the next one is due.
func (w *world) pass() (outcome.Outcome, error) {
	before, outside := cpu(), w.outside
	out := w.operator.Reconcile(context.Background(), control.Ref{Kind: clusters.Kind, Namespace: namespace, Name: name})
	w.cpu += cpu() - before - (w.outside - outside)
	w.passes++
	if v := w.Cluster().Violations(); len(v) > 0 {
		return out, fmt.Errorf("%s", v[0])
	}
	if out.IsFail() {
		return out, out.Err()
	}
	after := out.After()
	if after <= 0 || after > time.Minute {
		after = time.Minute
	}
	w.Advance(after)
	return out, nil
}

// settle makes passes until the cluster is as it should be.
func (w *world) settle() error {
	for range 2000 {
		out, err := w.pass()
		if err != nil || out.IsDone() {
			return err
		}
	}
	return fmt.Errorf("it does not settle")
}

// reset sets all counters to zero.
func (w *world) reset() {
	w.ResetCalls()
	w.cpu, w.outside, w.passes = 0, 0, 0
}

// calls are the calls of Objects.
func (w *world) calls() (objects, status int) {
	for c, n := range w.Calls() {
		switch {
		case c.Verb == "Status":
			status += n
		case c.Kind != "" && c.Verb != "Run":
			objects += n
		}
	}
	return objects, status
}

// cpu is the CPU time of this process, with that of its garbage collector.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // it cannot fail for this process
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// away counts the CPU of a call into the world.
func (w *world) away() func() {
	before := cpu()
	return func() { w.outside += cpu() - before }
}

type objects struct {
	port.Objects
	w *world
}

func (o objects) Get(ctx context.Context, object port.Object) (bool, error) {
	defer o.w.away()()
	return o.Objects.Get(ctx, object)
}

func (o objects) List(ctx context.Context, list runtime.Object, namespace string, labels map[string]string) error {
	defer o.w.away()()
	return o.Objects.List(ctx, list, namespace, labels)
}

func (o objects) Create(ctx context.Context, object port.Object) error {
	defer o.w.away()()
	return o.Objects.Create(ctx, object)
}

func (o objects) Patch(ctx context.Context, object port.Object, patch []byte) error {
	defer o.w.away()()
	return o.Objects.Patch(ctx, object, patch)
}

func (o objects) Delete(ctx context.Context, object port.Object) error {
	defer o.w.away()()
	return o.Objects.Delete(ctx, object)
}

func (o objects) SaveStatus(ctx context.Context, object port.Object) error {
	defer o.w.away()()
	return o.Objects.SaveStatus(ctx, object)
}

type database struct {
	port.Database
	w *world
}

func (d database) Status(ctx context.Context, at port.Endpoint, limit port.Limit) (*fdb.Status, error) {
	defer d.w.away()()
	return d.Database.Status(ctx, at, limit)
}

func (d database) Run(ctx context.Context, at port.Endpoint, call fdb.Call) port.Answer {
	defer d.w.away()()
	return d.Database.Run(ctx, at, call)
}

type sidecars struct {
	port.Sidecars
	w *world
}

func (s sidecars) Substitutions(ctx context.Context, pod *corev1.Pod) (map[string]string, error) {
	defer s.w.away()()
	return s.Sidecars.Substitutions(ctx, pod)
}
