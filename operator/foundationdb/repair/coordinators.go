// Package repair says how a database comes back that does not by itself: its coordinators have other addresses, or all data
// centers but one are lost. It judges only; people, or the operator, do it.
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

// CoordinatorLost says that it is not known where a coordinator is now.
var CoordinatorLost = fault.Declare(fault.Kind{
	Code: "FDB_COORDINATOR_LOST", Class: fault.Blocked,
	Title:  "a coordinator is on no pod of the cluster that runs",
	Remedy: "See why its pod does not run, and wait until it does. If a majority of the coordinators is lost for good, recover a cluster of several regions with pawl fdb recover-multi-region-cluster, and restore any other one from a backup.",
	Guide:  "foundationdb.md#repair",
})

// Moved is where the coordinators of a cluster are now.
type Moved struct {
	From, To fdb.Connection // as many coordinators, at the same positions
	// Groups are those that have had these addresses, by position.
	Groups []v1beta2.ProcessGroupID
}

// Elsewhere are the groups of coordinators with another address than the connection string has.
func (m Moved) Elsewhere() (groups []v1beta2.ProcessGroupID) {
	for i, c := range m.From.Coordinators {
		if m.To.Coordinators[i] != c {
			groups = append(groups, m.Groups[i])
		}
	}
	return groups
}

// Majority reports whether so many coordinators have moved that servers do not find the others any more.
func (m Moved) Majority() bool { return len(m.Elsewhere()) > len(m.From.Coordinators)/2 }

// MovedCoordinators finds the coordinators of a cluster by the addresses that its groups have had. Each of them must be
// known: on a pod of ours that runs, and at an address that was given to one group only. It fails with CoordinatorLost,
// and with fdb.ConnectionInvalid. Names move by themselves.
func MovedCoordinators(c *v1beta2.FoundationDBCluster, podOf func(v1beta2.ProcessGroupID) *corev1.Pod) (Moved, error) {
	old, err := fdb.ParseConnection(c.Status.ConnectionString)
	if err != nil {
		return Moved{}, err
	}
	m := Moved{From: old, To: fdb.Connection{Description: old.Description, ID: old.ID}}
	for _, a := range old.Coordinators {
		host, err := netip.ParseAddr(a.Host)
		if err != nil {
			return Moved{}, CoordinatorLost.Errorf("the coordinator %s has a name, which leads to its new address by itself", a)
		}
		group, err := formerly(c, a)
		if err != nil {
			return Moved{}, err
		}
		pod := podOf(group)
		if pod == nil || !foundationdb.ContainerReady(pod, foundationdb.MainContainer) {
			return Moved{}, CoordinatorLost.Errorf("the pod of %s, which was the coordinator %s, does not run", group, a)
		}
		if ips := foundationdb.PublicIPs(pod); !slices.Contains(ips, a.Host) {
			at := slices.IndexFunc(ips, func(ip string) bool {
				now, err := netip.ParseAddr(ip)
				return err == nil && now.Is4() == host.Is4()
			})
			if at < 0 {
				return Moved{}, CoordinatorLost.Errorf("the pod of %s, which was the coordinator %s, has no address", group, a)
			}
			a.Host = ips[at]
		}
		if slices.Contains(m.To.Coordinators, a) {
			return Moved{}, CoordinatorLost.Errorf("two coordinators would be at %s: never fewer than before", a)
		}
		m.To.Coordinators = append(m.To.Coordinators, a)
		m.Groups = append(m.Groups, group)
	}
	return m, nil
}

// formerly returns the one group that has or had an address.
func formerly(c *v1beta2.FoundationDBCluster, a fdb.Address) (found v1beta2.ProcessGroupID, err error) {
	for _, g := range c.Status.ProcessGroups {
		switch {
		case !slices.Contains(g.Addresses, a.Host):
		case found != "":
			return "", CoordinatorLost.Errorf("the coordinator %s was %s or %s: both have had its address", a, found, g.ProcessGroupID)
		default:
			found = g.ProcessGroupID
		}
	}
	if found == "" {
		return "", CoordinatorLost.Errorf("the coordinator %s is at an address that no group of the cluster has had", a)
	}
	return found, nil
}
