package restores

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
	defaultIdle = 5 * time.Minute
	retry       = 10 * time.Second // after an unknown reply
	claimed     = time.Second      // after the tag was claimed
)

// Options are the options of an operator. Zero fields have the default that stands beside them.
type Options struct {
	Now func() time.Time // time.Now
	// LogDir, LogGroup and TraceFormat are those of the tools' trace files. Without LogDir there are none.
	LogDir, LogGroup, TraceFormat string
	// Look is how often a restore that runs is read: 60 s. Idle is how often one is that waits for people: 5 min.
	Look, Idle time.Duration
}

// Operator reconciles restores.
type Operator struct {
	objects  port.Objects
	database port.Database
	options  Options
	unknown  foundationdb.UnknownFields
}

// New returns an operator of restores.
func New(objects port.Objects, database port.Database, o Options) *Operator {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Look, o.Idle = cmp.Or(o.Look, defaultLook), cmp.Or(o.Idle, defaultIdle)
	return &Operator{objects: objects, database: database, options: o}
}

// pass is one visit of a restore.
type pass struct {
	*Operator
	facts
	before  v1beta2.FoundationDBRestoreStatus // as it is stored
	asked   bool                              // a restore was started, or may have been
	plan    string                            // the hash of the plan, while links are held
	unknown []string                          // fields of the spec that nobody knows
}

// Reconcile makes one pass. A restore that has ended, and an object that is gone, are Done.
func (o *Operator) Reconcile(ctx context.Context, ref control.Ref) outcome.Outcome {
	p, err := o.begin(ctx, ref)
	if err != nil || p == nil || p.restore.DeletionTimestamp != nil {
		return outcome.Fail(err)
	}
	if p.unknown, err = o.unknown.Of(p.restore, func() ([]string, error) { return o.objects.UnknownFields(ctx, p.restore) }); err != nil {
		return outcome.Fail(err)
	}
	links, plan, approved := foundationdb.Gate(p.restore.Annotations, restore, p.copy)
	if p.plan = plan; approved {
		if err := p.disapprove(ctx); err != nil {
			return outcome.Fail(err)
		}
	}
	report := links.ReconcileAndSave(ctx, p, p.save)
	return p.next(report.Outcome())
}

// Plan says what the next pass would do.
func (o *Operator) Plan(ctx context.Context, ref control.Ref) ([]chain.Planned, error) {
	p, err := o.begin(ctx, ref)
	if err != nil || p == nil || p.restore.DeletionTimestamp != nil {
		return nil, err
	}
	links := restore
	if holds := foundationdb.Holds(p.restore.Annotations); holds != nil {
		links = links.Hold(holds)
	}
	return links.Plan(p), nil
}

// begin gathers the facts. There is no pass if the object is gone.
func (o *Operator) begin(ctx context.Context, ref control.Ref) (*pass, error) {
	var stored v1beta2.FoundationDBRestoreStatus
	f, found, err := o.gather(ctx, ref, &stored)
	if err != nil || !found {
		return nil, err
	}
	return &pass{Operator: o, facts: f, before: stored}, nil
}

// copy returns a pass that a plan may change.
func (p *pass) copy() *pass {
	c := *p
	c.restore = p.restore.DeepCopy()
	return &c
}

// disapprove removes the approval from the object, as it was read.
func (p *pass) disapprove(ctx context.Context) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": p.restore.ResourceVersion, "annotations": map[string]any{foundationdb.ApproveAnnotation: nil},
	}})
	if err != nil {
		return err
	}
	stored := p.restore.DeepCopy()
	if err := p.objects.Patch(ctx, stored, patch); err != nil {
		return err
	}
	p.restore.ResourceVersion, p.restore.Annotations = stored.ResourceVersion, stored.Annotations
	return nil
}

// save writes the status, if it has changed, and tells people of a new refusal.
func (p *pass) save(ctx context.Context, _ *pass, report chain.Report) error {
	s := &p.restore.Status
	s.ObservedGeneration = p.restore.Generation
	p.warn(report)
	conditions := p.conditions(report)
	s.Message = conditions[1].Message
	condition.Set(&s.Conditions, p.restore.Generation, p.now, conditions...)
	if equality.Semantic.DeepEqual(p.before, *s) {
		return nil
	}
	if err := p.objects.SaveStatus(ctx, p.restore); err != nil && !errors.Is(err, control.NotFound) {
		return err
	}
	p.tell()
	return nil
}

// next is the outcome with a delay: what nothing wakes is looked at again.
func (p *pass) next(out outcome.Outcome) outcome.Outcome {
	if out.IsFail() || out.IsDone() || out.After() > 0 {
		return out
	}
	return outcome.Later(p.options.Idle, out.Reason(), "%s", out.Message())
}

// run runs one call with the parameters, the credentials and the trace settings of the restore.
func (o *Operator) run(ctx context.Context, f *facts, call fdb.Call) port.Answer {
	call.LogDir, call.LogGroup, call.TraceFormat = o.options.LogDir, o.options.LogGroup, o.options.TraceFormat
	var parameters []string
	for _, p := range f.restore.Spec.CustomParameters {
		parameters = append(parameters, string(p))
	}
	call.Knobs = fdb.BackupKnobs(parameters)
	if call.Command == fdb.CommandStartRestore {
		call.Secrets = f.credentials
	}
	return o.database.Run(ctx, f.at, call)
}
