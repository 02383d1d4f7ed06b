package rollout

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/chain"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/kube/controller"
	"github.com/pawl-dev/pawl/kube/workload"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/rollout"
)

const (
	again     = 10 * time.Millisecond // after a conflict: observe and decide again
	quietSave = 5 * time.Second       // between writes that change only counts and messages
	pollKind  = 10 * time.Second      // for a kind that is not served: the operator may not watch their definitions
	pollTurn  = 5 * time.Second       // for the turn of a quorum that another process holds, and for evictions that are refused: nobody tells
	askAgain  = time.Second           // at least, while the API server does not answer
	afterAct  = time.Second           // until a write must have been seen; a patch that changes nothing has no event, and looking costs no call
	resync    = 10 * time.Minute      // of what moves
	maxBehind = time.Second           // until a cache that does not show the last write is passed over
	syncLimit = 10 * time.Second      // of a watch that begins
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
	{Name: "Ask", Run: ask},
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
	heard  int64 // when the event came that this pass looks at; 0: it is a timer's

	plan rollout.Plan
	was  rollout.Position // as it was loaded

	request   *rollout.Request
	annotated string // the annotation of the request, and its value
	value     string

	kind     rollout.Kind
	reader   *reader
	workload *workload.Workload
	target   *unstructured.Unstructured   // nil: it does not exist
	left     []*unstructured.Unstructured // the Deployments to leave that exist
	awaits   []workload.Ref               // that do not exist, or are those of another Rollout
	claimed  bool                         // a workload is that of another Rollout
	missing  string                       // a revision of an Application that does not exist
	recorded bool                         // the workloads are those of the recorded pair of revisions
	facts    rollout.Facts
	guarded  bool
	resting  string // what is seen, in case that the pass ends at rest

	refused  bool // the plan cannot be
	decided  bool
	decision rollout.Decision
	atRest   bool

	rehearsed bool // the annotation pawl.dev/dry-run keeps it from beginning
	preview   map[string]api.RolloutBatchPreview

	observedGeneration int64         // of the status before this pass
	postponed          bool          // counts and messages are written later
	soonest            time.Duration // until a call is made again; 0: none is
}

func (p *pass) rollout() *api.Rollout { return p.draft.Object }

func (p *pass) deleting() bool { return !p.rollout().DeletionTimestamp.IsZero() }

// Reconcile makes one pass over a Rollout.
func (o *Operator) Reconcile(ctx context.Context, ref control.Ref) outcome.Outcome {
	key := client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}
	m := o.rollouts.memory(key)
	draft, behind, err := o.read(ctx, key, m)
	if behind {
		m.behind++
		return outcome.Wait(again<<min(m.behind-1, 3), "CacheBehind", "the cache does not have the last write yet")
	}
	m.behind = 0
	switch {
	case errors.Is(err, control.NotFound):
		o.forget(key)
		o.metrics.stands(key, standing{})
		return outcome.Done()
	case fault.Of(err) == fault.APIUnavailable:
		return o.away(key, m, o.now().UTC(), err)
	case err != nil:
		return outcome.Fail(err)
	case !o.serves(draft.Object):
		o.forget(key)
		o.metrics.stands(key, standing{})
		return outcome.Done()
	}
	p := &pass{Operator: o, key: key, memory: m, draft: draft, now: o.now().UTC().Truncate(time.Microsecond)}
	report := links.ReconcileAndSave(ctx, p, func(ctx context.Context, p *pass, r chain.Report) error { return p.report(ctx, r.Outcome()) })
	out := report.Outcome()
	return p.outcome(out)
}

// read begins a pass: from the cache, unless the API server was away. Its end is seen by asking.
func (o *Operator) read(ctx context.Context, key client.ObjectKey, m *memory) (draft *controller.Draft[*api.Rollout], behind bool, err error) {
	if !m.inTouch() {
		draft, err = controller.Load(ctx, o.manager.Live(), o.cache.Client(), key, &api.Rollout{})
		if err == nil || errors.Is(err, control.NotFound) {
			m.found(o.now().UTC())
		}
		return draft, false, err
	}
	draft, behind, err = o.store.LoadCached(ctx, key)
	if behind && o.now().Sub(m.saved) >= maxBehind {
		draft, err = o.store.Load(ctx, key)
		behind = false
	}
	return draft, behind, err
}

// outcome is when the next pass comes.
func (p *pass) outcome(out outcome.Outcome) outcome.Outcome {
	switch {
	case out.IsFail() && fault.Of(out.Err()) == fault.WriteConflict:
		p.memory.heard.CompareAndSwap(0, p.heard)
		return outcome.Wait(again, "WriteConflict", "it was changed meanwhile")
	case out.IsFail() && fault.Of(out.Err()) == fault.APIUnavailable: // no growing delay: its end is not seen otherwise
		return p.Operator.away(p.key, p.memory, p.now, out.Err())
	case out.IsFail() && p.refused: // another spec is needed, not a retry
		return outcome.Done()
	case !out.IsDone() && !p.atRest:
		return out
	}
	return outcome.Done()
}

// away waits for an API server that does not answer, and logs the beginning of that.
func (o *Operator) away(key client.ObjectKey, m *memory, now time.Time, err error) outcome.Outcome {
	if m.lost(now) {
		o.log.Warn("the API server does not answer", "controller", "rollout", "key", key.String(), "error", err)
	}
	return outcome.Wait(askAgain+rand.N(askAgain), fault.APIUnavailable.Reason(), "%s", fault.Message(err)) //nolint:gosec // spreads retries
}

// load reads the position and the plan.
func load(_ context.Context, p *pass) outcome.Outcome {
	var err error
	if p.was, err = readPosition(&p.rollout().Status); err != nil {
		return outcome.Fail(err)
	}
	p.memory.enter(p.was, p.now)
	if p.plan, err = readPlan(p.rollout()); err == nil {
		err = p.served(p.plan)
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
