package backups

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/pawl-dev/pawl/chain"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/kube/condition"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/port"
	"github.com/pawl-dev/pawl/outcome"
)

// How soon a pass follows another one.
const (
	defaultLook = 60 * time.Second
	retry       = 10 * time.Second // what is unknown, not heard or under way
	refusedWait = 60 * time.Second // what was refused
	deleteTime  = 2 * time.Minute  // of one call that deletes; the next pass goes on where it ended
)

// Options are the options of an operator. Zero fields have the default that stands beside them.
type Options struct {
	Now            func() time.Time // time.Now
	Limits         fdb.Limits
	TemplateLimits foundationdb.TemplateLimits
	// LogDir, LogGroup and TraceFormat are those of the tools' trace files. Without LogDir there are none.
	LogDir, LogGroup, TraceFormat string
	// Look is how often a backup is looked at that waits for something that wakes nobody: 60 s.
	Look time.Duration
	// DeleteTime is how long one call may delete what a backup has written: 2 min. The call is repeated until nothing is left.
	DeleteTime time.Duration
}

// Operator reconciles backups.
type Operator struct {
	objects  port.Objects
	database port.Database
	options  Options
	unknown  foundationdb.UnknownFields
}

// New returns an operator of backups.
func New(objects port.Objects, database port.Database, o Options) *Operator {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Limits = o.Limits.WithDefaults()
	o.Look = cmp.Or(o.Look, defaultLook)
	o.DeleteTime = cmp.Or(o.DeleteTime, deleteTime)
	return &Operator{objects: objects, database: database, options: o}
}

// pass is one visit of a backup.
type pass struct {
	*Operator
	facts
	before  v1beta2.FoundationDBBackupStatus // as it is stored
	asked   bool                             // the database was asked to change something
	gone    bool                             // the object is
	plan    string                           // the hash of the plan, while links are held
	unknown []string                         // fields of the spec that nobody knows
}

// Reconcile makes one pass. Done: the backup is as it should be, or gone; who calls looks at it again from time to time,
// since what the database does wakes nobody.
func (o *Operator) Reconcile(ctx context.Context, ref control.Ref) outcome.Outcome {
	p, links, err := o.begin(ctx, ref)
	if err != nil || p == nil {
		return outcome.Fail(err)
	}
	if p.unknown, err = o.unknown.Of(p.backup, func() ([]string, error) { return o.objects.UnknownFields(ctx, p.backup) }); err != nil {
		return outcome.Fail(err)
	}
	links, plan, approved := foundationdb.Gate(p.backup.Annotations, links, p.copy)
	if p.plan = plan; approved {
		if err := p.patch(ctx, map[string]any{"annotations": map[string]any{foundationdb.ApproveAnnotation: nil}}); err != nil {
			return outcome.Fail(err)
		}
	}
	report := links.ReconcileAndSave(ctx, p, p.save)
	return p.next(report.Outcome())
}

// Plan says what the next pass would do.
func (o *Operator) Plan(ctx context.Context, ref control.Ref) ([]chain.Planned, error) {
	p, links, err := o.begin(ctx, ref)
	if err != nil || p == nil {
		return nil, err
	}
	if holds := foundationdb.Holds(p.backup.Annotations); holds != nil {
		links = links.Hold(holds)
	}
	return links.Plan(p), nil
}

// begin gathers the facts and chooses the chain. There is no pass if the object is gone.
func (o *Operator) begin(ctx context.Context, ref control.Ref) (*pass, chain.Chain[*pass], error) {
	var stored v1beta2.FoundationDBBackupStatus
	f, found, err := o.gather(ctx, ref, &stored)
	if err != nil || !found {
		return nil, nil, err
	}
	p := &pass{Operator: o, facts: f, before: stored}
	if f.backup.DeletionTimestamp != nil {
		return p, deletion, nil
	}
	return p, backup, nil
}

// copy returns a pass that a plan may change.
func (p *pass) copy() *pass {
	c := *p
	c.backup = p.backup.DeepCopy()
	return &c
}

// patch changes the metadata of the object, as it was read.
func (p *pass) patch(ctx context.Context, metadata map[string]any) error {
	metadata["resourceVersion"] = p.backup.ResourceVersion
	encoded, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return err
	}
	stored := p.backup.DeepCopy()
	if err := p.objects.Patch(ctx, stored, encoded); err != nil {
		return err
	}
	p.backup.ObjectMeta.ResourceVersion = stored.ResourceVersion
	p.backup.Finalizers, p.backup.Annotations = stored.Finalizers, stored.Annotations
	return nil
}

// save writes the status, if it has changed, and tells people of a new refusal.
func (p *pass) save(ctx context.Context, _ *pass, report chain.Report) error {
	if p.gone {
		return nil
	}
	s := &p.backup.Status
	s.ObservedGeneration = p.backup.Generation
	p.warn(report)
	condition.Set(&s.Conditions, p.backup.Generation, p.now, p.conditions(report)...)
	if equality.Semantic.DeepEqual(p.before, *s) {
		return nil
	}
	err := p.objects.SaveStatus(ctx, p.backup)
	if errors.Is(err, control.NotFound) {
		return nil
	}
	return err
}

// next is the outcome with a delay: what nothing wakes is looked at again.
func (p *pass) next(out outcome.Outcome) outcome.Outcome {
	look := p.options.Look
	switch {
	case out.IsFail() || out.IsDone():
		return out
	case out.After() > 0:
		look = min(look, out.After())
	}
	if out.IsWait() {
		return outcome.Wait(look, out.Reason(), "%s", out.Message())
	}
	return outcome.Later(look, out.Reason(), "%s", out.Message())
}
