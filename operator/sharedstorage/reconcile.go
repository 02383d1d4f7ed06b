package sharedstorage

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/control/request"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Reconcile makes one pass over a cluster: it accepts requests, observes through the ports once,
// lets the machine act once, repairs what needs no run, and writes the status once. Any caller may
// call it at any time. Wait means that a run is working or that something must happen first; Later
// means that the cluster rests until the next pass; Done means that the cluster is gone or belongs
// to another operator.
func (o *Operator) Reconcile(ctx context.Context, ref control.Ref) outcome.Outcome {
	began := time.Now()
	out := o.reconcile(ctx, ref)
	if o.options.Metrics != nil {
		o.options.Metrics.Pass(time.Since(began))
	}
	return out
}

func (o *Operator) reconcile(ctx context.Context, ref control.Ref) outcome.Outcome {
	if o.machine == nil {
		return outcome.Fail(errors.New("sharedstorage: the operator has no engine: call Engine or Bind first"))
	}
	c, err := o.load(ctx, ref)
	if errors.Is(err, control.NotFound) {
		o.watches.stop(ref)
		cluster := ref.Namespace + "/" + ref.Name
		o.managerMoves.Forget(cluster)
		o.managerConverted.Forget(cluster)
		o.certificatesFound.Forget(cluster)
		o.declared.Forget(ref.Namespace, ref.Name)
		return outcome.Done()
	}
	if err != nil {
		return outcome.Fail(err)
	}
	if o.options.Name != "" && c.Spec.OperatorName != o.options.Name {
		return outcome.Done()
	}
	c.Facts = o.observe(ctx, c)
	o.watchManager(ref, c)
	o.restore(ctx, c)
	o.ensureCertificate(ctx, c)
	before := snap(c)
	// The requests are written before the machine decides by them.
	if err := o.accept(ctx, c); err != nil {
		return outcome.Fail(err)
	}
	o.fit(ctx, c)
	if len(c.Status.Conditions) == 0 || !before.equal(c) {
		p, err := positionOf(c)
		if err != nil {
			return outcome.Fail(machine.PositionInvalid.Errorf("%w", err))
		}
		former, seen := c.Status.Conditions, c.Status.ObservedGeneration
		o.compute(c, view{position: p})
		if len(former) > 0 { // nothing is decided about the new spec yet: keep the conditions of the old one
			c.Status.Conditions, c.Status.ObservedGeneration = former, seen
		}
		if err := o.save(ctx, c, before); err != nil {
			return outcome.Fail(err)
		}
	}
	if err := o.release(ctx, c); err != nil {
		return outcome.Fail(err)
	}
	out := o.move(ctx, ref, c)
	if out.IsFail() && !c.DeletedAt.IsZero() {
		return o.deleteWithoutRun(ctx, ref, out.Err())
	}
	return out
}

// move lets the machine act once on the observed cluster, then writes the result.
func (o *Operator) move(ctx context.Context, ref control.Ref, observed *Cluster) outcome.Outcome {
	rep := o.machine.PassFrom(ctx, ref, machine.Snapshot[*Cluster]{Object: observed})
	if !rep.Found || rep.Wrote {
		return rep.Outcome
	}
	c, run := rep.Object, rep.Run
	before := snap(c)
	repaired := o.repair(ctx, c, rep.Position, run)
	o.compute(c, view{position: rep.Position, run: run, out: rep.Outcome})
	if err := o.save(ctx, c, before); err != nil {
		return outcome.Fail(err)
	}
	return o.next(c, rep, repaired)
}

func (o *Operator) runOf(ctx context.Context, p machine.Position) (*runtype.Run, error) {
	if p.Run == "" {
		return nil, nil
	}
	run, err := o.engine.Get(ctx, p.Run)
	if errors.Is(err, workflow.RunNotFound) {
		return nil, nil
	}
	return run, err
}

// next returns when the next pass is due.
func (o *Operator) next(c *Cluster, rep machine.Report[*Cluster], repaired bool) outcome.Outcome {
	out, interval := rep.Outcome, o.options.IdleInterval
	if place := o.machine.Table().States[rep.Position.State]; place.Final() {
		return outcome.Done()
	} else if place.Transient() {
		interval = o.options.RunInterval
	}
	if next := c.nextBackup(); !next.IsZero() && !sleeps(rep.Position) {
		interval = min(interval, max(next.Sub(c.Facts.At), time.Second))
	}
	if repaired {
		interval = 2 * time.Second
	}
	for i := range c.Facts.Instances { // the next pass is due when an instance has failed for FailedAfter
		in := &c.Facts.Instances[i]
		health, _ := c.Facts.health(in)
		if since, before := c.failedSince(in, health); health == Failed && before {
			if left := o.options.FailedAfter - c.Facts.At.Sub(since); left > 0 {
				interval = min(interval, left)
			}
		} else if health == Starting || health == Failed {
			interval = min(interval, o.options.RunInterval)
		}
	}
	if len(c.Facts.Unknown) > 0 {
		interval = min(interval, o.options.RunInterval)
	}
	if d := c.Facts.declared; d != nil && d.Next > 0 {
		interval = min(interval, d.Next)
	}
	switch {
	case out.IsFail():
		return out
	case out.IsWait():
		if out.After() > 0 && out.After() < interval {
			interval = out.After()
		}
		return outcome.Wait(interval, out.Reason(), "%s", out.Message())
	}
	if out.IsLater() && out.After() > 0 {
		interval = min(interval, out.After())
	}
	return outcome.Later(interval, cmp.Or(laterReason(out), "Rests"), "%s", cmp.Or(out.Message(), "all that was asked for is done"))
}

func laterReason(out outcome.Outcome) string {
	if out.IsLater() {
		return out.Reason()
	}
	return ""
}

// Plan returns what the next pass over a cluster would do if its requests are accepted. It writes
// nothing.
func (o *Operator) Plan(ctx context.Context, ref control.Ref) (machine.Plan, error) {
	if o.machine == nil {
		return machine.Plan{}, errors.New("sharedstorage: the operator has no engine: call Engine or Bind first")
	}
	c, err := o.load(ctx, ref)
	if err != nil {
		return machine.Plan{}, err
	}
	return o.PlanFor(ctx, c)
}

// PlanFor is Plan for a cluster that need not be stored.
func (o *Operator) PlanFor(ctx context.Context, c *Cluster) (machine.Plan, error) {
	c.Kind = cmp.Or(c.Kind, Kind)
	c.Facts = o.observe(ctx, c)
	o.fit(ctx, c)
	refused := c.refusal()
	for _, kind := range Requests {
		value := c.Annotations[Prefix+kind]
		if next := request.Next(value, c.accepted); next != request.StampIt && next != request.AcceptIt {
			continue
		}
		args, id := request.Parse(value)
		if err := c.checkRequest(kind, args); err != nil {
			refused = err
			continue
		}
		c.Status.Requests = append(c.Status.Requests, v1alpha1.RequestStatus{ID: cmp.Or(id, "new"), Kind: kind, Args: args, State: Pending})
	}
	p, err := o.machine.Plan(ctx, c)
	if err == nil && p.Act == machine.Rest && p.Code == "" && refused != nil { // nothing would happen because the spec or a request would be refused
		kind := fault.Of(refused)
		p.Why, p.Code, p.Remedy = fault.Message(refused), kind.Code, kind.Remedy
	}
	if err == nil && p.State == Hibernated && p.Act == machine.Rest && p.Code == "" {
		p.Why = "the cluster is hibernated: what the spec asks for is done when it wakes"
	}
	return p, err
}

// Resume continues a cluster that is Interrupted without a run to resume. Otherwise it returns
// NOT_HELD.
func (o *Operator) Resume(ctx context.Context, ref control.Ref) error {
	return o.machine.Resume(ctx, ref)
}

// Object is for workflow.Options.Object: the conditions of waits read the cluster as {metadata,
// spec, status}. A missing cluster is null.
func (o *Operator) Object(ctx context.Context, subject string) (json.RawMessage, error) {
	ref, _, err := refOf(subject)
	if err != nil || o.stores[ref.Kind] == nil {
		return json.RawMessage("null"), nil //nolint:nilerr // the subject of a run need not be a cluster
	}
	c, err := o.load(ctx, ref)
	if errors.Is(err, control.NotFound) {
		return json.RawMessage("null"), nil
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"namespace": c.Ref.Namespace, "name": c.Ref.Name, "uid": c.Ref.UID, "generation": c.Generation, "annotations": c.Annotations},
		"spec":     c.Spec, "status": c.Status,
	})
}
