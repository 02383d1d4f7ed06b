package clusters

import (
	corev1 "k8s.io/api/core/v1"

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
		if m.Pod != nil || g.Marked() && g.Excluded() {
			continue
		}
		if p.cluster.Spec.Routing.PublicIPSource == v1beta2.PublicIPService && (m.Service == nil || m.Service.Spec.ClusterIP == "") {
			out = outcome.Later(upgradeAgain, "ServiceHasNoIP", "%s waits for the IP of its service", g.ProcessGroupID)
			continue
		}
		id, known := p.ids[g.ProcessGroupID]
		if !known {
			continue
		}
		f := foundationdb.PodFacts{ConfigMap: p.wanted, ClaimName: p.pods.ClaimName(id)}
		if m.Service != nil {
			f.ServiceIP = m.Service.Spec.ClusterIP
		}
		pod, err := foundationdb.Pod(foundationdb.WithDataOf(p.cluster, id.Class, m.Claim), id, f)
		if err != nil {
			out = outcome.Later(0, foundationdb.SpecInvalid.Reason(), "%s: %s", g.ProcessGroupID, fault.Message(err))
			continue
		}
		missing = append(missing, pod)
	}
	if len(missing) == 0 {
		return decision{Outcome: out}
	}
	return acts(out, creating("create pod", "PodNotCreated", missing, func(m *member, pod *corev1.Pod) { m.Pod = pod }))
}
