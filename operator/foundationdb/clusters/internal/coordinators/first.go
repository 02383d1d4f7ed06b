// Package coordinators chooses the first coordinators of a database, and says where those are that it has.
package coordinators

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters/internal/servers"
	"github.com/pawl-dev/pawl/outcome"
)

const (
	reasonNoCoordinators = "TooFewCoordinators"
	firstInHalls         = 3  // coordinators with which three data halls begin
	idLength             = 32 // characters of the id of a connection string
)

const startAgain = 15 * time.Second // until it is looked at again

// First makes a connection string of coordinators among the pods that run; otherwise it says what is
// waited for. variables are those of the servers of a group, as far as they are known.
func First(s servers.Servers, variables func(v1beta2.ProcessGroupID) map[string]string, random *rand.Rand) (fdb.Connection, outcome.Outcome) {
	spec := s.Cluster.Spec
	wish := foundationdb.Wish(s.Cluster)
	count := fdb.CoordinatorCount(wish.Configuration.RedundancyMode, wish.Configuration.UsableRegions)
	limits := fdb.CoordinatorLimits(wish.Configuration)
	switch {
	case wish.Configuration.RedundancyMode == fdb.ThreeDataHall:
		count = firstInHalls
	case foundationdb.OneOfSeveral(spec): // of the other zones nobody knows yet; they join by the seed
		count = 1
	}
	partial := spec.PartialConnectionString
	c := fdb.Connection{Description: cmp.Or(partial.DatabaseName, fdb.Describe(s.Cluster.Name)), ID: cmp.Or(partial.GenerationID, newID(random))}
	if len(partial.Coordinators) > 0 {
		for _, text := range partial.Coordinators {
			a, err := fdb.ParseAddress(text)
			if err != nil {
				return c, outcome.Wait(startAgain, fault.Of(err).Reason(), "spec.partialConnectionString: %s", fault.Message(err))
			}
			c.Coordinators = append(c.Coordinators, a)
		}
		return c, outcome.Done()
	}
	if left := pendingFor(s); left > 0 {
		return c, outcome.Wait(min(left, startAgain), "PodsPending", "pods that are pending may become coordinators")
	}
	candidates := candidatesOf(s, wish, variables)
	if len(candidates) < count {
		return c, outcome.Wait(startAgain, reasonNoCoordinators, "%d of %d pods that can be coordinators run", len(candidates), count)
	}
	chosen, err := fdb.Spread(candidates, count, slices.Sorted(maps.Keys(limits)), limits)
	if err != nil {
		return c, outcome.Wait(startAgain, fault.Of(err).Reason(), "%s", fault.Message(err))
	}
	for _, one := range chosen {
		c.Coordinators = append(c.Coordinators, one.Address)
	}
	return c, outcome.Done()
}

// pendingFor is how long pods that are pending are still waited for.
func pendingFor(s servers.Servers) time.Duration {
	var left time.Duration
	for i := range s.Cluster.Status.ProcessGroups {
		g := &s.Cluster.Status.ProcessGroups[i]
		pod := s.Pod(g.ProcessGroupID)
		if pod != nil && fdb.Class(g.ProcessClass).CoordinatorEligible() && !g.Marked() && (pod.Status.Phase == corev1.PodPending || pod.Status.Phase == "") {
			left = max(left, servers.PendingWait-s.Now.Sub(pod.CreationTimestamp.Time))
		}
	}
	return left
}

// candidatesOf are the groups whose pod runs and has an address.
func candidatesOf(s servers.Servers, w fdb.CoordinatorWish, variables func(v1beta2.ProcessGroupID) map[string]string) []fdb.Candidate {
	var found []fdb.Candidate
	for i := range s.Cluster.Status.ProcessGroups {
		g := &s.Cluster.Status.ProcessGroups[i]
		pod := s.Pod(g.ProcessGroupID)
		priority, eligible := priorityOf(w, fdb.Class(g.ProcessClass))
		if pod == nil || g.Marked() || !eligible || pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil {
			continue
		}
		host := ""
		if ips := foundationdb.PublicIPs(pod); len(ips) > 0 {
			host = ips[0]
		}
		if w.DNS && host != "" {
			host = foundationdb.DNSNameOf(s.Cluster, g.ProcessGroupID)
		}
		if host == "" {
			continue
		}
		addresses := fdb.AddressesOf(host, fdb.Required{TLS: w.TLS, NonTLS: !w.TLS}, 1)
		found = append(found, fdb.Candidate{
			ID: string(g.ProcessGroupID), Address: addresses[0], Class: fdb.Class(g.ProcessClass), Priority: priority,
			Locality: map[string]string{
				fdb.ZoneLocality: g.FaultDomain, fdb.DatacenterLocality: s.Cluster.Spec.DataCenter,
				fdb.DataHallLocality: foundationdb.DataHall(s.Cluster, fdb.Class(g.ProcessClass), variables(g.ProcessGroupID)),
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

// newID is a new id of a connection string.
func newID(random *rand.Rand) string {
	const characters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	id := make([]byte, idLength)
	for i := range id {
		id[i] = characters[random.IntN(len(characters))]
	}
	return string(id)
}
