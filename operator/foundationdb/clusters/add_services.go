package clusters

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters/internal/servers"
	"github.com/pawl-dev/pawl/outcome"
)

// addServices makes the headless service, and one service a group where those give the addresses.
func addServices(p *pass) decision {
	var missing []*corev1.Service
	if want := foundationdb.HeadlessService(p.cluster); want != nil && p.headless == nil {
		missing = append(missing, want)
	}
	for i := range p.cluster.Status.ProcessGroups {
		g := &p.cluster.Status.ProcessGroups[i]
		if p.member(g.ProcessGroupID).Service != nil || g.Marked() && g.Excluded() {
			continue
		}
		id, known := p.ids[g.ProcessGroupID]
		if !known {
			continue
		}
		if want := foundationdb.GroupService(p.cluster, id); want != nil {
			missing = append(missing, want)
		}
	}
	if len(missing) == 0 {
		return decision{}
	}
	return acts(outcome.Done(), act{
		Name: "create service", Targets: objectNames(missing),
		Do: func(ctx context.Context, p *pass) outcome.Outcome {
			return each(ctx, missing, "ServiceNotCreated", func(s *corev1.Service) error {
				if err := p.create(ctx, s); !errors.Is(err, control.Exists) {
					if id, ok := p.ownerOf(s); ok && err == nil {
						p.member(id).Service = s
					} else if err == nil {
						p.headless = s
					}
					return err
				}
				return nil
			})
		},
	})
}

// servicesDiffer reports whether a service is missing, or there although none is wanted.
func servicesDiffer(s servers.Servers, headless *corev1.Service, member func(v1beta2.ProcessGroupID) *member) bool {
	if (foundationdb.HeadlessService(s.Cluster) != nil) != (headless != nil) && !(headless != nil && s.NamesInUse()) {
		return true
	}
	perGroup := s.Cluster.Spec.Routing.PublicIPSource == v1beta2.PublicIPService
	for i := range s.Cluster.Status.ProcessGroups {
		if g := &s.Cluster.Status.ProcessGroups[i]; !g.Marked() && (member(g.ProcessGroupID).Service != nil) != perGroup {
			return true
		}
	}
	return false
}
