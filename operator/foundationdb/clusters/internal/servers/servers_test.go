package servers

import (
	"testing"

	"github.com/pawl-dev/pawl/fdb"
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
