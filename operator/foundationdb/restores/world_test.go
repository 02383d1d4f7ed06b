package restores

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/fdb"
	fdbsim "github.com/pawl-dev/pawl/fdb/sim"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb/port"
	"github.com/pawl-dev/pawl/operator/foundationdb/sim"
	"github.com/pawl-dev/pawl/outcome"
)

// world is a simulated Kubernetes with a database called orders, and an operator of restores. The servers and
// agents of the database have no pods.
type world struct {
	t testing.TB
	*sim.World
	db       *fdbsim.Cluster
	version  fdb.Version
	effects  []string // writes, and calls that change something
	secrets  []fdb.Secret
	crash    func(effect string, after bool) bool // the operator dies before or after an effect
	dead     bool
	revives  bool // a pass in which it died is followed by a start
	options  Options
	operator *Operator
}

func newWorld(t testing.TB, tools ...string) *world {
	t.Helper()
	w := &world{t: t, World: sim.New(sim.Options{Seed: 7, Tools: tools})}
	w.db = w.Cluster()
	w.version, _ = fdb.ParseVersion("7.3.69")
	first := fdb.Connection{Description: "orders", ID: "first"}
	var servers []fdbsim.Server
	for _, of := range []struct {
		class fdb.Class
		count int
	}{{fdb.ClassStorage, 3}, {fdb.ClassLog, 3}, {fdb.ClassStateless, 3}} {
		for n := range of.count {
			name := fmt.Sprintf("%s-%d", of.class, n+1)
			a := fdb.Address{Host: fmt.Sprintf("10.1.0.%d", len(servers)+1), Port: 4501}
			if len(first.Coordinators) < 3 {
				first.Coordinators = append(first.Coordinators, a)
			}
			servers = append(servers, fdbsim.Server{
				Name: name, Folder: name, Class: of.class, Version: w.version, Addresses: []fdb.Address{a},
				Locality: map[string]string{fdb.InstanceLocality: name, fdb.ZoneLocality: "node-" + name, "machineid": "node-" + name},
			})
		}
	}
	for _, s := range servers {
		s.Connection = first
		w.db.Start(s)
	}
	w.Advance(5 * time.Second)
	if a := w.db.Run(fdbsim.Run{Argv: []string{"--exec", "configure new single ssd", "--timeout", "60"}, Version: w.version, Connection: first}); a.Exit != 0 {
		t.Fatal(a.Stderr)
	}
	for range 600 {
		if w.Advance(time.Second); w.db.Unhealthy() == "" {
			break
		}
	}
	w.found(w.db.Connection(), "7.3.69")
	w.Before(func(e sim.Effect) error { return w.hook(e, false) })
	w.After(func(e sim.Effect) error { return w.hook(e, true) })
	w.restart(Options{})
	return w
}

// found makes the object of the cluster, with a connection string unless it is the zero value.
func (w *world) found(connection fdb.Connection, running string) {
	c := clusterOf()
	if !w.get(c) {
		w.make(c)
	}
	c.Status = v1beta2.FoundationDBClusterStatus{RunningVersion: running}
	if len(connection.Coordinators) > 0 {
		c.Status.ConnectionString = connection.String()
	}
	w.must(w.As("").Objects.SaveStatus(context.Background(), c))
}

func clusterOf() *v1beta2.FoundationDBCluster {
	c := &v1beta2.FoundationDBCluster{}
	c.Name, c.Namespace, c.Spec.Version = "orders", "default", "7.3.69"
	return c
}

// restart starts the operator anew.
func (w *world) restart(o Options) {
	w.options = o
	o.Now = w.Now
	w.dead, w.operator = false, New(w.Objects(), w.Database(), o)
}

var errDead = fault.APIUnavailable.Errorf("the operator is dead")

// hook records an effect, and lets the operator die. One that is dead has no effect any more.
func (w *world) hook(e sim.Effect, after bool) error {
	effect := e.Verb + " " + e.Kind + "/" + e.Namespace + "/" + e.Name
	if e.Verb == "Run" {
		effect = string(e.Call.Command)
	}
	reads := e.Call.Command == fdb.CommandBackupStatus || e.Call.Command == fdb.CommandRestoreStatus
	if w.dead && (!after || !reads) {
		return errDead
	}
	if reads {
		return nil
	}
	if after {
		w.effects = append(w.effects, effect)
		if e.Call.Secrets != "" {
			w.secrets = append(w.secrets, e.Call.Secrets)
		}
	}
	if w.crash != nil && w.crash(effect, after) {
		w.dead = true
		return errDead
	}
	return nil
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// make creates an object as a person does, with its status.
func (w *world) make(o port.Object) {
	w.t.Helper()
	status := encode(o)["status"]
	w.must(w.As("").Objects.Create(context.Background(), o))
	if m, _ := status.(map[string]any); len(m) > 0 {
		m := encode(o)
		m["status"] = status
		decode(m, o)
		w.must(w.As("").Objects.SaveStatus(context.Background(), o))
	}
}

// get reads an object into o.
func (w *world) get(o port.Object) bool {
	found, err := w.As("").Objects.Get(context.Background(), o)
	w.must(err)
	return found
}

// drop deletes an object as a person does.
func (w *world) drop(o port.Object) {
	w.t.Helper()
	if w.get(o) {
		w.must(w.As("").Objects.Delete(context.Background(), o))
	}
}

// annotate changes an annotation of a restore as a person does.
func (w *world) annotate(name, key, value string) {
	w.t.Helper()
	encoded, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{key: value}}})
	w.must(err)
	w.must(w.As("").Objects.Patch(context.Background(), refTo(name), encoded))
}

func encode(o any) map[string]any {
	text, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	var m map[string]any
	if err := json.Unmarshal(text, &m); err != nil {
		panic(err)
	}
	return m
}

func decode(m map[string]any, into any) {
	text, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		panic(err)
	}
}

func (w *world) restore(name string) *v1beta2.FoundationDBRestore {
	w.t.Helper()
	b := refTo(name)
	if !w.get(b) {
		w.t.Fatalf("there is no restore %s", name)
	}
	return b
}

func refTo(name string) *v1beta2.FoundationDBRestore {
	b := &v1beta2.FoundationDBRestore{}
	b.Namespace, b.Name = "default", name
	return b
}

// pass makes one pass over a restore.
func (w *world) pass(name string) outcome.Outcome {
	out := w.operator.Reconcile(context.Background(), control.Ref{Kind: "FoundationDBRestore", Namespace: "default", Name: name})
	if w.dead && w.revives {
		w.restart(w.options)
	}
	return out
}

// condition is the status and the reason of a condition.
func (w *world) condition(name, kind string) string {
	w.t.Helper()
	b := w.restore(name)
	c := meta.FindStatusCondition(b.Status.Conditions, kind)
	if c == nil {
		w.t.Fatalf("%s has no condition %s", name, kind)
	}
	if c.ObservedGeneration != b.Generation || b.Status.ObservedGeneration != b.Generation {
		w.t.Errorf("%s of %s is of generation %d, not %d", kind, name, c.ObservedGeneration, b.Generation)
	}
	return string(c.Status) + " " + c.Reason
}

func (w *world) expect(name, kind, want string) {
	w.t.Helper()
	if got := w.condition(name, kind); got != want {
		w.t.Errorf("%s of %s is %s, not %s: %s", kind, name, got, want, meta.FindStatusCondition(w.restore(name).Status.Conditions, kind).Message)
	}
}

// did counts an effect.
func (w *world) did(effect string) (n int) {
	for _, e := range w.effects {
		if e == effect {
			n++
		}
	}
	return n
}

// events are the Events, a line each.
func (w *world) events() string {
	var lines []string
	for _, e := range w.Events() {
		lines = append(lines, e.Reason+": "+e.Message)
	}
	return strings.Join(lines, "\n")
}

// told counts the Events with a reason.
func (w *world) told(reason string) int {
	return strings.Count("\n"+w.events(), "\n"+reason+":")
}
