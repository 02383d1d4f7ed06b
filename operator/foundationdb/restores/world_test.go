package restores

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/fdb"
	fdbsim "github.com/pawl-dev/pawl/fdb/sim"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb/port"
	"github.com/pawl-dev/pawl/outcome"
)

// world is an API server in memory, and the simulated database.
type world struct {
	t        testing.TB
	db       *fdbsim.Cluster
	version  fdb.Version
	stored   map[string]map[string]any // kind/namespace/name
	last     int                       // resource version
	events   []string
	effects  []string // writes, and calls that change something
	calls    []string // everything
	secrets  []fdb.Secret
	crash    func(effect string, after bool) bool // the operator dies before or after an effect
	dead     bool
	revives  bool // a pass in which it died is followed by a start
	tools    []string
	operator *Operator
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, db: fdbsim.New(fdbsim.Options{Seed: 7}), stored: map[string]map[string]any{}, tools: []string{"7.1", "7.3", "7.4"}}
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
	w.db.Advance(5 * time.Second)
	if a := w.db.Run(fdbsim.Run{Argv: []string{"--exec", "configure new single ssd", "--timeout", "60"}, Version: w.version, Connection: first}); a.Exit != 0 {
		t.Fatal(a.Stderr)
	}
	for range 600 {
		if w.db.Advance(time.Second); w.db.Unhealthy() == "" {
			break
		}
	}
	c := &v1beta2.FoundationDBCluster{}
	c.Name, c.Namespace, c.Spec.Version = "orders", "default", "7.3.69"
	c.Status.ConnectionString, c.Status.RunningVersion, c.Status.Configured = w.db.Connection().String(), "7.3.69", true
	w.put(c)
	w.restart(Options{})
	return w
}

// restart starts the operator anew.
func (w *world) restart(o Options) {
	o.Now = w.db.Now
	w.dead, w.operator = false, New(w, tools{w}, o)
}

func kindOf(o any) string { return reflect.TypeOf(o).Elem().Name() }

func keyOf(o port.Object) string { return kindOf(o) + "/" + o.GetNamespace() + "/" + o.GetName() }

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
	v := reflect.ValueOf(into).Elem()
	v.Set(reflect.Zero(v.Type()))
	if err := json.Unmarshal(text, into); err != nil {
		panic(err)
	}
}

// put stores an object as a person does.
func (w *world) put(o port.Object) {
	w.last++
	o.SetResourceVersion(fmt.Sprint(w.last))
	if o.GetUID() == "" {
		o.SetUID(types.UID(fmt.Sprintf("uid-%04d-0000", w.last)))
		o.SetGeneration(1)
		o.SetCreationTimestamp(metav1.NewTime(w.db.Now()))
	}
	w.stored[keyOf(o)] = encode(o)
}

// get reads an object into o.
func (w *world) get(o port.Object) bool {
	m, found := w.stored[keyOf(o)]
	if found {
		decode(m, o)
	}
	return found
}

func (w *world) restore(name string) *v1beta2.FoundationDBRestore {
	w.t.Helper()
	r := &v1beta2.FoundationDBRestore{}
	r.Namespace, r.Name = "default", name
	if !w.get(r) {
		w.t.Fatalf("there is no restore %s", name)
	}
	return r
}

// pass makes one pass over a restore.
func (w *world) pass(name string) outcome.Outcome {
	out := w.operator.Reconcile(context.Background(), control.Ref{Kind: "FoundationDBRestore", Namespace: "default", Name: name})
	if w.dead && w.revives {
		w.restart(Options{})
	}
	return out
}

// die reports whether the operator dies now.
func (w *world) die(effect string, after bool) bool {
	if w.dead || w.crash == nil {
		return w.dead
	}
	w.dead = w.crash(effect, after)
	return w.dead
}

var errDead = fault.APIUnavailable.Errorf("the operator is dead")

// write is one write of the operator.
func (w *world) write(verb string, o port.Object, do func() error) error {
	effect := verb + " " + keyOf(o)
	if w.die(effect, false) {
		return errDead
	}
	if err := do(); err != nil {
		return err
	}
	w.effects = append(w.effects, effect)
	if w.die(effect, true) {
		return errDead
	}
	return nil
}

func (w *world) Get(_ context.Context, o port.Object) (bool, error) {
	w.calls = append(w.calls, "Get "+keyOf(o))
	if w.dead {
		return false, errDead
	}
	return w.get(o), nil
}

func (w *world) List(_ context.Context, list runtime.Object, namespace string, _ map[string]string) error {
	kind := strings.TrimSuffix(kindOf(list), "List")
	w.calls = append(w.calls, "List "+kind)
	if w.dead {
		return errDead
	}
	items := reflect.ValueOf(list).Elem().FieldByName("Items")
	for _, key := range slices.Sorted(maps.Keys(w.stored)) {
		if !strings.HasPrefix(key, kind+"/"+namespace+"/") {
			continue
		}
		item := reflect.New(items.Type().Elem())
		decode(w.stored[key], item.Interface())
		items.Set(reflect.Append(items, item.Elem()))
	}
	return nil
}

func (w *world) Create(_ context.Context, o port.Object) error {
	return w.write("Create", o, func() error {
		if _, found := w.stored[keyOf(o)]; found {
			return control.Exists.Errorf("%s", keyOf(o))
		}
		w.put(o)
		return nil
	})
}

func (w *world) Patch(_ context.Context, o port.Object, patch []byte) error {
	return w.write("Patch", o, func() error {
		stored, found := w.stored[keyOf(o)]
		if !found {
			return control.NotFound.Errorf("%s", keyOf(o))
		}
		var change map[string]any
		if err := json.Unmarshal(patch, &change); err != nil {
			return err
		}
		if asked, is := change["metadata"].(map[string]any)["resourceVersion"]; is && asked != stored["metadata"].(map[string]any)["resourceVersion"] {
			return fault.WriteConflict.Errorf("%s", keyOf(o))
		}
		next := merged(stored, change)
		changed := !reflect.DeepEqual(next["spec"], stored["spec"])
		decode(next, o)
		if changed {
			o.SetGeneration(o.GetGeneration() + 1)
		}
		if o.GetDeletionTimestamp() != nil && len(o.GetFinalizers()) == 0 {
			delete(w.stored, keyOf(o))
			return nil
		}
		w.put(o)
		return nil
	})
}

// merged applies a merge patch.
func merged(m, change map[string]any) map[string]any {
	m = maps.Clone(m)
	for key, value := range change {
		inner, isObject := value.(map[string]any)
		old, wasObject := m[key].(map[string]any)
		switch {
		case value == nil:
			delete(m, key)
		case isObject && wasObject:
			m[key] = merged(old, inner)
		case isObject:
			m[key] = merged(map[string]any{}, inner)
		default:
			m[key] = value
		}
	}
	return m
}

func (w *world) Delete(_ context.Context, o port.Object) error {
	return w.write("Delete", o, func() error { delete(w.stored, keyOf(o)); return nil })
}

func (w *world) SaveStatus(_ context.Context, o port.Object) error {
	return w.write("SaveStatus", o, func() error {
		stored, found := w.stored[keyOf(o)]
		if !found {
			return control.NotFound.Errorf("%s", keyOf(o))
		}
		if stored["metadata"].(map[string]any)["resourceVersion"] != o.GetResourceVersion() {
			return fault.WriteConflict.Errorf("%s", keyOf(o))
		}
		next := maps.Clone(stored)
		next["status"] = encode(o)["status"]
		decode(next, o)
		w.put(o)
		return nil
	})
}

func (w *world) Tell(_ port.Object, e port.Event) {
	if !w.dead {
		w.events = append(w.events, e.Reason+": "+e.Message)
	}
}

// tools are the tools of the simulated database.
type tools struct{ *world }

func (t tools) Versions() []string { return t.tools }

func (t tools) Status(context.Context, port.Endpoint, port.Limit) (*fdb.Status, error) {
	t.calls = append(t.calls, "Status")
	return fdb.ParseStatus(t.db.Status(t.db.Connection(), t.version))
}

func (t tools) Transact(context.Context, port.Endpoint, []fdb.Range, func(fdb.Values) ([]fdb.Write, error)) fdb.Result {
	t.t.Fatal("no transaction is needed")
	return fdb.Result{}
}

func (t tools) Run(_ context.Context, at port.Endpoint, call fdb.Call) port.Answer {
	call.ClusterFile, call.Version = "/tmp/fdb.cluster", at.Version
	effect := string(call.Command)
	t.calls = append(t.calls, effect)
	reads := call.Command == fdb.CommandRestoreStatus
	unknown := port.Answer{Result: fdb.Result{Reason: fdb.ToolEnded}}
	if t.dead || !reads && t.die(effect, false) {
		return unknown
	}
	if call.Secrets != "" {
		t.secrets = append(t.secrets, call.Secrets)
		call.BlobCredentials = "/tmp/credentials"
	}
	if err := call.Check(); err != nil {
		return port.Answer{Result: fdb.Result{Outcome: fdb.Refused, Reason: fdb.CommandRefused, Text: err.Error()}}
	}
	a := t.db.Call(call, at.Version, at.Connection)
	answer := port.Answer{Result: fdb.Judge(call, at.Version, a.Exit, a.Stdout, a.Stderr), Stdout: a.Stdout}
	if reads {
		return answer
	}
	t.effects = append(t.effects, effect)
	if t.die(effect, true) {
		return unknown
	}
	return answer
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
