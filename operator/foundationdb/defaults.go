package foundationdb

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

// Defaults of the spec.
const (
	defaultUptime              = 600   // minimumUptimeSecondsForBounce
	defaultFailureDetection    = 7200  // replacements.failureDetectionTimeSeconds
	defaultTaintReplacement    = 1800  // replacements.taintReplacementTimeSeconds
	defaultReplacements        = 1     // replacements.maxConcurrentReplacements
	defaultTaintedDomains      = "10%" // replacements.maxFaultDomainsWithTaintedProcessGroups
	defaultIgnorePending       = 5 * time.Minute
	defaultIgnoreTerminating   = 600
	defaultIgnoreMissing       = 30
	defaultFailedPod           = 300
	defaultWaitBetweenRemovals = 60
	defaultMaintenance         = 600
	defaultLockMinutes         = 10
	defaultDNSDomain           = "cluster.local"
	defaultAgents              = 2
	publishedLogGroup          = "fdb-kubernetes-operator" // of another operator's clients
	ownLogGroup                = "pawl"                    // of our tools
)

// or returns what p points to, or the default.
func or[T any](p *T, value T) T {
	if p == nil {
		return value
	}
	return *p
}

// filled returns p, or a pointer to the default.
func filled[T any](p *T, value T) *T {
	if p == nil {
		return &value
	}
	return p
}

// either returns the value, or the default for the zero value.
func either[T comparable](value, otherwise T) T {
	var zero T
	if value == zero {
		return otherwise
	}
	return value
}

// Effective returns the spec with its defaults filled in and old fields folded into new ones. What is computed
// (Roles, Groups) or named after the object (log group, match labels) is left as it is. The spec is not changed.
func Effective(spec v1beta2.FoundationDBClusterSpec) v1beta2.FoundationDBClusterSpec {
	s := *spec.DeepCopy()
	d := &s.DatabaseConfiguration
	d.RedundancyMode = either(d.RedundancyMode, string(fdb.Double))
	d.StorageEngine = either(d.StorageEngine, fdb.DefaultEngine)
	d.UsableRegions = max(1, d.UsableRegions)

	s.FaultDomain.Key = either(s.FaultDomain.Key, hostDomain)
	s.ImageType = either(s.ImageType, v1beta2.ImageTypeUnified)
	s.StorageServersPerPod = max(1, s.StorageServersPerPod)
	s.LogServersPerPod = max(1, s.LogServersPerPod)
	s.MinimumUptimeSecondsForBounce = either(s.MinimumUptimeSecondsForBounce, defaultUptime)
	s.ReplaceInstancesWhenResourcesChange = filled(s.ReplaceInstancesWhenResourcesChange, false)
	s.UseExplicitListenAddress = filled(s.UseExplicitListenAddress, true)
	s.LockOptions.LockDurationMinutes = filled(s.LockOptions.LockDurationMinutes, defaultLockMinutes)

	l := &s.Labels
	if len(l.ProcessGroupIDLabels) == 0 {
		l.ProcessGroupIDLabels = []string{GroupLabel}
	}
	if len(l.ProcessClassLabels) == 0 {
		l.ProcessClassLabels = []string{ClassLabel}
	}
	l.FilterOnOwnerReference = filled(l.FilterOnOwnerReference, false)

	r := &s.Routing
	r.PublicIPSource = either(r.PublicIPSource, v1beta2.PublicIPPod)
	r.UseDNSInClusterFile = filled(r.UseDNSInClusterFile, true)
	dns := DefinesDNS(spec)
	r.DefineDNSLocalityFields = &dns
	r.HeadlessService = filled(r.HeadlessService, dns)
	r.DNSDomain = either(r.DNSDomain, defaultDNSDomain)

	s.SidecarContainer.EnableLivenessProbe = filled(s.SidecarContainer.EnableLivenessProbe, true)
	s.SidecarContainer.EnableReadinessProbe = filled(s.SidecarContainer.EnableReadinessProbe, false)
	if s.ImageType == v1beta2.ImageTypeSplit {
		s.MainContainer.ImageConfigs = withDefaultImage(s.MainContainer.ImageConfigs, v1beta2.ImageConfig{BaseImage: mainImage})
		s.SidecarContainer.ImageConfigs = withDefaultImage(s.SidecarContainer.ImageConfigs, v1beta2.ImageConfig{BaseImage: sidecarImage, TagSuffix: sidecarSuffix})
	} else {
		s.MainContainer.ImageConfigs = withDefaultImage(s.MainContainer.ImageConfigs, v1beta2.ImageConfig{BaseImage: unifiedImage})
	}

	fillAutomation(&s.AutomationOptions)
	foldCrashLoop(&s.Buggify)
	return s
}

func fillAutomation(a *v1beta2.AutomationOptions) {
	a.ConfigureDatabase = filled(a.ConfigureDatabase, true)
	a.KillProcesses = filled(a.KillProcesses, true)
	a.CacheDatabaseStatusForReconciliation = filled(a.CacheDatabaseStatusForReconciliation, true)
	a.UseLocalitiesForExclusion = filled(a.UseLocalitiesForExclusion, true)
	a.IgnorePendingPodsDuration = either(a.IgnorePendingPodsDuration, defaultIgnorePending)
	a.IgnoreTerminatingPodsSeconds = filled(a.IgnoreTerminatingPodsSeconds, defaultIgnoreTerminating)
	a.IgnoreMissingProcessesSeconds = filled(a.IgnoreMissingProcessesSeconds, defaultIgnoreMissing)
	a.FailedPodDurationSeconds = filled(a.FailedPodDurationSeconds, defaultFailedPod)
	a.WaitBetweenRemovalsSeconds = filled(a.WaitBetweenRemovalsSeconds, defaultWaitBetweenRemovals)
	a.DeletionMode = either(a.DeletionMode, v1beta2.PodUpdateZone)
	a.RemovalMode = either(a.RemovalMode, v1beta2.PodUpdateZone)
	a.PodUpdateStrategy = either(a.PodUpdateStrategy, v1beta2.PodUpdateReplaceTransactionSystem)
	a.SynchronizationMode = either(a.SynchronizationMode, v1beta2.SynchronizationLocal)
	if len(a.IgnoreLogGroupsForUpgrade) == 0 {
		a.IgnoreLogGroupsForUpgrade = []v1beta2.LogGroup{publishedLogGroup, ownLogGroup}
	}

	r := &a.Replacements
	r.Enabled = filled(r.Enabled, true)
	r.FaultDomainBasedReplacements = filled(r.FaultDomainBasedReplacements, false)
	r.FailureDetectionTimeSeconds = filled(r.FailureDetectionTimeSeconds, defaultFailureDetection)
	r.TaintReplacementTimeSeconds = filled(r.TaintReplacementTimeSeconds, defaultTaintReplacement)
	r.MaxConcurrentReplacements = filled(r.MaxConcurrentReplacements, defaultReplacements)
	r.MaxFaultDomainsWithTaintedProcessGroups = filled(r.MaxFaultDomainsWithTaintedProcessGroups, intstr.FromString(defaultTaintedDomains))

	m := &a.MaintenanceModeOptions
	m.UseMaintenanceModeChecker = filled(m.UseMaintenanceModeChecker, false)
	m.ResetMaintenanceMode = filled(m.ResetMaintenanceMode, *m.UseMaintenanceModeChecker)
	m.MaintenanceModeTimeSeconds = filled(m.MaintenanceModeTimeSeconds, defaultMaintenance)
}

// foldCrashLoop moves the groups of the old field crashLoop to those of the main container.
func foldCrashLoop(b *v1beta2.BuggifyConfig) {
	if len(b.CrashLoop) == 0 {
		return
	}
	i := slices.IndexFunc(b.CrashLoopContainers, func(c v1beta2.CrashLoopContainer) bool { return c.ContainerName == MainContainer })
	if i < 0 {
		i = len(b.CrashLoopContainers)
		b.CrashLoopContainers = append(b.CrashLoopContainers, v1beta2.CrashLoopContainer{ContainerName: MainContainer})
	}
	c := &b.CrashLoopContainers[i]
	for _, target := range b.CrashLoop {
		if !slices.Contains(c.Targets, target) {
			c.Targets = append(c.Targets, target)
		}
	}
	b.CrashLoop = nil
}

// DefinesDNS reports whether processes have the locality dns_name.
func DefinesDNS(spec v1beta2.FoundationDBClusterSpec) bool {
	return or(spec.Routing.UseDNSInClusterFile, true) || or(spec.Routing.DefineDNSLocalityFields, false)
}

// UsesLocks reports whether the operators of a database exclude each other: where several objects may share it,
// or as the spec says.
func UsesLocks(spec v1beta2.FoundationDBClusterSpec) bool {
	if disabled := spec.LockOptions.DisableLocks; disabled != nil {
		return !*disabled
	}
	d := spec.DatabaseConfiguration
	return spec.FaultDomain.ZoneCount > 1 || len(d.Regions) > 1 || d.RedundancyMode == string(fdb.ThreeDataHall)
}
