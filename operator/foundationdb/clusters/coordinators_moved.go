package clusters

import (
	"context"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/outcome"
)

// reasonMoved is the reason of a database that cannot be reached because its coordinators have other addresses.
const reasonMoved = "CoordinatorsMoved"

// repaired is a connection string with the addresses that coordinators have now.
type repaired struct {
	fdb.Connection
	groups []string // that have moved
	// shared: other objects hold parts of the database, and have to be repaired with it.
	shared bool
}

// orMoved is a link that first looks whether the coordinators can be reached at all. When a majority of them has
// other addresses, the database does not come back by itself: the servers know the old ones only.
func orMoved(decide func(*pass) decision) func(*pass) decision {
	return func(p *pass) decision {
		r, ok := p.moved()
		if !ok {
			return decide(p)
		}
		command := "pawl fdb fix-coordinator-ips " + p.cluster.Name + " --namespace " + p.cluster.Namespace
		out := outcome.Later(startAgain, reasonMoved, "the coordinators on %s have other addresses now, and no server can find them: %s", some(r.groups), command)
		if p.options.WriteClusterFile == nil || r.shared {
			return acts(out)
		}
		return acts(outcome.Later(startAgain, reasonMoved, "the servers restart with the new addresses of the coordinators"), p.repairing(r))
	}
}

// moved finds out whether a majority of the coordinators has other addresses. Every one of them must be known: on a
// pod of ours that runs, and at an address that was given to one group only.
func (p *pass) moved() (repaired, bool) {
	s := &p.cluster.Status
	if s.Health.Available || !s.Configured || p.status != nil && quorum(p.status) {
		return repaired{}, false
	}
	old, err := fdb.ParseConnection(s.ConnectionString)
	if err != nil {
		return repaired{}, false
	}
	r := repaired{Connection: fdb.Connection{Description: old.Description, ID: old.ID}, shared: p.sharesDatabase()}
	for _, c := range old.Coordinators {
		host, err := netip.ParseAddr(c.Host)
		if err != nil {
			return repaired{}, false // a name leads to the new address by itself
		}
		g, pod := p.formerly(c.Host)
		if g == nil {
			return repaired{}, false
		}
		ips := foundationdb.PublicIPs(pod)
		if !slices.Contains(ips, c.Host) {
			at := slices.IndexFunc(ips, func(ip string) bool { a, err := netip.ParseAddr(ip); return err == nil && a.Is4() == host.Is4() })
			if at < 0 {
				return repaired{}, false
			}
			c.Host = ips[at]
			r.groups = append(r.groups, string(g.ProcessGroupID))
		}
		if slices.Contains(r.Coordinators, c) {
			return repaired{}, false // never fewer than before
		}
		r.Coordinators = append(r.Coordinators, c)
	}
	return r, len(r.groups) > len(old.Coordinators)/2
}

// formerly returns the one group that has or had an address, with its pod, if that runs.
func (p *pass) formerly(host string) (found *v1beta2.ProcessGroupStatus, pod *corev1.Pod) {
	for i := range p.cluster.Status.ProcessGroups {
		g := &p.cluster.Status.ProcessGroups[i]
		if !slices.Contains(g.Addresses, host) {
			continue
		}
		if found != nil {
			return nil, nil
		}
		found, pod = g, p.member(g.ProcessGroupID).pod
	}
	if found == nil || pod == nil || !ready(pod, foundationdb.MainContainer) {
		return nil, nil
	}
	return found, pod
}

// sharesDatabase reports whether other objects may hold parts of the database.
func (p *pass) sharesDatabase() bool {
	spec := p.cluster.Spec
	centers := 0
	for _, region := range spec.DatabaseConfiguration.Regions {
		centers += len(region.Datacenters)
	}
	return centers > 1 || foundationdb.OneOfSeveral(spec) || spec.DataHall != "" || spec.SeedConnectionString != ""
}

// repairing is the act of giving all servers the new addresses: first the pods, so that one that is not reached is
// tried again, then the status, from which the config map follows.
func (p *pass) repairing(r repaired) act {
	return act{
		Name: "write the new addresses of the coordinators into all pods", Targets: []string{r.String()},
		Do: func(ctx context.Context, p *pass) outcome.Outcome {
			var pods []*corev1.Pod
			for i := range p.cluster.Status.ProcessGroups {
				if pod := p.member(p.cluster.Status.ProcessGroups[i].ProcessGroupID).pod; pod != nil && ready(pod, foundationdb.MainContainer) {
					pods = append(pods, pod)
				}
			}
			out := each(ctx, pods, "ClusterFileNotWritten", func(pod *corev1.Pod) error { return p.options.WriteClusterFile(ctx, pod, r.Connection) })
			if !out.IsDone() {
				return out
			}
			p.cluster.Status.ConnectionString = r.String()
			p.event(reasonMoved, "the coordinators on %s have other addresses: %s", some(r.groups), r.Connection)
			return outcome.Fail(p.save(ctx))
		},
	}
}
