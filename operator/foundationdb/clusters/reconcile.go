package clusters

import (
	"context"
	"errors"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pawl-dev/pawl/chain"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters/internal/groups"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters/internal/stored"
	"github.com/pawl-dev/pawl/operator/foundationdb/port"
	"github.com/pawl-dev/pawl/outcome"
)

// Reconcile makes one pass over a cluster. Done: it is as it should be, or gone, or skipped. Wait and
// Later say what it waits for. Fail is left to trouble with the API server and to panics.
func (o *Operator) Reconcile(ctx context.Context, ref control.Ref) outcome.Outcome {
	p, err := o.begin(ctx, ref)
	switch {
	case err != nil:
		return outcome.Fail(err)
	case p == nil:
		return outcome.Done()
	case p.stored.Spec.Skip:
		p.pause()
		return outcome.Fail(p.save(ctx))
	}
	switch p.memory.peer.Judge(p.stored, p.stored.Annotations[AdoptedAnnotation]) {
	case stored.Stale:
		return outcome.Later(time.Second, "ReadLate", "the cluster that was read is older than the one that was stored")
	case stored.Foreign:
		return p.yield(ctx)
	case stored.Current:
		if p.memory.pruned.Recall(&p.stored.Status) {
			p.cluster.Status = *p.stored.Status.DeepCopy()
			p.index()
		}
	}
	if err := p.gather(ctx); err != nil {
		return outcome.Fail(err)
	}
	p.tellUnreachable()
	if p.ignored, err = o.unknown.Of(p.stored, func() ([]string, error) { return o.objects.UnknownFields(ctx, p.stored) }); err != nil {
		return outcome.Fail(err)
	}
	p.observe()
	if err := p.approve(ctx); err != nil {
		return outcome.Fail(err)
	}
	p.warn()
	links := p.links()
	if !cached(p.stored, o.options) {
		links = rereading(links)
	}
	report := links.ReconcileAndSave(ctx, p, func(ctx context.Context, p *pass, r chain.Report) error {
		p.conclude(r)
		return p.save(ctx)
	})
	if o.options.Links != nil {
		tell(o.options.Links, ref, report)
	}
	return report.Outcome()
}

// yield leaves a cluster alone whose status another program writes. It is told once.
func (p *pass) yield(ctx context.Context) outcome.Outcome {
	if p.memory.peer.Tell() {
		p.blockedByPeer()
		if err := p.save(ctx); err != nil && !errors.Is(err, fault.WriteConflict) {
			return outcome.Fail(err)
		}
	}
	return outcome.Wait(time.Minute, TwoOperators.Reason(), "%s", TwoOperators.Remedy)
}

// Plan returns what the next pass over a cluster would do, and does nothing. changed is a cluster that is
// not stored yet, with the name of one that is; nil: the stored one.
func (o *Operator) Plan(ctx context.Context, ref control.Ref, changed *v1beta2.FoundationDBCluster) ([]chain.Planned, error) {
	p, err := o.begin(ctx, ref)
	if err != nil || p == nil {
		return nil, err
	}
	if changed != nil {
		p.stored.Spec = *changed.Spec.DeepCopy()
		p.stored.Generation++
		p.prepare()
	}
	if err := p.gather(ctx); err != nil {
		return nil, err
	}
	p.observe()
	return p.links().Plan(p), nil
}

// begin reads a cluster; nil if it is gone or on its way out.
func (o *Operator) begin(ctx context.Context, ref control.Ref) (*pass, error) {
	c := &v1beta2.FoundationDBCluster{}
	c.Namespace, c.Name = ref.Namespace, ref.Name
	found, err := o.objects.Get(ctx, c)
	if err != nil || !found {
		return nil, err
	}
	if c.DeletionTimestamp != nil {
		o.forget(c.UID)
		return nil, nil
	}
	p := &pass{Operator: o, now: o.options.Now(), stored: c, memory: o.remember(c.UID)}
	p.memory.writes.Tidy(p.now)
	p.prepare()
	p.random = rand.New(rand.NewPCG(seed(p.stored.UID, p.ours), 0)) //nolint:gosec // ids are no secrets
	return p, nil
}

// seed follows from the groups that there are: as long as they are the same, a plan draws the same ids.
func seed(uid types.UID, ours groups.ByID) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(uid))
	for _, id := range slices.Sorted(maps.Keys(ours)) {
		_, _ = h.Write([]byte(id))
	}
	return h.Sum64()
}

// prepare fills in what follows from the object alone.
func (p *pass) prepare() {
	p.cluster = p.stored.DeepCopy()
	p.cluster.Spec = foundationdb.Effective(p.stored.Spec)
	p.cluster.Status.ConnectionString = p.memory.connection(p.stored.Status.ConnectionString)
	p.desired = p.cluster.Spec.Version
	p.limits = p.options.Limits
	p.limits.MinimumUptime = time.Duration(p.cluster.Spec.MinimumUptimeSecondsForBounce) * time.Second
	p.validate()
	p.index()
}

// validate judges the spec, for the version that runs as far as this pass knows it.
func (p *pass) validate() {
	c := *p.stored
	c.Status.RunningVersion = p.cluster.Status.RunningVersion
	p.problems = slices.Concat(foundationdb.Validate(&c), foundationdb.ForbiddenInCluster(&c, p.options.Templates), p.namesake)
}

// save stores the status, if anything in it has changed.
func (p *pass) save(ctx context.Context) error {
	if equality.Semantic.DeepEqual(p.stored.Status, p.cluster.Status) {
		return nil
	}
	stored.Sign(&p.cluster.Status)
	written := p.stored.DeepCopy()
	written.Status = *p.cluster.Status.DeepCopy()
	p.memory.peer.Tries(written)
	if err := p.objects.SaveStatus(ctx, written); err != nil {
		if errors.Is(err, control.NotFound) { // deleted in the meantime
			return nil
		}
		return err
	}
	if pruned := &p.memory.pruned; pruned.Note(p.cluster.Status, written.Status) {
		p.objects.Tell(p.stored, port.Event{Reason: StatusPruned.Reason(), Message: prunedMessage(pruned) + ". " + StatusPruned.Remedy, Warning: true})
	}
	p.stored.ResourceVersion, p.stored.Status = written.ResourceVersion, *p.cluster.Status.DeepCopy()
	p.memory.peer.Stored(written)
	return nil
}

// saving is the act of a link that only changes the status: it is stored at once.
func saving(name string, targets []string, change func(*pass)) act {
	return act{
		Name: name, Targets: targets, Assume: change,
		Do: func(ctx context.Context, p *pass) outcome.Outcome {
			change(p)
			return outcome.Fail(p.save(ctx))
		},
	}
}

// warn tells once for each generation what is allowed in its spec and may not do what is expected.
func (p *pass) warn() {
	if p.stored.Status.ObservedGeneration == p.stored.Generation {
		return
	}
	for _, w := range foundationdb.Warnings(p.stored) {
		p.objects.Tell(p.stored, port.Event{Reason: "SpecWarning", Message: w.String(), Warning: true})
	}
}

// tell reports how the links went.
func tell(links func(cluster, link string, took time.Duration, result, reason string), ref control.Ref, r chain.Report) {
	for _, link := range r.Links {
		result := "done"
		switch out := link.Outcome; {
		case out.IsFail():
			result = "fail"
		case out.IsWait():
			result = "wait"
		case out.IsLater():
			result = "later"
		}
		reason := link.Outcome.Reason()
		if err := link.Outcome.Err(); err != nil {
			reason = fault.Of(err).Reason()
		}
		links(ref.Namespace+"/"+ref.Name, link.Name, link.Took, result, reason)
	}
}
