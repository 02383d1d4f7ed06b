package backups

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/kube/condition"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Kind is the kind of the objects of this operator.
const Kind = sharedstorage.BackupKind

// Backup is one object, as loaded.
type Backup struct {
	v1alpha1.SharedStorageBackup

	Finalized bool // it has the finalizer of this operator
	Version   any  // belongs to the store, which uses it for compare-and-set

	refused error // why it cannot be taken
}

// Store loads and saves backups: Kubernetes objects, or objects in SQLite.
type Store interface {
	sharedstorage.BackupStore
	// Load returns the newest version of a backup, or control.NotFound.
	Load(ctx context.Context, namespace, name string) (*Backup, error)
	// Save writes status and finalizer if the backup still has the version that was loaded,
	// otherwise it returns fault.WriteConflict.
	Save(ctx context.Context, b *Backup) error
	// List returns the backups of a cluster.
	List(ctx context.Context, namespace, cluster string) ([]*Backup, error)
	// Delete deletes a backup object. One that is gone is not an error.
	Delete(ctx context.Context, b *Backup) error
}

// The states of a backup.
const (
	Pending   machine.State = "Pending"
	BackingUp machine.State = "BackingUp"
	Completed machine.State = "Completed"
	Cancelled machine.State = "Cancelled"
	Deleting  machine.State = "Deleting"
	Deleted   machine.State = "Deleted"
)

// Input is the input of a run.
type Input struct {
	Cluster string `json:"cluster"`
	Type    string `json:"type"`
	Verify  bool   `json:"verify"`
}

// Table returns the machine.
func (o *Operator) Table() machine.Table[*Backup] {
	return machine.Table[*Backup]{
		Name: "sharedstoragebackup", Kind: Kind, Initial: Pending,
		Any: []machine.Transition[*Backup]{{Event: "delete", To: Deleting, Why: "deletion was asked for", Cancel: machine.Drop,
			When: func(b *Backup) (bool, error) { return b.DeletionTimestamp != nil, nil }}},
		States: map[machine.State]machine.StateSpec[*Backup]{
			Pending: {On: []machine.Transition[*Backup]{{Event: "take", To: BackingUp, Why: "the backup is to be taken",
				When:   func(b *Backup) (bool, error) { return b.refused == nil, nil },
				Params: func(b *Backup) (any, error) { return inputOf(b), nil }}}},
			BackingUp: {Flow: "TakeBackup", Then: Completed, Abort: Cancelled},
			Completed: {Rests: true}, Cancelled: {Rests: true}, machine.Interrupted: {Rests: true},
			Deleting: {Do: func(context.Context, *Backup) outcome.Outcome { return outcome.Done() }, Then: Deleted, Else: Deleting},
			Deleted:  {},
		},
	}
}

func inputOf(b *Backup) Input {
	return Input{Cluster: b.Spec.Cluster, Type: cmp.Or(b.Spec.Type, "full"), Verify: b.Spec.Verify}
}

func positionOf(b *Backup) (p machine.Position, err error) {
	if len(b.Status.Position) > 0 {
		err = json.Unmarshal(b.Status.Position, &p)
	}
	return p, err
}

func subject(b *Backup) string {
	s := Kind + "/" + b.Namespace + "/" + b.Name
	if b.UID != "" {
		s += "/" + string(b.UID)
	}
	return s
}

// objects implements machine.Objects.
type objects struct{ o *Operator }

// Load implements machine.Objects.
func (s objects) Load(ctx context.Context, ref control.Ref) (machine.Snapshot[*Backup], error) {
	b, err := s.o.options.Store.Load(ctx, ref.Namespace, ref.Name)
	return machine.Snapshot[*Backup]{Object: b}, err
}

// Position implements machine.Objects.
func (objects) Position(b *Backup) (machine.Position, error) { return positionOf(b) }

// Subject implements machine.Objects.
func (objects) Subject(b *Backup) string { return subject(b) }

// Write implements machine.Objects.
func (s objects) Write(ctx context.Context, b *Backup, move machine.Move) error {
	raw, err := json.Marshal(move.To)
	if err != nil {
		return err
	}
	b.Status.Position = raw
	b.Finalized = move.To.State != Deleted
	s.o.compute(b, move.To, nil)
	return s.o.options.Store.Save(ctx, b)
}

// compute derives the status from the position and the run.
func (o *Operator) compute(b *Backup, p machine.Position, run *runtype.Run) {
	s := &b.Status
	s.State, s.ObservedGeneration = string(cmp.Or(p.State, Pending)), b.Generation
	if !p.Since.IsZero() {
		s.Since = metav1.NewTime(p.Since.UTC().Truncate(time.Second))
	}
	s.Reason, s.Message = "", ""
	if p.Held {
		s.Reason, s.Message = p.Reason, p.Message
	}
	if b.refused != nil && p.State != Completed {
		s.Reason, s.Message = fault.Of(b.refused).Reason(), fault.Message(b.refused)
	}
	o.computeRun(b, p, run)
	ready := condition.New(condition.TypeReady, metav1.ConditionFalse, cmp.Or(s.Reason, s.State), "%s", cmp.Or(s.Message, "the backup is not complete"))
	switch {
	case p.State == Completed && s.Expired:
		ready = condition.New(condition.TypeReady, metav1.ConditionFalse, "Expired", "the retention of the cluster has removed backup %s", s.Label)
	case p.State == Completed:
		ready = condition.New(condition.TypeReady, metav1.ConditionTrue, "Completed", "backup %s is complete", s.Label)
	case p.Held && p.Code != "":
		ready = condition.FromCode(condition.TypeReady, string(p.Code), p.Message)
	case b.refused != nil:
		ready = condition.FromFault(condition.TypeReady, fault.Of(b.refused), "%s", fault.Message(b.refused))
	}
	condition.Set(&s.Conditions, b.Generation, o.options.Now().UTC(), ready)
}

func (o *Operator) computeRun(b *Backup, p machine.Position, run *runtype.Run) {
	if p.Run == "" {
		b.Status.Run = nil
		return
	}
	r := &v1alpha1.CurrentRun{ID: p.Run}
	if was := b.Status.Run; was != nil && was.ID == p.Run {
		*r = *was
	}
	if run != nil {
		r.Flow, r.Phase, r.Step, r.Message, r.Code, r.Remedy = run.Flow, string(run.Phase), "", "", "", ""
		if step := run.Current(); step != nil {
			r.Step = step.Name
			if step.Phase == runtype.StepWaiting && step.Wait != nil {
				r.Message = step.Wait.Message
			}
		}
		if f := run.Fault; f != nil && !run.Phase.Final() {
			r.Code, r.Message = string(f.Code), f.Message
			if kind, ok := fault.Lookup(string(f.Code)); ok {
				r.Remedy = kind.Remedy
			}
		}
	}
	b.Status.Run = r
}

// HeldBy returns the fault that blocks a backup; nil: none.
func HeldBy(b *Backup) *control.FaultRecord {
	ready := meta.FindStatusCondition(b.Status.Conditions, condition.TypeReady)
	if ready == nil || ready.Status != metav1.ConditionFalse || b.Status.State == string(Completed) {
		return nil
	}
	return condition.Fault(*ready)
}

func equal(a, b v1alpha1.SharedStorageBackupStatus) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}
