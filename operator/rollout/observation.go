package rollout

import (
	"context"
	"encoding/json"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/kube/workload"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/rollout"
)

// moves reports whether pods may move in a state: from verifyingSpec to the end.
func moves(s rollout.State) bool { return s != "" && s != rollout.Locating && !s.Terminal() }

// observe reads the facts, unless nothing has changed since the rollout came to rest.
func observe(ctx context.Context, p *pass) outcome.Outcome {
	if p.decided {
		return outcome.Done()
	}
	guarded, err := p.guard.stands(ctx, p.kind)
	if err != nil {
		return outcome.Fail(err)
	}
	if p.target != nil {
		p.guarded = guarded && p.target.GetAnnotations()[UnguardedAnnotation] == ""
		p.resting = p.fingerprint()
		if p.resting == p.memory.rested && !p.undelivered() {
			p.atRest = true
			return outcome.Wait(0, "AtRest", "nothing has changed")
		}
	}
	p.heard = p.memory.heard.Swap(0)
	p.memory.moving.Store(true) // from before the facts are read: what changes meanwhile wakes it again
	moving := moves(p.was.State)
	if (moving || p.beginning()) && p.target != nil {
		if err := p.watch(ctx); err != nil {
			return outcome.Fail(err)
		}
	}
	if p.workload.Target == (workload.Ref{}) { // no revision names it
		p.facts.Rollout = rollout.Identity{Namespace: p.key.Namespace, Name: p.key.Name, UID: string(p.rollout().UID)}
		return outcome.Done()
	}
	if !moving && p.unobserved() {
		p.waits(outcome.Wait(afterAct, rollout.WorkloadBusy.Reason(), "the controller of %s %s has not observed its newest generation yet", p.kind, p.target.GetName()))
		return outcome.Done()
	}
	if err := p.look(ctx); err != nil {
		return outcome.Fail(err)
	}
	return outcome.Done()
}

// look reads workload, pods and the members of the quorum.
func (p *pass) look(ctx context.Context) (err error) {
	if p.facts, err = p.workload.Observe(ctx); err != nil && fault.Of(err) != rollout.UnsupportedWorkload { // Next refuses the kind
		return err
	}
	p.memory.seen(p.facts.Pods)
	if p.request != nil && p.request.Verb == rollout.Retry { // what was seen before it does not count
		p.memory.asked.forgetProbes()
	}
	p.probed()
	q := p.quorum()
	if q == nil || !moves(p.was.State) {
		return nil
	}
	selector, err := selectorOf(q.Selector)
	if err != nil {
		return err
	}
	p.facts.Members, err = p.workload.Members(ctx, selector)
	return err
}

// unobserved reports whether the status of the workload is that of an older spec. At rest pods and
// revisions are read from the API server: they are not, before that can tell anything.
func (p *pass) unobserved() bool {
	if p.target == nil || p.deleting() || p.request != nil || holdsAlways(p.rollout()) && p.target.GetLabels()[workload.HeldLabel] == "" {
		return false // a hold does not wait
	}
	observed, _, _ := unstructured.NestedInt64(p.target.Object, "status", "observedGeneration")
	return observed < p.target.GetGeneration()
}

// beginning reports whether a rollout will probably begin: its watches list what is read at rest from the
// API server. They end with the pass if it does not.
func (p *pass) beginning() bool {
	if p.target == nil || p.unobserved() || p.deleting() {
		return false
	}
	current, _, _ := unstructured.NestedString(p.target.Object, "status", "currentRevision")
	update, _, _ := unstructured.NestedString(p.target.Object, "status", "updateRevision")
	return update != current
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
	for _, ref := range p.workload.Refs() {
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
		r.UID, r.Generation, r.Finalizers, p.deleting(), p.value, p.guarded, dryRun(r), r.Status.Sequence,
		o.GetUID(), o.GetGeneration(), o.GetDeletionTimestamp(), o.GetLabels(), o.GetOwnerReferences(),
		status["observedGeneration"], status["currentRevision"], status["updateRevision"], status["replicas"],
	})
	if err != nil {
		return ""
	}
	return string(text)
}
