package backups

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
)

func (w *world) plan(name string) string {
	w.t.Helper()
	plan, err := w.operator.Plan(context.Background(), control.Ref{Namespace: "default", Name: name})
	if err != nil {
		w.t.Fatal(err)
	}
	var lines []string
	for _, p := range plan {
		for _, act := range p.Acts {
			lines = append(lines, fmt.Sprintf("%s: %s held=%t", p.Link, act, p.Held))
		}
	}
	return strings.Join(lines, "\n")
}

// TestPlan: the plan says all that is to be done, also what follows from what comes before, and does nothing.
func TestPlan(t *testing.T) {
	w := newWorld(t)
	b := sample("orders")
	b.Spec.BackupState, b.Spec.DeletionPolicy = v1beta2.BackupPaused, v1beta2.BackupDeletionStop
	w.make(b)
	want := `UpdateBackupStatus: add finalizer foundationdb.org/fdb-kubernetes-operator held=false
UpdateBackupAgents: create agents held=false
StartBackup: start backup default held=false
ToggleBackupPaused: pause backups orders held=false`
	if got := w.plan("orders"); got != want {
		t.Errorf("%s", got)
	}
	if len(w.effects)+len(w.events()) > 0 {
		t.Errorf("%v %v", w.effects, w.events())
	}
	w.settle("orders")
	if got := w.plan("orders"); got != "" {
		t.Errorf("a settled backup: %s", got)
	}
	w.remove("orders")
	if got := w.plan("orders"); got != "AbortBackup: abort backup default held=false\nRemoveFinalizer: remove finalizer foundationdb.org/fdb-kubernetes-operator held=false" {
		t.Errorf("%s", got)
	}
	if plan, err := w.operator.Plan(context.Background(), control.Ref{Namespace: "default", Name: "none"}); plan != nil || err != nil {
		t.Error(plan, err)
	}
}

// TestHold: held links do not act, and say what they would do; an approval lets exactly that plan pass, once.
func TestHold(t *testing.T) {
	w := newWorld(t)
	b := sample("orders")
	b.Annotations = map[string]string{foundationdb.HoldAnnotation: "StartBackup"}
	w.make(b)
	for range 3 {
		w.pass("orders")
		w.Advance(15 * time.Second)
	}
	w.expect("orders", ProgressingCondition, "True Held")
	if w.did("start backup") != 0 || w.backup("orders").Status.AgentCount != 2 {
		t.Errorf("%v", w.effects)
	}
	message := meta.FindStatusCondition(w.backup("orders").Status.Conditions, ProgressingCondition).Message
	_, rest, _ := strings.Cut(message, foundationdb.ApproveAnnotation+": ")
	hash, _, _ := strings.Cut(rest, " ")
	if !strings.HasPrefix(message, "held: start backup default") || len(hash) != 12 {
		t.Fatal(message)
	}

	approve := func(hash string) {
		w.edit("orders", func(b *v1beta2.FoundationDBBackup) { b.Annotations[foundationdb.ApproveAnnotation] = hash })
	}
	approve("000000000000")
	w.pass("orders")
	if w.did("start backup") != 0 {
		t.Error("another plan has passed")
	}
	approve(hash)
	w.pass("orders")
	if w.did("start backup") != 1 {
		t.Errorf("%v", w.effects)
	}
	if a := w.backup("orders").Annotations; a[foundationdb.ApproveAnnotation] != "" || a[foundationdb.HoldAnnotation] != "StartBackup" {
		t.Errorf("%v", a)
	}
	w.settle("orders")

	// "*" holds the deletion as well.
	w.edit("orders", func(b *v1beta2.FoundationDBBackup) {
		b.Annotations[foundationdb.HoldAnnotation], b.Spec.BackupState, b.Spec.AgentCount = "*", v1beta2.BackupStopped, new(5)
	})
	before := len(w.effects)
	w.pass("orders")
	w.pass("orders")
	if got := strings.Join(w.effects[before:], ", "); got != "SaveStatus FoundationDBBackup/default/orders" {
		t.Errorf("%s", got)
	}
}
