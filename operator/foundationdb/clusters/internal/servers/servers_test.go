package servers

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

// What is excluded starts a recovery where others have to be recruited, also when only a storage server is excluded: an
// act that needs a quiet database must wait for the next status.
func TestExclusionsThatStartARecovery(t *testing.T) {
	server := func(id string, roles ...string) fdb.Process {
		p := fdb.Process{Locality: map[string]string{fdb.InstanceLocality: id}, Roles: []fdb.Role{}}
		for _, r := range roles {
			p.Roles = append(p.Roles, fdb.Role{Role: r})
		}
		return p
	}
	unknown := server("storage-5")
	unknown.Roles = nil
	s := Servers{Status: &fdb.Status{Cluster: fdb.ClusterStatus{Processes: fdb.Processes{
		server("storage-1", "storage"), server("storage-2", "storage", "resolver"), server("storage-3", "coordinator"), server("storage-4"), unknown,
		server("storage-6", "storage"), server("storage-6", "storage", "commit_proxy"),
	}}}}
	for id, want := range map[string]bool{
		"storage-1": false, "storage-2": true, "storage-3": false, "storage-4": false, "storage-5": true, "storage-6": true, "storage-7": false,
		"log-1": true, "stateless-1": true, "no id": true,
	} {
		if got := s.StartsRecovery(id); got != want {
			t.Errorf("%s: %t, want %t", id, got, want)
		}
	}
}

// What falls behind a moment ago may have its files soon: Last tells it from what never gets them.
func TestRestartTellsWhenTheLastGroupFellBehind(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	var s Servers
	s.Now, s.Cluster = now, &v1beta2.FoundationDBCluster{}
	for id, ago := range map[v1beta2.ProcessGroupID]time.Duration{"log-1": time.Hour, "log-2": time.Minute, "log-3": 2 * time.Minute, "log-4": 0} {
		g := &v1beta2.ProcessGroupStatus{ProcessGroupID: id, ProcessClass: "log"}
		if ago > 0 {
			g.ProcessGroupConditions = []v1beta2.ProcessGroupCondition{{Type: v1beta2.IncorrectConfigMap, Timestamp: now.Add(-ago).Unix()}}
		}
		s.Cluster.Status.ProcessGroups = append(s.Cluster.Status.ProcessGroups, *g)
	}
	r := s.Restart()
	if len(r.Behind) != 3 || !r.Since.Equal(now.Add(-time.Hour)) || !r.Last.Equal(now.Add(-time.Minute)) {
		t.Errorf("%v since %s, last %s", r.Behind, now.Sub(r.Since), now.Sub(r.Last))
	}
}
