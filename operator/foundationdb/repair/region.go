package repair

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
)

// RecoveryImpossible says that a database cannot be recovered in the data center of a cluster.
var RecoveryImpossible = fault.Declare(fault.Kind{
	Code: "FDB_RECOVERY_IMPOSSIBLE", Class: fault.Blocked,
	Title:  "the database cannot be recovered in this data center",
	Remedy: "Recover it by the object of another data center, which still has a coordinator, or restore a backup.",
	Guide:  "foundationdb.md#repair",
})

// RegionRecovery is how a database of several regions goes on in the data center of one object, when a majority of its
// coordinators is lost for good: coordinators that are left give what they know to new ones. The order of the steps and
// the count of coordinators are those of the plugin of the published operator
// (kubectl-fdb/cmd/recover_multi_region_cluster.go at v2.33.0).
type RegionRecovery struct {
	From, To fdb.Connection
	Kept     []v1beta2.ProcessGroupID // with a coordinator that is left
	New      []v1beta2.ProcessGroupID // that become coordinators
	// Begun: the spec has one region already, and the operator rests; an attempt before has ended there.
	Begun bool
}

// RecoverRegion chooses the coordinators. It fails with RecoveryImpossible, fdb.ConnectionInvalid and
// fdb.TooFewCandidates.
func RecoverRegion(c *v1beta2.FoundationDBCluster, podOf func(v1beta2.ProcessGroupID) *corev1.Pod) (RegionRecovery, error) {
	from, err := fdb.ParseConnection(c.Status.ConnectionString)
	if err != nil {
		return RegionRecovery{}, err
	}
	r := RegionRecovery{From: from, To: fdb.Connection{Description: from.Description, ID: from.ID}}
	dc := c.Spec.DataCenter
	main, regions := false, c.Spec.DatabaseConfiguration.Regions
	for _, region := range regions {
		main = main || slices.ContainsFunc(region.Datacenters, func(d v1beta2.Datacenter) bool { return d.ID == dc && d.Satellite == 0 })
	}
	r.Begun = c.Spec.Skip && len(regions) == 1 && len(regions[0].Datacenters) == 1
	if !main || len(regions) < 2 && !r.Begun {
		return RegionRecovery{}, RecoveryImpossible.Errorf("%q is no main data center of a database with several regions", dc)
	}
	tls := slices.ContainsFunc(from.Coordinators, func(a fdb.Address) bool { return a.TLS })
	names := slices.ContainsFunc(from.Coordinators, func(a fdb.Address) bool {
		_, err := netip.ParseAddr(a.Host)
		return err != nil
	})
	var candidates []fdb.Candidate
	zones := map[string]bool{} // with a coordinator that is left
	for _, g := range c.Status.ProcessGroups {
		id, err := fdb.ParseGroupID(string(g.ProcessGroupID))
		pod := podOf(g.ProcessGroupID)
		if err != nil || pod == nil || !foundationdb.ContainerReady(pod, foundationdb.MainContainer) {
			continue
		}
		hosts := foundationdb.PublicIPs(pod)
		if names {
			hosts = []string{foundationdb.DNSName(c, id)}
		}
		at := slices.IndexFunc(from.Coordinators, func(a fdb.Address) bool { return slices.Contains(hosts, a.Host) })
		class := fdb.Class(g.ProcessClass)
		switch {
		case at >= 0:
			r.Kept, zones[g.FaultDomain] = append(r.Kept, g.ProcessGroupID), true
			r.To.Coordinators = append(r.To.Coordinators, from.Coordinators[at])
		case !g.Marked() && class.CoordinatorEligible() && len(hosts) > 0:
			candidates = append(candidates, fdb.Candidate{
				ID: string(g.ProcessGroupID), Class: class, Priority: class.CoordinatorPriority(),
				Address:  fdb.AddressesOf(hosts[0], fdb.Required{TLS: tls, NonTLS: !tls}, 1)[0],
				Locality: map[string]string{fdb.ZoneLocality: g.FaultDomain, fdb.DatacenterLocality: dc},
			})
		}
	}
	if len(r.Kept) == 0 {
		return RegionRecovery{}, RecoveryImpossible.Errorf("no coordinator of %s is left in data center %s, so nobody knows what was committed", from, dc)
	}
	missing := fdb.CoordinatorCount(fdb.Redundancy(foundationdb.Effective(c.Spec).DatabaseConfiguration.RedundancyMode), 1) - len(r.Kept)
	if missing <= 0 {
		return r, nil
	}
	candidates = slices.DeleteFunc(candidates, func(one fdb.Candidate) bool { return zones[one.Locality[fdb.ZoneLocality]] })
	chosen, err := fdb.Spread(candidates, missing, []string{fdb.ZoneLocality}, map[string]int{fdb.ZoneLocality: 1})
	if err != nil {
		return RegionRecovery{}, err
	}
	for _, one := range chosen {
		r.New = append(r.New, v1beta2.ProcessGroupID(one.ID))
		r.To.Coordinators = append(r.To.Coordinators, one.Address)
	}
	return r, nil
}

// DataFolder is the data folder of the first server of a pod, which is the one that can be a coordinator.
func DataFolder(pod *corev1.Pod) string {
	if foundationdb.ImageTypeOf(pod) == v1beta2.ImageTypeUnified || foundationdb.ServersIn(pod) > 1 {
		return "/var/fdb/data/1"
	}
	return "/var/fdb/data"
}
