package restores

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fdb"
	fdbsim "github.com/pawl-dev/pawl/fdb/sim"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/sim"
)

const store = "seaweedfs@seaweedfs:8333"

// call runs a call as a person does, which must succeed.
func (w *world) call(c fdb.Call) fdbsim.Answer {
	w.t.Helper()
	c.ClusterFile = "/tmp/fdb.cluster"
	a := w.db.Call(c, w.version, w.db.Connection())
	if r := fdb.Judge(c, w.version, a.Exit, a.Stdout, a.Stderr); r.Outcome != fdb.Ok {
		w.t.Fatalf("%s: %s", c.Command, r)
	}
	return a
}

// backedUp is a world with 20 keys in a backup, which have been cleared since.
func backedUp(t testing.TB) *world {
	w := newWorld(t)
	w.db.SetAgents(2)
	w.set("old")
	w.call(fdb.StartBackup(fdb.Backup{URL: "blobstore://" + store + "/orders?bucket=fdb-backups"}))
	w.Advance(5 * time.Minute)
	w.call(fdb.AbortBackup("default"))
	w.clear()
	return w
}

// set writes the keys.
func (w *world) set(value string) {
	w.t.Helper()
	tx := w.db.Transaction()
	for n := range 20 {
		tx.Write(fdb.Set(fmt.Sprintf("key/%02d", n), []byte(value)))
	}
	if err := tx.Commit(); err != nil {
		w.t.Fatal(err)
	}
	w.Advance(time.Minute)
}

// clear removes the keys.
func (w *world) clear() {
	w.t.Helper()
	tx := w.db.Transaction()
	tx.Write(fdb.Clear(fdb.Range{End: "\xff"}))
	if err := tx.Commit(); err != nil {
		w.t.Fatal(err)
	}
}

// keys counts the keys that are there.
func (w *world) keys() (n int) {
	w.t.Helper()
	tx := w.db.Transaction()
	tx.LockAware = true
	for i := range 20 {
		_, there, err := tx.Get(fmt.Sprintf("key/%02d", i))
		if err != nil {
			w.t.Fatal(err)
		}
		if there {
			n++
		}
	}
	return n
}

func sample(name string) *v1beta2.FoundationDBRestore {
	r := &v1beta2.FoundationDBRestore{}
	r.Name, r.Namespace, r.UID = name, "default", types.UID(fmt.Sprintf("%08x-0000", len(name)*7919+int(name[len(name)-1])))
	r.Generation = 1
	r.Spec = v1beta2.FoundationDBRestoreSpec{
		DestinationClusterName: "orders", BlobStoreConfiguration: &v1beta2.BlobStoreConfiguration{AccountName: store, BackupName: "orders"},
	}
	return r
}

// run makes passes until the restore has ended, each when the one before has asked for it.
func (w *world) run(name string) {
	w.t.Helper()
	for range 40 {
		out := w.pass(name)
		if out.IsDone() {
			return
		}
		w.Advance(max(time.Second, out.After()))
	}
	w.t.Fatalf("%s does not end: %+v\n%v", name, w.restore(name).Status, w.events())
}

// TestLife: the sample restore is started once under a tag of its own, watched, and done; then nothing is asked or
// written any more.
func TestLife(t *testing.T) {
	w := backedUp(t)
	r := sample("orders")
	w.make(r)
	tag := "restore-" + string(r.UID)[:8]
	if out := w.pass("orders"); out.Reason() != "Restoring" || out.After() != time.Minute {
		t.Errorf("%s", out)
	}
	s := w.restore("orders").Status
	if s.Tag != tag || !s.Running || s.State != "queued" || s.StartedAt == nil || s.CompletedAt != nil || s.ObservedGeneration != 1 || !strings.Contains(s.Message, tag) {
		t.Errorf("%+v", s)
	}
	w.expect("orders", ReadyCondition, "False Restoring")
	w.expect("orders", ProgressingCondition, "True Restoring")
	w.expect("orders", FieldsIgnoredCondition, "False None")
	w.run("orders")
	s = w.restore("orders").Status
	if s.Running || s.State != "completed" || s.CompletedAt == nil || s.CompletedAt.Before(s.StartedAt) || w.keys() != 20 {
		t.Errorf("%+v, %d keys", s, w.keys())
	}
	w.expect("orders", ReadyCondition, "True Completed")
	w.expect("orders", ProgressingCondition, "False Completed")

	effects := len(w.effects)
	w.ResetCalls()
	w.clear()
	for range 3 {
		if out := w.pass("orders"); !out.IsDone() {
			t.Errorf("%s", out)
		}
		w.Advance(time.Hour)
	}
	if len(w.effects) != effects || w.Calls()[sim.Call{Verb: "Run", Kind: "restore status"}] != 0 || w.did("start restore") != 1 {
		t.Errorf("%v %v", w.effects, w.Calls())
	}
	for _, event := range []string{"RestoreStarted", "RestoreCompleted"} {
		if w.told(event) != 1 {
			t.Errorf("%s: %v", event, w.events())
		}
	}
}

// TestSecondRestore is flaw 2: a second restore starts, waits while the first one runs, and neither shows the state of
// the other.
func TestSecondRestore(t *testing.T) {
	w := backedUp(t)
	w.make(sample("first"))
	second := sample("second")
	second.Spec.KeyRanges = []v1beta2.KeyRange{{Start: "zoo", End: "zzz"}}
	w.make(second)
	w.pass("first")
	if out := w.pass("second"); out.Reason() != "AnotherRestore" || out.After() != time.Minute {
		t.Errorf("%s", out)
	}
	if s := w.restore("second").Status; s.State != "Unknown" || s.Running || s.StartedAt != nil {
		t.Errorf("it shows the state of the first one: %+v", s)
	}
	w.expect("second", ProgressingCondition, "True AnotherRestore")
	w.run("first")
	w.run("second")
	third := sample("thirds")
	w.clear()
	w.make(third)
	w.run("thirds")
	if w.did("start restore") != 3 || w.keys() != 20 {
		t.Errorf("%v, %d keys", w.effects, w.keys())
	}
	tags := map[string]bool{}
	for _, name := range []string{"first", "second", "thirds"} {
		w.expect(name, ReadyCondition, "True Completed")
		tags[w.restore(name).Status.Tag] = true
	}
	if len(tags) != 3 {
		t.Errorf("%v", tags)
	}
}

// TestOwnTag: a tag of the spec is claimed before it is used; one that was used before, by another object or by hand, is
// refused, and its state is not shown.
func TestOwnTag(t *testing.T) {
	w := backedUp(t)
	r := sample("first")
	r.Spec.Tag = "mine"
	w.make(r)
	if out := w.pass("first"); out.Reason() != "TagClaimed" || w.did("start restore") != 0 || w.restore("first").Status.Tag != "mine" {
		t.Errorf("%s %v", out, w.effects)
	}
	w.run("first")
	w.expect("first", ReadyCondition, "True Completed")

	w.clear()
	w.Advance(time.Minute)
	again := sample("second")
	again.Spec.Tag = "mine"
	w.make(again)
	for range 3 {
		w.pass("second")
	}
	w.expect("second", ReadyCondition, "False FdbRestoreTagUsed")
	if s := w.restore("second").Status; s.State != "" || s.Tag != "" || w.did("start restore") != 1 || w.told("FdbRestoreTagUsed") != 1 {
		t.Errorf("%+v %v", s, w.events())
	}
	w.drop(refTo("first")) // the database still knows the tag
	w.pass("second")
	w.expect("second", ReadyCondition, "False FdbRestoreTagUsed")
	if w.did("start restore") != 1 {
		t.Errorf("%v", w.effects)
	}
}

// TestTakeOver: a restore that another operator has started is watched, one that has ended is left alone, and neither
// is started again.
func TestTakeOver(t *testing.T) {
	w := backedUp(t)
	done := sample("done")
	done.Status.Running, done.Status.State = true, "completed"
	w.make(done)
	w.run("done")
	w.expect("done", ReadyCondition, "True Completed")

	w.call(fdb.StartRestore(fdb.Restore{Tag: "default", URL: "blobstore://" + store + "/orders?bucket=fdb-backups"}))
	runs := sample("runs")
	runs.Status.Running = true
	w.make(runs)
	w.pass("runs")
	if s := w.restore("runs").Status; s.Tag != "default" || !s.Running || s.State != "queued" {
		t.Errorf("%+v", s)
	}
	w.run("runs")
	w.expect("runs", ReadyCondition, "True Completed")
	if w.did("start restore") != 0 {
		t.Errorf("%v", w.effects)
	}
}

// TestRefusals: what the database or the blob store refuses becomes a condition, is told once, and the restore starts
// when nothing refuses any more.
func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		before, after func(*world)
		change        func(*v1beta2.FoundationDBRestore)
		want          string
	}{
		"the range is not empty": {before: func(w *world) { w.set("new") }, after: (*world).clear, want: "False FdbRestoreRangeNotEmpty"},
		"the database is locked": {
			before: func(w *world) {
				w.db.SetAgents(0)
				w.call(fdb.StartRestore(fdb.Restore{Tag: "by-hand", URL: "blobstore://" + store + "/orders?bucket=fdb-backups"}))
			},
			after: func(w *world) { w.call(fdb.AbortRestore("by-hand")); w.db.SetAgents(2) }, want: "False FdbDatabaseLocked",
		},
		"the store refuses":   {before: func(w *world) { w.db.Inject(fdbsim.Fault{Kind: fdbsim.FaultStoreRefuses}) }, after: func(w *world) { w.db.Clear("") }, want: "False FdbBlobStoreRefused"},
		"wrong credentials":   {before: func(w *world) { w.db.Inject(fdbsim.Fault{Kind: fdbsim.FaultWrongCredentials}) }, after: func(w *world) { w.db.Clear("") }, want: "False FdbBlobCredentialsRefused"},
		"no such backup":      {change: func(r *v1beta2.FoundationDBRestore) { r.Spec.BlobStoreConfiguration.BackupName = "none" }, want: "False FdbBlobStoreRefused"},
		"a version too young": {change: func(r *v1beta2.FoundationDBRestore) { r.Spec.BackupVersion = new(int64(1) << 60) }, want: "False FdbVersionNotRestorable"},
	} {
		t.Run(name, func(t *testing.T) {
			w := backedUp(t)
			if c.before != nil {
				c.before(w)
			}
			r := sample("orders")
			if c.change != nil {
				c.change(r)
			}
			w.make(r)
			for range 3 {
				w.pass("orders")
				w.Advance(time.Minute)
			}
			got := w.condition("orders", ProgressingCondition)
			if len(w.Events()) != 1 {
				t.Errorf("%v", w.events())
			}
			if got != c.want {
				t.Errorf("%s, not %s: %s", got, c.want, w.restore("orders").Status.Message)
			}
			if s := w.restore("orders").Status; s.StartedAt != nil || s.Running {
				t.Errorf("%+v", s)
			}
			if c.after != nil {
				c.after(w)
				w.run("orders")
				w.expect("orders", ReadyCondition, "True Completed")
			}
		})
	}
}

// TestAborted: a restore that was aborted by hand has ended, and is not started again.
func TestAborted(t *testing.T) {
	w := backedUp(t)
	w.make(sample("orders"))
	w.pass("orders")
	w.call(fdb.AbortRestore(w.restore("orders").Status.Tag))
	w.run("orders")
	w.expect("orders", ReadyCondition, "False Aborted")
	if s := w.restore("orders").Status; s.State != "aborted" || s.Running || s.CompletedAt != nil || w.did("start restore") != 1 || w.told("RestoreAborted") != 1 {
		t.Errorf("%+v %v", s, w.events())
	}
}

// TestForgotten: a restore of which the database knows nothing any more is not started again.
func TestForgotten(t *testing.T) {
	w := backedUp(t)
	r := sample("orders")
	began := w.db.Now()
	r.Status.Tag, r.Status.Running, r.Status.State = "restore-gone", true, "running"
	w.make(r)
	for range 3 {
		if out := w.pass("orders"); out.Reason() != "StateUnknown" || out.After() != 5*time.Minute {
			t.Errorf("%s", out)
		}
		w.Advance(time.Hour)
	}
	if s := w.restore("orders").Status; s.State != "Unknown" || s.Running || s.StartedAt.Time.Sub(began) > time.Minute || w.did("start restore") != 0 {
		t.Errorf("%+v %v", s, w.effects)
	}
}

// TestWaits: without cluster, connection string, tools or an available database a restore waits and says for what.
func TestWaits(t *testing.T) {
	w := backedUp(t)
	w.drop(clusterOf())
	w.make(sample("orders"))
	w.pass("orders")
	w.expect("orders", ReadyCondition, "False ClusterMissing")
	w.found(fdb.Connection{}, "")
	w.pass("orders")
	w.expect("orders", ReadyCondition, "False ClusterUnmade")
	w.found(w.db.Connection(), "7.2.4")
	w.pass("orders")
	w.expect("orders", ReadyCondition, "Unknown FdbToolsMissing")
	w.found(w.db.Connection(), "7.3.69")
	w.db.Inject(fdbsim.Fault{Kind: fdbsim.FaultTimedOut, Command: "status", Before: true, For: time.Hour})
	w.pass("orders")
	w.expect("orders", ReadyCondition, "Unknown FdbDatabaseSilent")
	w.db.Clear("")
	if w.did("start restore") != 0 {
		t.Errorf("%v", w.effects)
	}
	w.run("orders")
	w.expect("orders", ReadyCondition, "True Completed")
}

// TestRefusedSpec: a spec that is refused starts nothing.
func TestRefusedSpec(t *testing.T) {
	for path, change := range map[string]func(*v1beta2.FoundationDBRestore){
		"spec.keyRanges[0].end": func(r *v1beta2.FoundationDBRestore) {
			r.Spec.KeyRanges = []v1beta2.KeyRange{{Start: "a", End: "b;kill"}}
		},
		"spec.tag":    func(r *v1beta2.FoundationDBRestore) { r.Spec.Tag = "-a b" },
		"accountName": func(r *v1beta2.FoundationDBRestore) { r.Spec.BlobStoreConfiguration.AccountName = "nobody" },
	} {
		w := backedUp(t)
		r := sample("orders")
		change(r)
		w.make(r)
		if out := w.pass("orders"); !out.IsWait() || out.After() != 5*time.Minute {
			t.Errorf("%s: %s", path, out)
		}
		w.expect("orders", ReadyCondition, "False FdbSpecInvalid")
		if !strings.Contains(w.restore("orders").Status.Message, path) || len(w.effects) != 1 {
			t.Errorf("%s: %+v %v", path, w.restore("orders").Status, w.effects)
		}
	}
}

// TestSecret: the secret of an account goes to the tool by itself, and stands in nothing that is written.
func TestSecret(t *testing.T) {
	w := backedUp(t)
	r := sample("orders")
	r.Spec.BlobStoreConfiguration.AccountName = "seaweedfs:hunter2@seaweedfs:8333"
	w.make(r)
	w.run("orders")
	w.expect("orders", ReadyCondition, "True Completed")
	if len(w.secrets) != 1 || !strings.Contains(string(w.secrets[0]), `"hunter2"`) {
		t.Errorf("the tool got %d secrets", len(w.secrets))
	}
	status, _ := json.Marshal(w.restore("orders").Status)
	if text := string(status) + w.events() + strings.Join(w.db.Transcript(), "\n"); strings.Contains(text, "hunter2") {
		t.Error("the secret was written")
	}
}

// TestHoldAndPlan: the plan says that the restore starts; a hold keeps it from that, and an approval lets it pass.
func TestHoldAndPlan(t *testing.T) {
	w := backedUp(t)
	r := sample("orders")
	r.Annotations = map[string]string{foundationdb.HoldAnnotation: "StartRestore"}
	w.make(r)
	plan, err := w.operator.Plan(context.Background(), control.Ref{Namespace: "default", Name: "orders"})
	if err != nil || len(plan) != 3 || len(plan[1].Acts) != 1 || !plan[1].Held || plan[1].Acts[0].Name != "start restore" || len(w.effects) > 0 {
		t.Fatalf("%+v %v", plan, err)
	}
	w.pass("orders")
	w.expect("orders", ProgressingCondition, "True Held")
	_, rest, _ := strings.Cut(w.restore("orders").Status.Message, foundationdb.ApproveAnnotation+": ")
	hash, _, _ := strings.Cut(rest, " ")
	w.annotate("orders", foundationdb.ApproveAnnotation, hash)
	w.run("orders")
	w.expect("orders", ReadyCondition, "True Completed")
	if w.restore("orders").Annotations[foundationdb.ApproveAnnotation] != "" {
		t.Error("the approval stays")
	}
}
