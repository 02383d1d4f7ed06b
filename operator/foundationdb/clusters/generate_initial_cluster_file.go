package clusters

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/outcome"
)

const (
	reasonNoCoordinators = "TooFewCoordinators"
	pendingWait          = 5 * time.Minute // a pod that is pending for less may still become a coordinator
	firstInHalls         = 3               // coordinators with which three data halls begin
	idLength             = 32              // characters of the id of a connection string
)

// generateInitialClusterFile makes the first connection string: the seed, or that of pods that run.
func generateInitialClusterFile(p *pass) decision {
	if p.cluster.Status.ConnectionString != "" {
		return decision{}
	}
	text := p.cluster.Spec.SeedConnectionString
	if text == "" {
		connection, wait := p.firstConnection()
		if !wait.Outcome.IsDone() {
			return wait
		}
		text = connection.String()
	}
	c, err := fdb.ParseConnection(text)
	if err != nil {
		return waits(startAgain, fault.Of(err).Reason(), "%s", fault.Message(err))
	}
	write := func(p *pass) { p.cluster.Status.ConnectionString = c.String() }
	return acts(outcome.Wait(time.Second, "ClusterFileNew", "the config map gets the connection string next"), act{
		Name: "write the first connection string", Targets: []string{c.String()}, Assume: write,
		Do: func(_ context.Context, p *pass) outcome.Outcome {
			write(p) // stored at the end of the pass, which is next
			return outcome.Done()
		},
	})
}

// firstConnection chooses the first coordinators among the pods that run; otherwise it says what is
// waited for.
func (p *pass) firstConnection() (fdb.Connection, decision) {
	spec := p.cluster.Spec
	wish := foundationdb.Wish(p.cluster)
	count := fdb.CoordinatorCount(wish.Configuration.RedundancyMode, wish.Configuration.UsableRegions)
	limits := fdb.CoordinatorLimits(wish.Configuration)
	switch {
	case wish.Configuration.RedundancyMode == fdb.ThreeDataHall:
		count = firstInHalls
	case foundationdb.OneOfSeveral(spec): // of the other zones nobody knows yet; they join by the seed
		count = 1
	}
	partial := spec.PartialConnectionString
	c := fdb.Connection{Description: cmp.Or(partial.DatabaseName, fdb.Describe(p.cluster.Name)), ID: cmp.Or(partial.GenerationID, p.newConnectionID())}
	if len(partial.Coordinators) > 0 {
		for _, text := range partial.Coordinators {
			a, err := fdb.ParseAddress(text)
			if err != nil {
				return c, waits(startAgain, fault.Of(err).Reason(), "spec.partialConnectionString: %s", fault.Message(err))
			}
			c.Coordinators = append(c.Coordinators, a)
		}
		return c, decision{}
	}
	if left := p.pendingFor(); left > 0 {
		return c, waits(min(left, startAgain), "PodsPending", "pods that are pending may become coordinators")
	}
	candidates := p.firstCandidates(wish)
	if len(candidates) < count {
		return c, waits(startAgain, reasonNoCoordinators, "%d of %d pods that can be coordinators run", len(candidates), count)
	}
	chosen, err := fdb.Spread(candidates, count, slices.Sorted(maps.Keys(limits)), limits)
	if err != nil {
		return c, waits(startAgain, fault.Of(err).Reason(), "%s", fault.Message(err))
	}
	for _, one := range chosen {
		c.Coordinators = append(c.Coordinators, one.Address)
	}
	return c, decision{}
}

// pendingFor is how long pods that are pending are still waited for.
func (p *pass) pendingFor() time.Duration {
	var left time.Duration
	for i := range p.cluster.Status.ProcessGroups {
		g := &p.cluster.Status.ProcessGroups[i]
		pod := p.member(g.ProcessGroupID).pod
		if pod != nil && classOf(g).CoordinatorEligible() && !g.Marked() && (pod.Status.Phase == corev1.PodPending || pod.Status.Phase == "") {
			left = max(left, pendingWait-p.age(pod))
		}
	}
	return left
}

// firstCandidates are the groups whose pod runs and has an address.
func (p *pass) firstCandidates(w fdb.CoordinatorWish) []fdb.Candidate {
	var found []fdb.Candidate
	for i := range p.cluster.Status.ProcessGroups {
		g := &p.cluster.Status.ProcessGroups[i]
		m := p.member(g.ProcessGroupID)
		priority, eligible := priorityOf(w, classOf(g))
		if m.pod == nil || g.Marked() || !eligible || m.pod.Status.Phase != corev1.PodRunning || m.pod.DeletionTimestamp != nil {
			continue
		}
		host := ""
		if ips := foundationdb.PublicIPs(m.pod); len(ips) > 0 {
			host = ips[0]
		}
		if w.DNS && host != "" {
			host = p.dnsName(g.ProcessGroupID)
		}
		if host == "" {
			continue
		}
		addresses := fdb.AddressesOf(host, fdb.Required{TLS: w.TLS, NonTLS: !w.TLS}, 1)
		found = append(found, fdb.Candidate{
			ID: string(g.ProcessGroupID), Address: addresses[0], Class: classOf(g), Priority: priority,
			Locality: map[string]string{
				fdb.ZoneLocality: g.FaultDomain, fdb.DatacenterLocality: p.cluster.Spec.DataCenter,
				fdb.DataHallLocality: foundationdb.DataHall(p.cluster, classOf(g), m.variables),
			},
		})
	}
	return found
}

// priorityOf is the priority of a class and whether it may have coordinators.
func priorityOf(w fdb.CoordinatorWish, class fdb.Class) (int, bool) {
	if len(w.Selection) == 0 {
		return class.CoordinatorPriority(), class.CoordinatorEligible()
	}
	for _, s := range w.Selection {
		if s.Class == class {
			return s.Priority, true
		}
	}
	return 0, false
}

// newConnectionID is a new id of a connection string.
func (p *pass) newConnectionID() string {
	const characters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	id := make([]byte, idLength)
	for i := range id {
		id[i] = characters[p.random.IntN(len(characters))]
	}
	return string(id)
}
