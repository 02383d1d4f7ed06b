package clusters

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/outcome"
)

// proving is the act of finding out which drained groups are safe to delete. The status must show it, and
// one more exclude, which waits for the data, must say so: one for all that look free, and one for each
// where that is not enough.
func proving(draining []*v1beta2.ProcessGroupStatus) act {
	return act{
		Name: "prove that nothing is left on", Targets: groupIDs(draining),
		Assume: func(p *pass) { p.ours.Excluded(idsOf(draining), p.now) },
		Do: func(ctx context.Context, p *pass) outcome.Outcome {
			known := map[string]v1beta2.ProcessGroupID{}
			var targets []string
			for _, g := range draining {
				text := p.exclusions().KnownBy(g)
				if text == "" || p.servers().MayAppear(g) {
					continue
				}
				known[text] = g.ProcessGroupID
				targets = append(targets, text)
			}
			var named []string
			free := without(targets, fdb.Removable(p.status, targets, p.limits, func(names []string) fdb.Result {
				named = append(named, names...)
				return fdb.Result{Outcome: fdb.Ok}
			}))
			if len(free) == 0 {
				return outcome.Done()
			}
			if out := outcome.Fail(p.save(ctx)); out.IsFail() {
				return out
			}
			if out := p.take(ctx); !out.IsDone() {
				return out
			}
			if result := p.run(ctx, fdb.Exclude(named, false)); result.Outcome != fdb.Ok && len(free) > 1 {
				free = without(free, fdb.Removable(p.status, free, p.limits, func(names []string) fdb.Result { return p.run(ctx, fdb.Exclude(names, false)) }))
			} else if result.Outcome != fdb.Ok {
				return outcome.Later(startAgain, reasonOf(result), "exclude %s: %s", some(named), result)
			}
			var ids []v1beta2.ProcessGroupID
			for _, text := range free {
				appeared, err := p.appeared(ctx, p.ours[known[text]])
				if err != nil {
					return outcome.Fail(err)
				}
				if !appeared {
					ids = append(ids, known[text])
				}
			}
			if len(ids) == 0 {
				return outcome.Done()
			}
			p.ours.Excluded(ids, p.now)
			p.event("SafeToDelete", "%s: excluded, without roles, no coordinator, and exclude says so", some(names(ids)))
			return outcome.Fail(p.save(ctx))
		},
	}
}

// appeared reports whether a pod of a silent group has got an address while exclude was looking for its servers at the
// others.
func (p *pass) appeared(ctx context.Context, g *v1beta2.ProcessGroupStatus) (bool, error) {
	was := p.member(g.ProcessGroupID).Pod
	if was == nil || len(p.processes[g.ProcessGroupID]) > 0 {
		return false, nil
	}
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name = was.Namespace, was.Name
	if found, err := p.objects.Get(ctx, pod); err != nil || !found {
		return false, err
	}
	return slices.ContainsFunc(foundationdb.PublicIPs(pod), func(ip string) bool { return !slices.Contains(g.Addresses, ip) }), nil
}
