package backups

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/fdb/sim"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
)

// TestStoreRefuses: what the blob store refuses is told with a remedy, once, and the backup starts when the store takes
// it.
func TestStoreRefuses(t *testing.T) {
	for kind, text := range map[sim.FaultKind]string{sim.FaultStoreRefuses: "HTTP response code not received", sim.FaultWrongCredentials: "bad credentials"} {
		t.Run(string(kind), func(t *testing.T) {
			w := newWorld(t)
			w.db.Inject(sim.Fault{Kind: kind})
			w.make(sample("orders"))
			for range 5 {
				w.pass("orders")
				w.Advance(15 * time.Second)
				w.Advance(time.Minute)
			}
			w.expect("orders", ReadyCondition, "False FdbBlobStoreRefused")
			w.expect("orders", ProgressingCondition, "False FdbBlobStoreRefused")
			if w.told("FdbBlobStoreRefused") != 1 || !strings.Contains(w.events(), text) || w.told("BackupStarted") != 0 {
				t.Errorf("%v", w.events())
			}
			w.db.Clear("")
			w.settle("orders")
			w.expect("orders", ReadyCondition, "True Running")
		})
	}
}

// TestSilence: while the database does not answer, the agents are still tended, nothing is asked of it, and what was
// known stays.
func TestSilence(t *testing.T) {
	w := newWorld(t)
	w.make(sample("orders"))
	w.settle("orders")
	known := *w.backup("orders").Status.BackupDetails
	w.db.Inject(sim.Fault{Kind: sim.FaultTimedOut, Command: "status", Before: true, For: time.Hour})
	w.edit("orders", func(b *v1beta2.FoundationDBBackup) {
		b.Spec.BackupState, b.Spec.AgentCount = v1beta2.BackupStopped, new(3)
	})
	before := len(w.effects)
	for range 3 {
		w.pass("orders")
		w.Advance(15 * time.Second)
	}
	w.expect("orders", ReadyCondition, "Unknown FdbDatabaseSilent")
	w.expect("orders", ProgressingCondition, "Unknown FdbDatabaseSilent")
	b := w.backup("orders")
	if *b.Status.BackupDetails != known || b.Status.AgentCount != 3 || b.Status.Generations.Reconciled != 1 {
		t.Errorf("%+v %+v", b.Status, b.Status.BackupDetails)
	}
	for _, effect := range w.effects[before:] {
		if !strings.HasPrefix(effect, "Patch Deployment") && !strings.HasPrefix(effect, "SaveStatus") {
			t.Errorf("%s while the database is silent", effect)
		}
	}
	w.db.Clear("")
	w.settle("orders")
	w.expect("orders", ReadyCondition, "True Completed")
}

// TestBeforeTheCluster: without cluster, connection string or tools a backup waits and says for what.
func TestBeforeTheCluster(t *testing.T) {
	w := newWorld(t)
	w.drop(clusterOf())
	w.make(sample("orders"))
	w.pass("orders")
	w.expect("orders", ReadyCondition, "False ClusterMissing")
	w.found(fdb.Connection{}, "")
	w.pass("orders")
	w.expect("orders", ReadyCondition, "False ClusterUnmade")
	if w.did("Create Deployment/default/orders-backup-agents") != 1 {
		t.Error("there are no agents")
	}
	w.found(w.db.Connection(), "7.2.4")
	w.pass("orders")
	w.expect("orders", ReadyCondition, "Unknown FdbToolsMissing")
	w.found(w.db.Connection(), "7.3.69")
	w.settle("orders")
	w.expect("orders", ReadyCondition, "True Running")
}

// TestRefusedSpec: a spec that is refused changes nothing, and is told with the fields.
func TestRefusedSpec(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*v1beta2.FoundationDBBackup)
		limits foundationdb.TemplateLimits
		reason string
		path   string
	}{
		"no account":       {change: func(b *v1beta2.FoundationDBBackup) { b.Spec.BlobStoreConfiguration.AccountName = "seaweedfs" }, reason: "FdbSpecInvalid", path: "accountName"},
		"a second command": {change: func(b *v1beta2.FoundationDBBackup) { b.Spec.Tag = "a;kill" }, reason: "FdbSpecInvalid", path: "spec.tag"},
		"another tag":      {change: func(b *v1beta2.FoundationDBBackup) { b.Spec.Tag = "second" }, reason: "FdbSpecInvalid", path: "spec.tag"},
		"a host network": {change: func(b *v1beta2.FoundationDBBackup) {
			b.Spec.PodTemplateSpec = &corev1.PodTemplateSpec{Spec: corev1.PodSpec{HostNetwork: true}}
		}, limits: foundationdb.TemplateLimits{NoHostNetwork: true}, reason: "FdbTemplateForbidden", path: "hostNetwork"},
		"an image of a tag": {change: imageOfATag, reason: "FdbSpecInvalid", path: "spec.podTemplateSpec.spec.containers[foundationdb].image"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.restart(Options{TemplateLimits: c.limits})
			w.make(sample("orders"))
			w.settle("orders")
			w.edit("orders", c.change)
			before := len(w.effects)
			for range 3 {
				w.pass("orders")
				w.Advance(15 * time.Second)
			}
			w.expect("orders", ReadyCondition, "False "+c.reason)
			w.expect("orders", ProgressingCondition, "False "+c.reason)
			if got := strings.Join(w.effects[before:], ", "); got != "SaveStatus FoundationDBBackup/default/orders" {
				t.Errorf("%s", got)
			}
			if !strings.Contains(w.events(), c.path) {
				t.Errorf("%v", w.events())
			}
		})
	}
}

func imageOfATag(b *v1beta2.FoundationDBBackup) {
	b.Spec.PodTemplateSpec = &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "foundationdb", Image: "registry:5000/fdb:7.1.0"}}}}
}

// TestSecret: the secret of an account goes to the tools by itself, and stands neither in what they are told nor in
// anything that is written; and no backup starts whose agents would not know it.
func TestSecret(t *testing.T) {
	w := newWorld(t)
	b := sample("orders")
	b.Spec.BlobStoreConfiguration.AccountName = "key:hunter2:token9@store:8333"
	w.make(b)
	for range 3 {
		w.pass("orders")
		w.Advance(15 * time.Second)
	}
	w.expect("orders", ReadyCondition, "False FdbAgentsUnauthenticated")
	if w.did("start backup") != 0 {
		t.Error("it is started")
	}
	w.edit("orders", func(b *v1beta2.FoundationDBBackup) {
		b.Spec.PodTemplateSpec = &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "foundationdb", Env: []corev1.EnvVar{{Name: "FDB_BLOB_CREDENTIALS", Value: "/credentials"}},
		}}}}
	})
	w.settle("orders")
	w.expect("orders", ReadyCondition, "True Running")
	if len(w.secrets) != 1 || string(w.secrets[0]) != `{"accounts":{"key@store":{"secret":"hunter2","token":"token9"}}}` {
		t.Errorf("the tools got %d secrets", len(w.secrets))
	}
	o := w.backup("orders")
	o.Spec = v1beta2.FoundationDBBackupSpec{}
	status, _ := json.Marshal(o)
	agents, _ := json.Marshal(w.deployment())
	for where, text := range map[string]string{
		"the status": string(status), "the agents": string(agents), "the events": w.events(), "the database": strings.Join(w.db.Transcript(), "\n"),
	} {
		if strings.Contains(text, "hunter2") || strings.Contains(text, "token9") {
			t.Errorf("the secret stands in %s", where)
		}
	}
}

// TestConflict: a status that another has changed in between is not overwritten; the next pass is right.
func TestConflict(t *testing.T) {
	w := newWorld(t)
	w.make(sample("orders"))
	w.crash = func(effect string, after bool) bool {
		if effect == "start backup" && after {
			w.edit("orders", func(b *v1beta2.FoundationDBBackup) { b.Spec.BackupState = v1beta2.BackupStopped })
		}
		return false
	}
	if out := w.pass("orders"); !out.IsFail() || out.Reason() != "WriteConflict" {
		t.Errorf("%s", out)
	}
	w.crash = nil
	w.settle("orders")
	if s := w.state("default"); s.State != fdb.BackupCompleted {
		t.Errorf("%+v", s)
	}
}
