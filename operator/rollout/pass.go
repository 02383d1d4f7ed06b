package rollout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/chain"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/control/request"
	"github.com/pawl-dev/pawl/fault"
	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/kube/condition"
	"github.com/pawl-dev/pawl/kube/controller"
	"github.com/pawl-dev/pawl/kube/workload"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/rollout"
)

const (
	again      = 10 * time.Millisecond // after a conflict: observe and decide again
	quietSave  = 5 * time.Second       // between writes that change only counts and messages
	pollTarget = 10 * time.Second      // for a workload that no cache shows, as it has no label yet
	pollTurn   = 5 * time.Second       // for the turn of a quorum that another operator may hold
	askAgain   = time.Second           // at least, while the API server does not answer
	afterAct   = time.Second           // until a write must have been seen
	resync     = 10 * time.Minute      // of what moves
	maxBehind  = time.Second           // until a cache that does not show the last write is passed over
	syncLimit  = 10 * time.Second      // of a watch that begins
)

// links is one pass over a Rollout.
var links = chain.Chain[*pass]{
	{Name: "Load", Run: load},
	{Name: "Accept", Run: accept},
	{Name: "Locate", Run: locate},
	{Name: "Observe", Run: observe},
	{Name: "Decide", Run: decide},
	{Name: "Save", Run: save},
	{Name: "Act", Run: act},
	{Name: "Answer", Run: answer},
	{Name: "Release", Run: release},
}

// pass is what one pass knows.
type pass struct {
	*Operator
	key    client.ObjectKey
	memory *memory
	draft  *controller.Draft[*api.Rollout]
	now    time.Time

	plan rollout.Plan
	was  rollout.Position // as it was loaded

	request   *rollout.Request
	annotated string // the annotation of the request, and its value
	value     string

	kind     rollout.Kind
	reader   *reader
	workload *workload.Workload
	target   *unstructured.Unstructured // nil: it does not exist
	facts    rollout.Facts
	guarded  bool
	resting  string // what is seen, in case that the pass ends at rest

	refused  bool // the plan cannot be
	decided  bool
	decision rollout.Decision
	atRest   bool

	observedGeneration int64 // of the status before this pass
	postponed          bool  // counts and messages are written later
}

func (p *pass) rollout() *api.Rollout { return p.draft.Object }

func (p *pass) deleting() bool { return !p.rollout().DeletionTimestamp.IsZero() }

// Reconcile makes one pass over a Rollout.
func (o *Operator) Reconcile(ctx context.Context, ref control.Ref) outcome.Outcome {
	key := client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}
	m := o.memoryOf(key)
	draft, behind, err := o.store.LoadCached(ctx, key)
	if behind && o.now().Sub(m.saved) < maxBehind {
		return outcome.Wait(again, "CacheBehind", "the cache does not have the last write yet")
	}
	if behind {
		draft, err = o.store.Load(ctx, key)
	}
	switch {
	case errors.Is(err, control.NotFound):
		o.forget(key)
		o.metrics.state(key, "")
		return outcome.Done()
	case err != nil:
		return outcome.Fail(err)
	case !o.serves(draft.Object):
		o.forget(key)
		return outcome.Done()
	}
	p := &pass{Operator: o, key: key, memory: m, draft: draft, now: o.now().UTC().Truncate(time.Microsecond)}
	report := links.ReconcileAndSave(ctx, p, func(ctx context.Context, p *pass, r chain.Report) error { return p.report(ctx, r.Outcome()) })
	out := report.Outcome()
	p.memory.outage(out.IsFail() && fault.Of(out.Err()).Uncharged, p.was, p.now)
	return p.outcome(out)
}

// outcome is when the next pass comes.
func (p *pass) outcome(out outcome.Outcome) outcome.Outcome {
	switch {
	case out.IsFail() && fault.Of(out.Err()) == fault.WriteConflict:
		return outcome.Wait(again, "WriteConflict", "it was changed meanwhile")
	case out.IsFail() && fault.Of(out.Err()) == fault.APIUnavailable: // no growing delay: its end is not seen otherwise
		return p.away(out.Err())
	case out.IsFail() && p.refused: // another spec is needed, not a retry
		return outcome.Done()
	case !out.IsDone() && !p.atRest:
		return out
	}
	return outcome.Done()
}

// away waits for an API server that does not answer, and logs the beginning of that.
func (p *pass) away(err error) outcome.Outcome {
	if p.memory.away.Equal(p.now) {
		p.log.Warn("the API server does not answer", "controller", "rollout", "key", p.key.String(), "error", err)
	}
	return outcome.Wait(askAgain+rand.N(askAgain), fault.APIUnavailable.Reason(), "%s", fault.Message(err)) //nolint:gosec // spreads retries
}

// load reads the position and the plan.
func load(_ context.Context, p *pass) outcome.Outcome {
	var err error
	if p.was, err = readPosition(&p.rollout().Status); err != nil {
		return outcome.Fail(err)
	}
	if p.plan, err = readPlan(p.rollout()); err == nil {
		err = unserved(p.plan)
	}
	switch {
	case err == nil:
	case p.deleting(): // the position is enough to let go
		p.plan = rollout.Plan{}
	default:
		p.refused = true
		return outcome.Fail(err)
	}
	return outcome.Done()
}

// unserved refuses what no part of the operator asks yet.
func unserved(p rollout.Plan) error {
	refuse := func(field string) error {
		return rollout.FieldNotHonoured.Errorf("%s: this version of the operator does not ask it", field).With("field", field)
	}
	switch {
	case len(p.RolloutWebhooks) > 0:
		return refuse("rolloutWebhooks")
	case len(p.CanaryMetric) > 0:
		return refuse("canaryMetric")
	case len(p.Gates) > 0:
		return refuse("gates")
	case len(p.Probes) > 0:
		return refuse("probes")
	case p.Order != nil && p.Order.Handover != nil:
		return refuse("order.handover")
	}
	for i, b := range p.RolloutBatches {
		if len(b.BatchRolloutWebhooks)+len(b.CanaryMetric)+len(b.Gates) > 0 {
			return refuse(fmt.Sprintf("rolloutBatches[%d]: its webhooks, metrics and gates", i))
		}
	}
	return nil
}

// accept takes one request: it is stamped before it counts, and removed when it is answered.
func accept(ctx context.Context, p *pass) outcome.Outcome {
	r := p.rollout()
	answered := func(id string) bool { return r.Status.LastRequest != nil && r.Status.LastRequest.ID == id }
	for _, v := range verbs {
		key := annotationOf(v)
		value := r.Annotations[key]
		switch request.Next(value, answered) {
		case request.RemoveIt:
			if err := p.store.Annotate(ctx, p.draft, key, value, ""); err != nil {
				return outcome.Fail(err)
			}
			r = p.rollout()
		case request.StampIt:
			if p.request != nil {
				continue
			}
			stamped := stamp(v, value, r.Status.Pause)
			if err := p.store.Annotate(ctx, p.draft, key, value, stamped); err != nil {
				return outcome.Fail(err)
			}
			r = p.rollout()
			p.take(v, key, stamped)
		case request.AcceptIt:
			if p.request == nil {
				p.take(v, key, value)
			}
		case request.Ignore:
		}
	}
	return outcome.Done()
}

func (p *pass) take(v rollout.Verb, key, value string) {
	asked := parseRequest(v, value)
	p.request, p.annotated, p.value = &asked, key, value
}

// locate finds the workload and labels it: from then on a cache holds it.
func locate(ctx context.Context, p *pass) outcome.Outcome {
	spec := p.rollout().Spec
	p.kind = kindOf(spec.TargetRef)
	p.reader = &reader{Client: p.cache.Client(), cached: p.cache.Cache, live: p.manager.Live(), memory: p.memory, now: p.Operator.now}
	p.workload = &workload.Workload{Client: p.reader, Live: p.manager.Live(), Rollout: identity(p.rollout()), Target: refOf(spec.TargetRef)}
	if d := p.plan.Disruption; d != nil {
		p.workload.ZoneKey = d.ZoneKey
	}
	if o := p.plan.Order; o != nil {
		p.workload.RoleLabel = o.RoleLabel
	}
	if spec.SourceRef != nil {
		source := refOf(*spec.SourceRef)
		p.workload.Source = &source
	}
	if _, err := workload.KindOf(spec.TargetRef.APIVersion, spec.TargetRef.Kind); err != nil {
		return outcome.Done() // Decide refuses it
	}
	for _, ref := range p.refs() {
		o, err := p.workload.Read(ctx, ref)
		switch {
		case fault.Of(err) == rollout.KindNotServed:
			return outcome.Done()
		case err != nil:
			return outcome.Fail(err)
		case o == nil:
			continue
		case ref == p.workload.Target:
			p.target = o
		}
		if out := p.label(ctx, o); !out.IsDone() {
			return out
		}
	}
	return outcome.Done()
}

func (p *pass) refs() []workload.Ref {
	all := []workload.Ref{p.workload.Target}
	if p.workload.Source != nil {
		all = append(all, *p.workload.Source)
	}
	return all
}

func refOf(r api.WorkloadRef) workload.Ref {
	return workload.Ref{APIVersion: r.APIVersion, Kind: r.Kind, Name: r.Name}
}

// label marks the workload as that of this Rollout. Of two Rollouts that name one workload the older
// one works, unless the other has claimed it already.
func (p *pass) label(ctx context.Context, o *unstructured.Unstructured) outcome.Outcome {
	name := o.GetLabels()[workload.RolloutLabel]
	if name == p.key.Name || p.deleting() {
		return outcome.Done()
	}
	if name != "" {
		other := &api.Rollout{}
		err := p.manager.Live().Get(ctx, client.ObjectKey{Namespace: p.key.Namespace, Name: name}, other)
		switch {
		case errors.Is(err, control.NotFound):
		case err != nil:
			return outcome.Fail(err)
		case names(other, o) && (p.older(other) || claims(other, o)):
			p.waits(outcome.Wait(0, rollout.ClaimedByOther.Reason(), "%s %s is that of Rollout %s", o.GetKind(), o.GetName(), name))
			return outcome.Done()
		}
	}
	if err := p.workload.Label(ctx, o, p.key.Name); err != nil {
		return outcome.Fail(err)
	}
	return outcome.Done()
}

// names reports whether a Rollout refers to a workload.
func names(r *api.Rollout, o *unstructured.Unstructured) bool {
	refs := []api.WorkloadRef{r.Spec.TargetRef}
	if r.Spec.SourceRef != nil {
		refs = append(refs, *r.Spec.SourceRef)
	}
	return slices.ContainsFunc(refs, func(ref api.WorkloadRef) bool { return ref.Kind == o.GetKind() && ref.Name == o.GetName() })
}

func claims(r *api.Rollout, o *unstructured.Unstructured) bool {
	owner := metav1.GetControllerOf(o)
	return owner != nil && owner.UID == r.UID
}

// older reports whether another Rollout is older than this one.
func (p *pass) older(other *api.Rollout) bool {
	mine, its := p.rollout().CreationTimestamp, other.CreationTimestamp
	return its.Before(&mine) || its.Equal(&mine) && other.Name < p.key.Name
}

// waits ends the decision with a wait that Next knows nothing of.
func (p *pass) waits(out outcome.Outcome) {
	at := p.was
	since := p.now
	if w := at.Waiting; w != nil && w.Reason == out.Reason() {
		since = w.Since
	}
	if at.State == "" {
		at.State, at.BatchState = rollout.Locating, rollout.BatchInitializing
	}
	at.Waiting = &rollout.Waiting{Reason: out.Reason(), Message: out.Message(), Since: since}
	p.decided, p.decision = true, rollout.Decision{Position: at, Outcome: out}
}

// moves reports whether pods may move in a state: from verifyingSpec to the end.
func moves(s rollout.State) bool { return s != "" && s != rollout.Locating && !s.Terminal() }

// observe reads the facts, unless nothing has changed since the rollout came to rest.
func observe(ctx context.Context, p *pass) outcome.Outcome {
	if p.decided {
		return outcome.Done()
	}
	guarded, err := p.guard.stands(ctx)
	if err != nil {
		return outcome.Fail(err)
	}
	if p.target != nil {
		p.guarded = guarded && p.target.GetAnnotations()[UnguardedAnnotation] == ""
		p.resting = p.fingerprint()
		if p.resting == p.memory.rested {
			p.atRest = true
			return outcome.Wait(0, "AtRest", "nothing has changed")
		}
	}
	moving := moves(p.was.State)
	p.memory.moving.Store(moving)
	if moving && p.target != nil {
		if err := p.watch(ctx); err != nil {
			return outcome.Fail(err)
		}
	}
	if p.facts, err = p.workload.Observe(ctx); err != nil {
		return outcome.Fail(err)
	}
	p.memory.seen(p.facts.Pods)
	if q := p.quorum(); q != nil && moving {
		selector, err := selectorOf(q.Selector)
		if err != nil {
			return outcome.Fail(err)
		}
		if p.facts.Members, err = p.workload.Members(ctx, selector); err != nil {
			return outcome.Fail(err)
		}
	}
	return outcome.Done()
}

func (p *pass) quorum() *rollout.Quorum {
	if p.plan.Disruption == nil {
		return nil
	}
	return p.plan.Disruption.Quorum
}

// watch reads pods and revisions from watches from now on.
func (p *pass) watch(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, syncLimit)
	defer cancel()
	p.reader.dependents = map[string]client.Reader{}
	for _, ref := range p.refs() {
		o, err := p.workload.Read(ctx, ref)
		if err != nil {
			return err
		}
		if o == nil {
			continue
		}
		selector, err := workload.SelectorOf(o)
		if err != nil {
			return err
		}
		if p.reader.dependents[selector.String()], err = p.dependents.Workload(ctx, p.key, p.kind, selector); err != nil {
			return err
		}
	}
	q := p.quorum()
	if q == nil {
		return nil
	}
	selector, err := selectorOf(q.Selector)
	if err != nil || p.reader.dependents[selector.String()] != nil {
		return err
	}
	p.reader.dependents[selector.String()], err = p.dependents.Pods(ctx, p.key, selector)
	return err
}

// fingerprint is what a rollout at rest depends on.
func (p *pass) fingerprint() string {
	o, r := p.target, p.rollout()
	status, _, _ := unstructured.NestedMap(o.Object, "status")
	text, err := json.Marshal([]any{
		r.UID, r.Generation, p.deleting(), p.value, p.guarded, r.Status.Sequence,
		o.GetUID(), o.GetGeneration(), o.GetDeletionTimestamp(), o.GetLabels(), o.GetOwnerReferences(),
		status["observedGeneration"], status["currentRevision"], status["updateRevision"], status["replicas"],
	})
	if err != nil {
		return ""
	}
	return string(text)
}

// decide asks rollout.Next, once more when the turn of a quorum is needed and was granted.
func decide(ctx context.Context, p *pass) outcome.Outcome {
	if p.decided {
		return outcome.Done()
	}
	f := &p.facts
	f.Wanted = p.wanted()
	f.Unavailable = rollout.Duration(p.memory.unavailable)
	if f.Target != nil {
		f.Target.Guarded = p.guarded
		if f.Target.Template == workload.Unobserved && !moves(p.was.State) {
			p.waits(outcome.Wait(time.Second, rollout.WorkloadBusy.Reason(), "%s %s has no revision of its template yet", p.kind, f.Target.Name))
			return outcome.Done()
		}
	}
	q := p.quorum()
	if q != nil {
		f.Turn = &rollout.Turn{Mine: !p.memory.turn.IsZero()}
		if f.Turn.Mine {
			turn, err := p.turns.take(ctx, p.rollout(), q, p.memory, p.now)
			if err != nil {
				return outcome.Fail(err)
			}
			f.Turn = turn
		}
	}
	p.decision = rollout.Next(p.plan, p.was, *f, p.now)
	if q != nil && p.decision.Outcome.Reason() == "QuorumTurn" {
		turn, err := p.turns.take(ctx, p.rollout(), q, p.memory, p.now)
		if err != nil {
			return outcome.Fail(err)
		}
		f.Turn = turn
		p.decision = rollout.Next(p.plan, p.was, *f, p.now)
	}
	p.decided = true
	return outcome.Done()
}

// wanted is what the Rollout asks for. The target is the template that the workload has; while its
// controller has made no revision of that, the recorded one counts.
func (p *pass) wanted() rollout.Wanted {
	r := p.rollout()
	w := rollout.Wanted{
		Kind: p.kind, TargetSize: p.plan.TargetSize, HasSource: r.Spec.SourceRef != nil, HoldAlways: r.Spec.Hold != "DuringRollout",
		DeletionPolicy: rollout.DeletionPolicy(r.Spec.DeletionPolicy), Deleting: p.deleting(), Request: p.request, TargetRevision: p.was.TargetRevision,
	}
	if t := p.facts.Target; t != nil && t.ObservedGeneration >= t.Generation && t.Template != workload.Unobserved && t.Template != "" {
		w.TargetRevision = t.Template
	}
	return w
}

// save writes position, history and conditions, before anything is done.
func save(ctx context.Context, p *pass) outcome.Outcome {
	if err := p.fill(p.decision.Outcome); err != nil {
		return outcome.Fail(err)
	}
	if p.unimportant() && p.draft.Changed() {
		p.postponed = true
		return outcome.Done()
	}
	if err := p.archive(ctx, p.rollout()); err != nil {
		return outcome.Fail(err)
	}
	if err := p.write(ctx); err != nil {
		return outcome.Fail(err)
	}
	p.metrics.moved(p.key, p.was, p.decision.Position, p.decision.Records, p.now)
	p.Operator.report(p.rollout(), p.decision)
	return outcome.Done()
}

func (p *pass) write(ctx context.Context) error {
	if !p.draft.Changed() && slices.Contains(p.rollout().Finalizers, Finalizer) {
		return nil
	}
	if err := p.store.Save(ctx, p.draft, true); err != nil {
		return err
	}
	p.memory.saved = p.now
	return nil
}

// unimportant reports whether only counts and messages have changed, a moment after the last write.
func (p *pass) unimportant() bool {
	if len(p.decision.Records) > 0 || len(p.decision.Acts) > 0 || p.memory.saved.IsZero() || p.now.Sub(p.memory.saved) >= quietSave {
		return false
	}
	strip := func(at rollout.Position) rollout.Position {
		at.Upgraded, at.UpgradedReady = 0, 0
		if at.Waiting != nil {
			w := *at.Waiting
			w.Message = ""
			if passing[w.Reason] {
				w = rollout.Waiting{}
			}
			at.Waiting = &w
		}
		return at
	}
	return reflect.DeepEqual(strip(p.was), strip(p.decision.Position)) && p.rollout().Status.ObservedGeneration == p.rollout().Generation && p.observedGeneration == p.rollout().Generation
}

// passing are waits that follow each other by themselves after a release.
var passing = map[string]bool{"Applying": true, rollout.WorkloadBusy.Reason(): true, "PodsNotReady": true, "PodsNotGone": true}

// fill makes the status that of the decision.
func (p *pass) fill(out outcome.Outcome) error {
	s, at := &p.rollout().Status, p.decision.Position
	p.observedGeneration = s.ObservedGeneration
	if err := writePosition(s, at); err != nil {
		return err
	}
	if err := addRecords(s, p.decision.Records); err != nil {
		return err
	}
	p.describe(at, out)
	if t := p.facts.Target; t != nil {
		s.Replicas = new(int32(t.Replicas))
		if n := len(p.facts.Sources); n > 0 && at.TargetSize != nil {
			all := t.Replicas
			for _, source := range p.facts.Sources {
				all += source.Replicas
			}
			s.Replicas = new(int32(min(all, *at.TargetSize)))
		}
		if selector, err := workload.SelectorOf(p.target); err == nil {
			s.Selector = selector.String()
		}
	}
	return nil
}

// describe fills what is for people.
func (p *pass) describe(at rollout.Position, out outcome.Outcome) {
	r := p.rollout()
	reading := reading{at: at, out: out, guarded: p.guarded, now: p.now}
	if t := p.facts.Target; t != nil {
		reading.observed, reading.held = true, t.Held
	}
	condition.Set(&r.Status.Conditions, r.Generation, p.now, reading.conditions()...)
	r.Status.ObservedGeneration, r.Status.Summary = r.Generation, summary(at, reading.remedy())
}

// act does the writes of the decision.
func act(ctx context.Context, p *pass) outcome.Outcome {
	for _, a := range p.decision.Acts {
		err := p.workload.Apply(ctx, a)
		switch {
		case err == nil && a.Evict != nil:
			p.memory.removed[a.Evict.UID] = true
		case err == nil && a.Delete != nil:
			p.memory.removed[a.Delete.UID] = true
		case err == nil:
		case fault.Of(err) == rollout.WorkloadBusy:
			return outcome.Wait(pollTurn, "DisruptionBudget", "%s", fault.Message(err))
		default:
			return outcome.Fail(err)
		}
	}
	return outcome.Done()
}

// answer removes the annotation of the request, as its answer is saved.
func answer(ctx context.Context, p *pass) outcome.Outcome {
	if last := p.rollout().Status.LastRequest; p.request == nil || last == nil || last.ID != p.request.ID {
		return outcome.Done()
	}
	if err := p.store.Annotate(ctx, p.draft, p.annotated, p.value, ""); err != nil {
		return outcome.Fail(err)
	}
	return outcome.Done()
}

// release gives back what is not needed any more: the turn, the watches, and a Rollout that is deleted.
// Its outcome is that of the pass.
func release(ctx context.Context, p *pass) outcome.Outcome {
	at, d := p.decision.Position, p.decision
	if q := p.quorum(); q != nil && !p.memory.turn.IsZero() && !releasing(at) {
		if err := p.turns.release(ctx, p.rollout(), q, p.memory); err != nil {
			return outcome.Fail(err)
		}
		p.wakeOthers()
	}
	if !moves(at.State) {
		p.memory.moving.Store(false)
		p.dependents.Release(p.key)
	}
	done := len(d.Acts) == 0 && at.State.Terminal() && d.Outcome.IsDone()
	if done && p.deleting() {
		return p.letGo(ctx)
	}
	idle := done || len(d.Acts) == 0 && at.State == rollout.Locating && d.Outcome.Reason() == rollout.NothingToRoll.Reason()
	if idle && p.facts.Target != nil && p.facts.Target.ObservedGeneration >= p.facts.Target.Generation && len(p.facts.Target.Template) > 0 {
		p.resting = p.fingerprint()
		p.memory.rested = p.resting
		return outcome.Done()
	}
	p.memory.rested = ""
	return p.next(d)
}

// releasing reports whether the turn is still needed: from a release until its pods are back.
func releasing(at rollout.Position) bool {
	return (at.State == rollout.InBatch || at.State == rollout.RollingBack) &&
		(at.BatchState == rollout.BatchInRolling || at.BatchState == rollout.BatchVerifying && at.Verified == nil)
}

// next is when the decision is made again without an event.
func (p *pass) next(d rollout.Decision) outcome.Outcome {
	out := d.Outcome
	if !out.IsWait() {
		return out
	}
	after := resync
	switch {
	case len(d.Acts) > 0:
		after = afterAct
	case out.Reason() == "QuorumTurn":
		after = pollTurn
	case !p.memory.turn.IsZero():
		after = turnDuration / 3
	case p.target == nil, out.Reason() == rollout.ClaimedByOther.Reason():
		after = pollTarget
	case p.postponed:
		after = quietSave
	}
	if out.After() > 0 {
		after = min(after, out.After())
	}
	return outcome.Wait(after, out.Reason(), "%s", out.Message())
}

// wakeOthers tells the Rollouts of the namespace that a turn is free.
func (p *pass) wakeOthers() {
	for _, key := range p.movingIn(context.Background(), p.rollout()) {
		if key != p.key {
			p.wake(key)
		}
	}
}

// letGo takes the label off the workload and the finalizer off the Rollout.
func (p *pass) letGo(ctx context.Context) outcome.Outcome {
	for _, ref := range p.refs() {
		o, err := p.workload.Read(ctx, ref)
		switch {
		case fault.Of(err) == rollout.KindNotServed, fault.Of(err) == rollout.UnsupportedWorkload, o == nil && err == nil:
			continue
		case err != nil:
			return outcome.Fail(err)
		case o.GetLabels()[workload.RolloutLabel] != p.key.Name:
			continue
		}
		left := ""
		if o.GetLabels()[workload.HeldLabel] != "" {
			left = fmt.Sprintf("Rollout %s was deleted in the middle: pods have two revisions, and the partition keeps them. Set spec.updateStrategy.rollingUpdate.partition, and remove the label %s.", p.key.Name, workload.HeldLabel)
			p.events.Warn(o, "LeftInTheMiddle", "%s", left)
		}
		if err := p.workload.Unlabel(ctx, o, left); err != nil {
			return outcome.Fail(err)
		}
	}
	if err := p.store.Release(ctx, p.draft); err != nil && !errors.Is(err, control.NotFound) {
		return outcome.Fail(err)
	}
	p.forget(p.key)
	return outcome.Done()
}

// report writes what the links after the last write have met: a failure, or a refused eviction.
func (p *pass) report(ctx context.Context, out outcome.Outcome) error {
	if p.atRest || out.IsDone() || out.IsFail() && fault.Of(out.Err()).Uncharged {
		return nil
	}
	at := p.was
	if p.decided {
		at = p.decision.Position
	}
	switch {
	case out.IsFail():
	case out.Reason() == "DisruptionBudget" && p.decided && at.Waiting != nil:
		w := *at.Waiting
		w.Reason, w.Message = out.Reason(), out.Message()
		at.Waiting = &w
		if err := writePosition(&p.rollout().Status, at); err != nil {
			return err
		}
	default:
		return nil
	}
	p.describe(at, out)
	return p.write(ctx)
}
