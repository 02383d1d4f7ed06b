package clusters_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

// A server comes back after all the coordinators in its cluster file have gone. An operator that may write into pods
// gives it the new ones, and its group and its data stay.
func TestServerWithAnOldClusterFile(t *testing.T) {
	t.Parallel()
	f, u := alone(t, false)
	u.fixes()
	first := connection(t, u.object().Status.ConnectionString)
	leads := u.coordinators()
	i := slices.IndexFunc(u.object().Status.ProcessGroups, func(g v1beta2.ProcessGroupStatus) bool {
		return g.ProcessClass == "storage" && !slices.Contains(leads, u.name+"-"+string(g.ProcessGroupID))
	})
	away := u.object().Status.ProcessGroups[i]
	f.LoseNode(away.FaultDomain)
	for round := 0; ; round++ {
		now := u.object().Status.ConnectionString
		at := slices.IndexFunc(first.Coordinators, func(a fdb.Address) bool { return strings.Contains(now, a.Host+":") })
		if at < 0 {
			break
		}
		if round > 10 {
			f.fail("a coordinator stays: %s, %s", first, now)
		}
		f.DeletePod(u.namespace, u.podAt(first.Coordinators[at].Host))
		f.goOn(8 * time.Minute)
	}
	f.ReturnNode(away.FaultDomain)
	f.until("the server reports", 15*time.Minute, func() bool {
		for _, g := range u.object().Status.ProcessGroups {
			if g.ProcessGroupID == away.ProcessGroupID {
				return g.Has(v1beta2.ProcessGroupConditionReady)
			}
		}
		f.fail("%s was removed", away.ProcessGroupID)
		return false
	})
	f.settle(time.Hour)
	for _, g := range u.object().Status.ProcessGroups {
		if g.ProcessGroupID == away.ProcessGroupID && g.Marked() {
			f.fail("%s is replaced", g.ProcessGroupID)
		}
	}
	f.settled()
	f.kept()
}

// podAt is the pod that has an IP.
func (u *unit) podAt(ip string) string {
	u.f.t.Helper()
	for _, g := range u.object().Status.ProcessGroups {
		if slices.Contains(g.Addresses, ip) {
			return u.name + "-" + string(g.ProcessGroupID)
		}
	}
	u.f.t.Fatalf("no pod at %s", ip)
	return ""
}
