package backups

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/flowfile"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Options of an operator. Store, Clusters and Repository are required.
type Options struct {
	Store    Store
	Clusters sharedstorage.ClusterStore
	Ports    port.Ports
	// Repository returns where a cluster keeps its backups: (*sharedstorage.Operator).Repository.
	Repository func(context.Context, *sharedstorage.Cluster) (*port.Repository, error)

	CallTimeout time.Duration // limit for one call of a port; default 10 s
	Interval    time.Duration // between passes over a backup that is not complete; default 10 s
	Now         func() time.Time
	Logger      *slog.Logger
}

// Operator reconciles backups. Its methods are safe for concurrent use.
type Operator struct {
	options Options
	machine *machine.Machine[*Backup]

	mu          sync.Mutex
	last        int
	subscribers map[int]func(control.Ref)
}

// New returns an operator. It works once Bind has given it an engine.
func New(o Options) (*Operator, error) {
	if o.Store == nil || o.Clusters == nil || o.Repository == nil || o.Ports.Engine == nil || o.Ports.Storage == nil || o.Ports.Instances == nil {
		return nil, errors.New("backups: Options needs Store, Clusters, Ports and Repository")
	}
	o.CallTimeout, o.Interval = cmp.Or(o.CallTimeout, 10*time.Second), cmp.Or(o.Interval, 10*time.Second)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return &Operator{options: o, subscribers: map[int]func(control.Ref){}}, nil
}

//go:embed flows/*.yaml
var files embed.FS

// Flows returns the flow of this package, for objects of its kind.
func (o *Operator) Flows() ([]workflow.Flow, error) {
	set, err := flowfile.LoadFS(files, "flows/*.yaml", flowfile.Options{Actions: o.Actions()})
	if err != nil {
		return nil, err
	}
	flows := set.Flows()
	for i := range flows {
		flows[i].Kind = Kind
	}
	return flows, nil
}

// Actions returns the steps under the names that the flow uses.
func (o *Operator) Actions() []workflow.Action {
	return []workflow.Action{
		{Name: "AwaitArchive", Do: o.do(awaitArchive)}, {Name: "CopyData", Do: o.do(copyData)}, {Name: "RecordBackup", Do: o.do(recordBackup)},
		{Name: "MarkExpired", Do: o.do(markExpired)}, {Name: "RecordVerified", Do: o.do(recordVerified)}, {Name: "VerifyBackup", Do: o.do(verifyBackup)},
	}
}

// Healers returns the healers of the faults that only backups have, with their limits per run. A
// backup fails when another instance becomes the writer, and is then taken there.
func (o *Operator) Healers() map[fault.Code]workflow.Healer {
	again := func(context.Context, *workflow.Task) outcome.Outcome { return outcome.Done() }
	return map[fault.Code]workflow.Healer{
		port.BackupFailed.Code:  {Do: again, Limits: workflow.Limits{Attempts: 3}},
		port.ArchiveFailed.Code: {Do: again, Limits: workflow.Limits{Attempts: 10}},
	}
}

// Bind makes the operator use an engine that has its Flows, Actions and Hook.
func (o *Operator) Bind(engine machine.Flows) error {
	m, err := machine.New(o.Table(), machine.Options[*Backup]{Objects: objects{o}, Flows: engine, Now: o.options.Now, Logger: o.options.Logger})
	o.machine = m
	return err
}

// Hook requests a pass over a backup when its run starts, pauses, resumes or ends.
func (o *Operator) Hook() workflow.Hook {
	relevant := []runtype.EventKind{runtype.RunStarted, runtype.RunPaused, runtype.RunResumed, runtype.RunCancelling, runtype.RunCancelled, runtype.RunSucceeded}
	return workflow.Hook{Name: "sharedstoragebackups", OnEvent: func(run workflow.RunInfo, e runtype.Event) {
		if !slices.Contains(relevant, e.Kind) || !strings.HasPrefix(run.Subject, Kind+"/") {
			return
		}
		if ref, _, err := refOf(run.Subject); err == nil {
			o.notify(ref)
		}
	}}
}

// Listen calls notify with each backup that needs a pass, until the context ends.
func (o *Operator) Listen(ctx context.Context, notify func(control.Ref)) {
	o.mu.Lock()
	o.last++
	id := o.last
	o.subscribers[id] = notify
	o.mu.Unlock()
	<-ctx.Done()
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.subscribers, id)
}

func (o *Operator) notify(ref control.Ref) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, notify := range o.subscribers {
		notify(ref)
	}
}

// refOf parses a subject: kind/namespace/name/uid.
func refOf(subject string) (ref control.Ref, uid string, err error) {
	if strings.Count(subject, "/") == 3 {
		cut := strings.LastIndexByte(subject, '/')
		subject, uid = subject[:cut], subject[cut+1:]
	}
	ref, err = control.ParseRef(subject)
	return ref, uid, err
}

// Reconcile makes one pass over a backup.
func (o *Operator) Reconcile(ctx context.Context, ref control.Ref) outcome.Outcome {
	if o.machine == nil {
		return outcome.Fail(errors.New("backups: the operator has no engine: call Bind first"))
	}
	b, err := o.options.Store.Load(ctx, ref.Namespace, ref.Name)
	if errors.Is(err, control.NotFound) {
		return outcome.Done()
	}
	if err != nil {
		return outcome.Fail(err)
	}
	before := b.Status
	b.refused = o.refusal(ctx, b)
	if rep := o.machine.PassFrom(ctx, ref, machine.Snapshot[*Backup]{Object: b}); !rep.Found || rep.Wrote {
		return rep.Outcome
	} else if rep.Object != nil {
		o.compute(rep.Object, rep.Position, rep.Run)
		if !equal(before, rep.Object.Status) {
			if err := o.options.Store.Save(ctx, rep.Object); err != nil {
				return outcome.Fail(err)
			}
		}
		if rep.Position.State != Completed && rep.Position.State != Cancelled && !rep.Outcome.IsFail() {
			return outcome.Wait(o.options.Interval, cmp.Or(rep.Outcome.Reason(), "NotComplete"), "%s", rep.Outcome.Message())
		}
		return rep.Outcome
	}
	return outcome.Done()
}

// refusal returns why a backup cannot be taken; nil if it can.
func (o *Operator) refusal(ctx context.Context, b *Backup) error {
	c, err := o.cluster(ctx, b)
	if errors.Is(err, control.NotFound) {
		return sharedstorage.SpecInvalid.Errorf("cluster: there is no %s %s", sharedstorage.Kind, b.Spec.Cluster)
	}
	if err == nil && c.Spec.Backup == nil {
		return sharedstorage.SpecInvalid.Errorf("cluster: %s has no spec.backup, which says where its backups go", b.Spec.Cluster)
	}
	return err
}

func (o *Operator) cluster(ctx context.Context, b *Backup) (*sharedstorage.Cluster, error) {
	return o.options.Clusters.Load(ctx, port.Ref{Namespace: b.Namespace, Name: b.Spec.Cluster})
}

// PlanFor returns what the next pass over a backup would do. It writes nothing.
func (o *Operator) PlanFor(ctx context.Context, b *Backup) (machine.Plan, error) {
	b.refused = o.refusal(ctx, b)
	p, err := o.machine.Plan(ctx, b)
	if err == nil && p.Act == machine.Rest && p.Code == "" && b.refused != nil {
		refused(&p, b.refused)
	}
	return p, err
}
