package probe

import (
	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters/internal/servers"
)

// Observe takes over into the status of a cluster what its database says of itself. It returns the connection string, if
// the database has told one.
func Observe(all servers.Servers) (connection fdb.Connection, told bool) {
	s := &all.Cluster.Status
	if all.Status == nil {
		s.Health.Available, s.Health.Healthy = false, false
		return connection, false
	}
	d := all.Status
	s.Health = v1beta2.ClusterHealth{
		Available: yes(d.Client.DatabaseStatus.Available), Healthy: yes(d.Client.DatabaseStatus.Healthy),
		FullReplication: yes(d.Cluster.FullReplication), DataMovementPriority: number(d.Cluster.Data.MovingData.HighestPriority),
	}
	counts := map[string]int{}
	for _, processes := range all.Processes {
		for _, process := range processes {
			if process.Version != "" && process.Class != fdb.ClassTest {
				counts[process.Version]++
			}
		}
	}
	s.RunningVersion = fdb.RunningVersion(counts, s.RunningVersion)
	if !s.Health.Available {
		return connection, false
	}
	missing := d.Cluster.Layers.Error == ConfigurationMissing
	s.Configured = s.Configured || !missing
	if live := d.Cluster.Configuration; live != nil && !missing {
		s.DatabaseConfiguration = foundationdb.ConfigurationIn(live.Normalized())
	}
	connection, err := fdb.ParseConnection(d.Cluster.ConnectionString)
	told = err == nil
	if verdict, err := fdb.JudgeCoordinators(d, foundationdb.Wish(all.Cluster)); err == nil {
		s.NeedsNewCoordinators = !verdict.Valid
	}
	return connection, told
}

// ConfigurationMissing is what layers say while there is no configuration (fdbserver/Status.actor.cpp at
// 7.3.69).
const ConfigurationMissing = "configurationMissing"

func yes(b *bool) bool { return b != nil && *b }

func number(n *int) int {
	if n == nil {
		return 0
	}
	return *n
}
