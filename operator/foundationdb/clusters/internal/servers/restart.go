package servers

import (
	"slices"
	"time"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
)

// Restart is what a restart of servers would do.
type Restart struct {
	Addresses []fdb.Address
	Groups    []string  // that are restarted
	Behind    []string  // that would be, and do not have their files yet
	Nameless  []string  // that would be, and report no address
	Since     time.Time // a group is behind
	Last      time.Time // when the last one fell behind
}

// Restart finds out what is to be restarted.
func (s Servers) Restart() Restart {
	rule := foundationdb.RestartRule(s.Cluster)
	upgrade := foundationdb.UpgradesIncompatibly(s.Cluster)
	var r Restart
	for i := range s.Cluster.Status.ProcessGroups {
		g := &s.Cluster.Status.ProcessGroups[i]
		if g.Marked() && !upgrade || foundationdb.IgnoredAtRestart(*g, s.Cluster.Spec, s.Now) {
			continue
		}
		at, behind := g.Since(v1beta2.IncorrectConfigMap)
		if upgrade && !behind { // without the new binary its servers would stay what they are
			at, behind = g.Since(v1beta2.IncorrectSidecarImage)
		}
		if behind && (!g.Marked() || len(s.Processes[g.ProcessGroupID]) > 0) {
			r.Behind = append(r.Behind, string(g.ProcessGroupID))
			if r.Since.IsZero() || at.Before(r.Since) {
				r.Since = at
			}
			if at.After(r.Last) {
				r.Last = at
			}
			continue
		}
		if !fits(g, rule) || g.Has(v1beta2.IncorrectSidecarImage) { // servers start with the program that the sidecar has brought
			continue
		}
		if addresses := s.Reported(g); len(addresses) > 0 {
			r.Addresses = append(r.Addresses, addresses...)
			r.Groups = append(r.Groups, string(g.ProcessGroupID))
		} else {
			r.Nameless = append(r.Nameless, string(g.ProcessGroupID))
		}
	}
	return r
}

// fits reports whether a group has the conditions that must be there, and none that must not.
func fits(g *v1beta2.ProcessGroupStatus, rule map[v1beta2.ProcessGroupConditionType]bool) bool {
	for condition, there := range rule {
		if g.Has(condition) != there {
			return false
		}
	}
	return true
}

// Reported are the addresses at which the servers of a group report, one each.
func (s Servers) Reported(g *v1beta2.ProcessGroupStatus) []fdb.Address {
	var found []fdb.Address
	for _, process := range s.Processes[g.ProcessGroupID] {
		if process.Address != (fdb.Address{}) && !slices.Contains(found, process.Address) {
			found = append(found, process.Address)
		}
	}
	return found
}

// DeadTesters restarts the cluster controller where it still shows testers that are gone.
func (s Servers) DeadTesters(limits fdb.Limits) (Restart, bool) {
	running, err := fdb.ParseVersion(s.Cluster.Status.RunningVersion)
	if err != nil || running.Has(fdb.FeatureDeadTesters) || fdb.MinimumUptime(s.Status, running) < limits.WithDefaults().ControllerUptime {
		return Restart{}, false
	}
	unreachable := map[fdb.Address]bool{}
	for _, message := range s.Status.Cluster.Messages {
		for _, one := range message.UnreachableProcesses {
			unreachable[one.Address] = true
		}
	}
	for _, process := range s.Status.Cluster.Processes {
		if process.Class != fdb.ClassTest || !unreachable[process.Address] {
			continue
		}
		for _, controller := range s.Status.Cluster.Processes {
			for _, role := range controller.Roles {
				if role.Role == "cluster_controller" && controller.Address != (fdb.Address{}) {
					return Restart{Addresses: []fdb.Address{controller.Address}, Groups: []string{controller.Locality[fdb.InstanceLocality]}}, true
				}
			}
		}
	}
	return Restart{}, false
}
