// Package servers says what the servers of a cluster do, by what the database reports of them and Kubernetes of their pods.
//
//	servers.go       who reports, where, and with which roles
//	coordinators.go  who coordinates
//	settled.go       whether pods are up, as far as a status can know
//	restart.go       what a restart would do, also that of an upgrade
package servers

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
)

// Servers are those of a cluster at a moment.
type Servers struct {
	Cluster   *v1beta2.FoundationDBCluster
	Status    *fdb.Status                               // nil: the database was not heard
	Processes map[v1beta2.ProcessGroupID][]*fdb.Process // of the status, those of the data center, by group
	Pod       func(v1beta2.ProcessGroupID) *corev1.Pod  // of a group; nil: none
	Now       time.Time
}

// group is the group with an id; nil: none of this cluster.
func (s Servers) group(id string) *v1beta2.ProcessGroupStatus {
	for i := range s.Cluster.Status.ProcessGroups {
		if g := &s.Cluster.Status.ProcessGroups[i]; string(g.ProcessGroupID) == id {
			return g
		}
	}
	return nil
}

// ReportsAt reports whether a process reports at an address.
func (s Servers) ReportsAt(a fdb.Address) bool {
	return slices.ContainsFunc(s.Status.Cluster.Processes, func(process fdb.Process) bool {
		return slices.ContainsFunc(process.Addresses(), func(own fdb.Address) bool {
			return own.Host == a.Host && (a.Port == 0 || own.Port == a.Port)
		})
	})
}

// GroupAt is the group of which the pod has an address; nil: none, or none of whose servers is silent.
func (s Servers) GroupAt(a fdb.Address) *v1beta2.ProcessGroupStatus {
	for i := range s.Cluster.Status.ProcessGroups {
		g := &s.Cluster.Status.ProcessGroups[i]
		pod := s.Pod(g.ProcessGroupID)
		if pod != nil && slices.Contains(foundationdb.PublicIPs(pod), a.Host) && g.Has(v1beta2.MissingProcesses) {
			return g
		}
	}
	return nil
}

// Run reports whether a server of our data center runs a version.
func (s Servers) Run(version string) bool {
	for _, processes := range s.Processes {
		for _, process := range processes {
			if process.Version == version && process.Class != fdb.ClassTest {
				return true
			}
		}
	}
	return false
}

// HasRoles reports whether a server of a group has or may have a role.
func (s Servers) HasRoles(g *v1beta2.ProcessGroupStatus) bool {
	return slices.ContainsFunc(s.Processes[g.ProcessGroupID], func(process *fdb.Process) bool { return process.Roles == nil || len(process.Roles) > 0 })
}

// Included reports whether a process of the group is not excluded.
func (s Servers) Included(g *v1beta2.ProcessGroupStatus) bool {
	return slices.ContainsFunc(s.Processes[g.ProcessGroupID], func(process *fdb.Process) bool { return process.Excluded != nil && !*process.Excluded })
}

// Transacts reports whether a group is of the transaction system, by its class or by a role: without stateless groups
// those of storage take such roles too.
func (s Servers) Transacts(id string) bool {
	g := s.group(id)
	if g == nil || fdb.Class(g.ProcessClass).Transaction() {
		return g != nil
	}
	return slices.ContainsFunc(s.Processes[g.ProcessGroupID], func(process *fdb.Process) bool {
		return transacts(process.Roles)
	})
}

// transacts reports whether a role is of the transaction system.
func transacts(roles []fdb.Role) bool {
	return slices.ContainsFunc(roles, func(r fdb.Role) bool { return r.Role != "storage" && r.Role != "coordinator" })
}

// StartsRecovery reports whether the database recruits others when a group is excluded, which is a recovery: its class is one
// of the transaction system, or its servers have such a role, as storage servers do where there are no better ones.
func (s Servers) StartsRecovery(id string) bool {
	if g, err := fdb.ParseGroupID(id); err != nil || g.Class.Transaction() {
		return true
	}
	return slices.ContainsFunc(s.Status.Cluster.Processes, func(process fdb.Process) bool {
		return process.Locality[fdb.InstanceLocality] == id && (process.Roles == nil || transacts(process.Roles))
	})
}

// ByGroup sorts the processes of our data center by group.
func ByGroup(s *fdb.Status, dataCenter string) map[v1beta2.ProcessGroupID][]*fdb.Process {
	found := make(map[v1beta2.ProcessGroupID][]*fdb.Process, len(s.Cluster.Processes))
	for i := range s.Cluster.Processes {
		process := &s.Cluster.Processes[i]
		id := v1beta2.ProcessGroupID(process.Locality[fdb.InstanceLocality])
		if id == "" || dataCenter != "" && process.Locality[fdb.DatacenterLocality] != dataCenter {
			continue
		}
		found[id] = append(found[id], process)
	}
	return found
}
