package clusters

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/outcome"
)

// addPods makes the pods that are missing, also those of groups that are being drained: only a group
// that holds nothing any more stays without.
func addPods(p *pass) decision {
	var missing []*corev1.Pod
	out := outcome.Done()
	for i := range p.cluster.Status.ProcessGroups {
		g := &p.cluster.Status.ProcessGroups[i]
		m := p.member(g.ProcessGroupID)
		if m.pod != nil || g.Marked() && g.Excluded() {
			continue
		}
		if p.cluster.Spec.Routing.PublicIPSource == v1beta2.PublicIPService && (m.service == nil || m.service.Spec.ClusterIP == "") {
			out = outcome.Later(upgradeAgain, "ServiceHasNoIP", "%s waits for the IP of its service", g.ProcessGroupID)
			continue
		}
		id, known := p.ids[g.ProcessGroupID]
		if !known {
			continue
		}
		f := podFacts(m)
		f.ConfigMap, f.ClaimName = p.wanted, p.pods.ClaimName(id)
		pod, err := foundationdb.Pod(foundationdb.WithDataOf(p.cluster, id.Class, m.claim), id, f)
		if err != nil {
			out = outcome.Later(0, foundationdb.SpecInvalid.Reason(), "%s: %s", g.ProcessGroupID, fault.Message(err))
			continue
		}
		missing = append(missing, pod)
	}
	if len(missing) == 0 {
		return decision{Outcome: out}
	}
	add := func(p *pass, pod *corev1.Pod) {
		if id, ok := p.ownerOf(pod); ok {
			p.member(id).pod = pod
		}
	}
	return acts(out, act{
		Name: "create pod", Targets: objectNames(missing),
		Assume: func(p *pass) {
			for _, pod := range missing {
				add(p, pod)
			}
		},
		Do: func(ctx context.Context, p *pass) outcome.Outcome {
			return each(ctx, missing, "PodNotCreated", func(pod *corev1.Pod) error {
				err := p.create(ctx, pod)
				if err == nil {
					add(p, pod)
				}
				if errors.Is(err, control.Exists) {
					return nil
				}
				return err
			})
		},
	})
}
