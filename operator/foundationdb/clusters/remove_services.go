package clusters

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/outcome"
)

// removeServices deletes services that are not wanted any more. The headless one stays while a name of
// it is in the connection string or in a pod's cluster file.
func removeServices(p *pass) decision {
	var extra []*corev1.Service
	if p.headless != nil && p.headless.DeletionTimestamp == nil && foundationdb.HeadlessService(p.cluster) == nil {
		if p.servers().NamesInUse() || filesBehind(&p.cluster.Status) {
			return later(removalAgain, "NamesInUse", "names of the headless service are still in cluster files")
		}
		extra = append(extra, p.headless)
	}
	if p.cluster.Spec.Routing.PublicIPSource != v1beta2.PublicIPService {
		for i := range p.cluster.Status.ProcessGroups {
			g := &p.cluster.Status.ProcessGroups[i]
			m := p.member(g.ProcessGroupID)
			if m.Service == nil || m.Service.DeletionTimestamp != nil || g.Marked() {
				continue
			}
			if m.Pod == nil || m.Pod.Annotations[foundationdb.PublicIPSourceAnnotation] == string(v1beta2.PublicIPService) {
				continue // its servers still use the address
			}
			extra = append(extra, m.Service)
		}
	}
	if len(extra) == 0 {
		return decision{}
	}
	return acts(outcome.Done(), act{
		Name: "delete service", Targets: objectNames(extra),
		Do: func(ctx context.Context, p *pass) outcome.Outcome {
			return each(ctx, extra, "ServiceNotDeleted", func(s *corev1.Service) error {
				return p.delete(ctx, s, "Service", "nothing uses its address any more")
			})
		},
	})
}

// filesBehind reports whether a pod may have a cluster file that is not the present one.
func filesBehind(s *v1beta2.FoundationDBClusterStatus) bool {
	for i := range s.ProcessGroups {
		if s.ProcessGroups[i].Has(v1beta2.IncorrectConfigMap) {
			return true
		}
	}
	return s.HasIncorrectConfigMap
}
