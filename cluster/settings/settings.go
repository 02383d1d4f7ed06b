// Package settings holds what an administrator sets for container clusters: times,
// limits, policies and versions.
package settings

import (
	"cmp"
	"math"
	"time"

	"github.com/pawl-dev/pawl/cluster"
)

// Settings are times and limits. A zero field has the default in its comment.
type Settings struct {
	SyncEvery      time.Duration // between passes of the synchronization; 30 s
	CollectEvery   time.Duration // between passes of the collector; 5 m
	CollectFirst   time.Duration // how long the first pass of the collector waits for the first synchronization; half of CollectEvery
	GCFirst        time.Duration // pause after the first failed deletion, doubling to GCLongest; 5 m
	GCLongest      time.Duration // 6 h
	OrphanGrace    time.Duration // age from which an orphan is deleted; 1 h
	ReportAfter    int           // failed deletions until a resource is a leak; 5
	Settle         time.Duration // age of an intent from which a lookup that finds nothing is believed; 90 s
	MaxWorkers     int           // of one cluster; 100
	PerCluster     int           // concurrent VM calls of one cluster; 5
	PerProvider    int           // concurrent calls of one provider; 100
	MaxUnavailable int           // nodes that a recovery replaces at once; 1
	NoForceStop    bool
	RollbackScale  bool             // a failed scale removes its new nodes; default: they stay
	DrainBlocks    bool             // a node that does not drain in time is not removed
	Recovery       cluster.Recovery // default: restart
	OnFailure      cluster.OnFailure
	Tolerances     cluster.Tolerances
	Retention      cluster.Retention
	EndpointWait   time.Duration // 25 m
	JoinWait       time.Duration // 20 m
	CallTimeout    time.Duration // of one call to a provider; 60 s
	PollFirst      time.Duration // first pause between polls of a provider, growing to PollLongest; 1 s
	PollLongest    time.Duration // 15 s
	ResyncEvery    time.Duration // between queries for unsettled clusters; 5 s
}

// OrDefault returns the settings with defaults in place of zero fields.
func (t Settings) OrDefault() Settings {
	t.SyncEvery = cmp.Or(t.SyncEvery, 30*time.Second)
	t.CollectEvery = cmp.Or(t.CollectEvery, 5*time.Minute)
	t.CollectFirst = cmp.Or(t.CollectFirst, t.CollectEvery/2)
	t.GCFirst = cmp.Or(t.GCFirst, cluster.GCBackoff.Initial)
	t.GCLongest = cmp.Or(t.GCLongest, cluster.GCBackoff.Max)
	t.OrphanGrace = cmp.Or(t.OrphanGrace, time.Hour)
	t.ReportAfter = cmp.Or(t.ReportAfter, 5)
	t.Settle = cmp.Or(t.Settle, 90*time.Second)
	t.MaxWorkers = cmp.Or(t.MaxWorkers, cluster.MaxWorkers)
	t.PerCluster = cmp.Or(t.PerCluster, 5)
	t.PerProvider = cmp.Or(t.PerProvider, 100)
	t.MaxUnavailable = cmp.Or(t.MaxUnavailable, 1)
	t.OnFailure = cmp.Or(t.OnFailure, cluster.Rollback)
	t.EndpointWait = cmp.Or(t.EndpointWait, 25*time.Minute)
	t.JoinWait = cmp.Or(t.JoinWait, 20*time.Minute)
	t.CallTimeout = cmp.Or(t.CallTimeout, time.Minute)
	t.PollFirst = cmp.Or(t.PollFirst, time.Second)
	t.PollLongest = cmp.Or(t.PollLongest, 15*time.Second)
	t.ResyncEvery = cmp.Or(t.ResyncEvery, 5*time.Second)
	return t
}

// Health returns the tolerances of the synchronization with the recovery
// policy of these settings and the versions.
func (t Settings) Health(versions Versions) cluster.Tolerances {
	tolerances := t.Tolerances
	if tolerances.Policy == nil {
		tolerances.Policy = t.Recovery
	}
	tolerances.Versions = make(map[string]string, len(versions))
	for _, v := range versions {
		tolerances.Versions[v.ID] = v.Semantic
	}
	return tolerances
}

// Pause returns the pause before the next poll of a call of the given age. With
// the defaults it grows by 1 s per poll up to 15 s.
func (t Settings) Pause(age time.Duration) time.Duration {
	first, longest := t.PollFirst, t.PollLongest
	n := math.Floor(math.Sqrt(2*max(age.Seconds(), 0)/first.Seconds())) + 1
	return min(time.Duration(n*float64(first)), longest)
}
