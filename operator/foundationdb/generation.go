package foundationdb

import (
	"reflect"
	"slices"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

// GenerationFacts are what a pass has read and the status does not hold yet. The zero value: all stands in the
// status.
type GenerationFacts struct {
	// DatabaseConfiguration is the live one. nil: that of the status.
	DatabaseConfiguration *fdb.Configuration `json:"databaseConfiguration,omitempty"`
	// LockDenyList is that of the database. nil: that of the status.
	LockDenyList []string `json:"lockDenyList,omitempty"`
}

// Generations returns what the cluster still needs, each as the generation of the object, and whether it is
// reconciled: it needs nothing, or waits for groups only that are excluded and terminating. The generation that
// was reconciled last stays until another one is.
func Generations(c *v1beta2.FoundationDBCluster, f GenerationFacts) (v1beta2.ClusterGenerationStatus, bool) {
	var g v1beta2.ClusterGenerationStatus
	need := func(field *int64, when bool) {
		if when {
			*field = c.Generation
		}
	}
	counts := Groups(c.Spec)
	for _, group := range c.Status.ProcessGroups {
		if group.Marked() {
			leaves := group.Has(v1beta2.ResourcesTerminating) && group.Excluded()
			need(&g.HasPendingRemoval, leaves)
			need(&g.NeedsShrink, !leaves)
			continue
		}
		class := fdb.Class(group.ProcessClass)
		counts[class] = max(0, counts[class]) - 1
		if counts[class] < 0 {
			g.NeedsShrink = c.Generation
			counts[class] = 0
		}
		for _, condition := range group.ProcessGroupConditions {
			need(&g.NeedsBounce, condition.Type == v1beta2.IncorrectCommandLine)
			need(&g.NeedsPodDeletion, condition.Type == v1beta2.IncorrectPodSpec)
			need(&g.HasUnhealthyProcess, condition.Type != v1beta2.ProcessGroupConditionReady && condition.Type != v1beta2.ProcessHasHighRunLoopBusy)
		}
	}
	for _, missing := range counts {
		need(&g.NeedsGrow, missing > 0)
	}

	s := c.Status
	need(&g.NeedsConfigurationChange, !s.Configured || needsConfiguration(c, f))
	need(&g.NeedsCoordinatorChange, s.NeedsNewCoordinators)
	need(&g.NeedsMonitorConfUpdate, s.HasIncorrectConfigMap)
	need(&g.NeedsServiceUpdate, s.HasIncorrectServiceConfig)
	need(&g.MissingDatabaseStatus, !s.Health.Available)
	need(&g.HasExtraListeners, ConvertsTLS(c))
	need(&g.NeedsLockConfigurationChanges, needsDenyList(c, f))

	missing := g
	missing.HasPendingRemoval = 0
	reconciled := missing == v1beta2.ClusterGenerationStatus{}
	g.Reconciled = c.Status.Generations.Reconciled
	need(&g.Reconciled, reconciled)
	return g, reconciled
}

// needsConfiguration reports whether the database is configured otherwise than the spec says. One whose
// configuration was never read is.
func needsConfiguration(c *v1beta2.FoundationDBCluster, f GenerationFacts) bool {
	live := ConfigurationOf(c.Status.DatabaseConfiguration)
	if f.DatabaseConfiguration != nil {
		live = *f.DatabaseConfiguration
	}
	return reflect.ValueOf(live).IsZero() || ConfigurationOf(c.Spec.DatabaseConfiguration).Differs(live)
}

// needsDenyList reports whether an entry of the spec is not in the database yet, or one that is allowed again
// still is. Other entries of the database do not count.
func needsDenyList(c *v1beta2.FoundationDBCluster, f GenerationFacts) bool {
	list := f.LockDenyList
	if list == nil {
		list = c.Status.Locks.LockDenyList
	}
	return slices.ContainsFunc(c.Spec.LockOptions.DenyList, func(e v1beta2.LockDenyEntry) bool {
		return slices.Contains(list, e.ID) == e.Allow
	})
}
