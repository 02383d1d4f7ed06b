package backups

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/fdb"
	fdbsim "github.com/pawl-dev/pawl/fdb/sim"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb/port"
	"github.com/pawl-dev/pawl/operator/foundationdb/sim"
	"github.com/pawl-dev/pawl/outcome"
)

// world is a simulated Kubernetes with a database called orders, and an operator of backups. The servers of the
// database have no pods; the agents have.
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

// found makes the object of the cluster, with a connection string unless it is the zero value, and its config map.
func (w *world) found(connection fdb.Connection, running string) {
	c := clusterOf()
	if !w.get(c) {
		w.make(c)
	}
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "orders-config", Namespace: "default"}}
	m.Data = map[string]string{"cluster-file": w.db.Connection().String()}
	if !w.get(m.DeepCopy()) {
		w.make(m)
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

// deployment is that of the agents of orders; nil: there is none.
func (w *world) deployment() *appsv1.Deployment {
	d := &appsv1.Deployment{}
	d.Namespace, d.Name = "default", "orders-backup-agents"
	if !w.get(d) {
		return nil
	}
	return d
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

// change changes metadata and spec of an object as a person does.
func (w *world) change(o port.Object, change func()) {
	w.t.Helper()
	if !w.get(o) {
		w.t.Fatalf("there is no %s", o.GetName())
	}
	before := encode(o)
	change()
	patch := difference(before, encode(o))
	delete(patch, "status")
	encoded, err := json.Marshal(patch)
	w.must(err)
	w.must(w.As("").Objects.Patch(context.Background(), o, encoded))
}

func encode(o any) map[string]any {
	m, err := asMap(o)
	if err != nil {
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

func (w *world) backup(name string) *v1beta2.FoundationDBBackup {
	w.t.Helper()
	b := refTo(name)
	if !w.get(b) {
		w.t.Fatalf("there is no backup %s", name)
	}
	return b
}

func refTo(name string) *v1beta2.FoundationDBBackup {
	b := &v1beta2.FoundationDBBackup{}
	b.Namespace, b.Name = "default", name
	return b
}

func (w *world) there(name string) bool { return w.get(refTo(name)) }

// edit changes a backup as a person does.
func (w *world) edit(name string, change func(*v1beta2.FoundationDBBackup)) {
	w.t.Helper()
	b := refTo(name)
	w.change(b, func() { change(b) })
}

func (w *world) remove(name string) {
	w.t.Helper()
	w.drop(refTo(name))
}

// pass makes one pass over a backup.
func (w *world) pass(name string) outcome.Outcome {
	out := w.operator.Reconcile(context.Background(), control.Ref{Kind: "FoundationDBBackup", Namespace: "default", Name: name})
	if w.dead && w.revives {
		w.restart(w.options)
	}
	return out
}

// settle makes passes over backups until nothing is written any more.
func (w *world) settle(names ...string) {
	w.t.Helper()
	quiet := 0
	for range 60 {
		before := len(w.effects)
		settled := true
		for _, name := range names {
			settled = w.pass(name).IsDone() && settled
		}
		w.Advance(15 * time.Second)
		if quiet++; !settled || len(w.effects) != before {
			quiet = 0
		}
		if quiet == 4 { // a snapshot takes longer than a pass
			return
		}
	}
	w.t.Fatalf("it does not settle: %v\n%s", w.effects, w.events())
}

// sample is the backup of examples/foundationdb.
func sample(name string) *v1beta2.FoundationDBBackup {
	b := refTo(name)
	b.Spec = v1beta2.FoundationDBBackupSpec{
		Version: "7.3.69", ClusterName: "orders", ImageType: v1beta2.ImageTypeUnified, SnapshotPeriodSeconds: new(3600),
		BlobStoreConfiguration: &v1beta2.BlobStoreConfiguration{AccountName: "seaweedfs@seaweedfs:8333", URLParameters: []v1beta2.URLParameter{"secure_connection=0"}},
	}
	return b
}

// state is what the database says of a tag.
func (w *world) state(tag string) fdb.BackupStatus {
	w.t.Helper()
	call := fdb.ReadBackupStatus(tag)
	call.ClusterFile = "/tmp/fdb.cluster"
	s, err := fdb.ParseBackupStatus([]byte(w.db.Call(call, w.version, w.db.Connection()).Stdout))
	w.must(err)
	return s
}

// condition is the status and the reason of a condition.
func (w *world) condition(name, kind string) string {
	w.t.Helper()
	b := w.backup(name)
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
		w.t.Errorf("%s of %s is %s, not %s: %s", kind, name, got, want, meta.FindStatusCondition(w.backup(name).Status.Conditions, kind).Message)
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

// agents are the names of the agents' pods.
func (w *world) agents() []string {
	var list corev1.PodList
	w.must(w.As("").Objects.List(context.Background(), &list, "default", nil))
	var names []string
	for _, p := range list.Items {
		names = append(names, p.Name)
	}
	slices.Sort(names)
	return names
}
