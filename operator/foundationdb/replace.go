package foundationdb

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

// ReplaceFacts are what ReplaceFailed needs besides the object.
type ReplaceFacts struct {
	// Available: the database is. Otherwise nothing is replaced.
	Available bool `json:"available"`
	// FullFaultTolerance: no replica is missing.
	FullFaultTolerance bool `json:"fullFaultTolerance"`
	// Upgrading: a server that starts now speaks another protocol than the database, so that nothing can take the
	// place of servers that do not report.
	Upgrading bool `json:"upgrading,omitempty"`
	// MaintenanceZone is the zone under maintenance. Empty: none.
	MaintenanceZone string `json:"maintenanceZone,omitempty"`
	// Waiting are marked groups that serve and whose exclusion cannot begin, as their class has too few others. Nothing of
	// them moves, so that they do not count where a group of such a class is silent: they wait for what takes its place.
	Waiting []v1beta2.ProcessGroupID `json:"waiting,omitempty"`
}

// Replacement says which failed groups are to be marked for removal, so that others are made in their place.
type Replacement struct {
	Marked []v1beta2.ProcessGroupID `json:"marked,omitempty"`
	// Skipped are those of Marked that are removed without exclusion: they were never in the database.
	Skipped []v1beta2.ProcessGroupID `json:"skipped,omitempty"`
	// More: other groups have failed as well, and the budget is used up.
	More bool `json:"more,omitempty"`
}

// ReplaceFailed chooses the groups that have failed for too long, in the order of the status, within
// replacements.maxConcurrentReplacements; groups that were marked before and whose exclusion is not finished
// count, but for those that wait for what is to be replaced. With faultDomainBasedReplacements all groups of a zone count as one. Groups that crash on purpose and
// storage in the zone under maintenance are left alone. A group that no exclusion can name, because it has no
// address and the version knows no localities, is replaced only with full fault tolerance.
func ReplaceFailed(c *v1beta2.FoundationDBCluster, f ReplaceFacts, now time.Time) Replacement {
	options := c.Spec.AutomationOptions.Replacements
	b := budget{most: or(options.MaxConcurrentReplacements, defaultReplacements), byZone: or(options.FaultDomainBasedReplacements, false), zones: map[string]bool{}}
	moving, short := b, map[v1beta2.ProcessClass]bool{} // without those that wait; their classes
	moving.zones = map[string]bool{}
	if !f.Available || !or(options.Enabled, true) || b.most <= 0 || c.Spec.Buggify.EmptyMonitorConf {
		return Replacement{}
	}
	for _, g := range c.Status.ProcessGroups {
		if g.Marked() && !g.Excluded() {
			b.use(g.FaultDomain)
			if slices.Contains(f.Waiting, g.ProcessGroupID) {
				short[g.ProcessClass] = true
			} else {
				moving.use(g.FaultDomain)
			}
		}
	}
	var r Replacement
	taints, localities := taintsCount(c), UsesLocalities(c)
	for _, g := range c.Status.ProcessGroups {
		if g.Marked() || !failed(g, options, taints, now) || CrashLoops(c.Spec.Buggify, g.ProcessGroupID) || underMaintenance(g, f.MaintenanceZone) || f.Upgrading && g.Has(v1beta2.MissingProcesses) {
			continue
		}
		unknown := len(g.Addresses) == 0 && !localities
		switch {
		case unknown && !f.FullFaultTolerance:
		case !b.allows(g.FaultDomain) && !(short[g.ProcessClass] && g.Has(v1beta2.MissingProcesses) && moving.allows(g.FaultDomain)):
			r.More = true
		default:
			b.use(g.FaultDomain)
			moving.use(g.FaultDomain)
			r.Marked = append(r.Marked, g.ProcessGroupID)
			if unknown {
				r.Skipped = append(r.Skipped, g.ProcessGroupID)
			}
		}
	}
	return r
}

// budget is how much may be replaced at once: groups, or zones.
type budget struct {
	most, used int
	byZone     bool
	zones      map[string]bool // in use, where zones count
}

func (b *budget) allows(zone string) bool { return b.used < b.most || b.zones[zone] }

func (b *budget) use(zone string) {
	if b.zones[zone] {
		return
	}
	b.used++
	if b.byZone && zone != "" {
		b.zones[zone] = true
	}
}

// ReplacedAt is when a group has failed for so long that it is replaced by itself, within the budget and while the
// database is available. False: it does not fail, it is marked already, or nothing is replaced by itself.
func ReplacedAt(c *v1beta2.FoundationDBCluster, g v1beta2.ProcessGroupStatus) (at time.Time, fails bool) {
	options := c.Spec.AutomationOptions.Replacements
	if g.Marked() || !or(options.Enabled, true) || or(options.MaxConcurrentReplacements, defaultReplacements) <= 0 {
		return time.Time{}, false
	}
	return failedAt(g, options, taintsCount(c))
}

// failedAt is when a group has failed for too long: of the first of its failures.
func failedAt(g v1beta2.ProcessGroupStatus, options v1beta2.ReplacementOptions, taints bool) (at time.Time, fails bool) {
	for _, condition := range g.ProcessGroupConditions {
		wait := seconds(or(options.FailureDetectionTimeSeconds, defaultFailureDetection))
		if condition.Type == v1beta2.NodeTaintReplacing {
			if !taints {
				continue
			}
			wait = seconds(or(options.TaintReplacementTimeSeconds, defaultTaintReplacement))
		}
		if end := time.Unix(condition.Timestamp, 0).Add(wait); failures[condition.Type] && (!fails || end.Before(at)) {
			at, fails = end, true
		}
	}
	return at, fails
}

// failed reports whether a group has failed for too long.
func failed(g v1beta2.ProcessGroupStatus, options v1beta2.ReplacementOptions, taints bool, now time.Time) bool {
	at, fails := failedAt(g, options, taints)
	return fails && now.After(at)
}

// CrashLoops reports whether a container of the group crashes on purpose.
func CrashLoops(b v1beta2.BuggifyConfig, id v1beta2.ProcessGroupID) bool {
	for _, c := range b.CrashLoopContainers {
		if Targets(c.Targets, id) {
			return true
		}
	}
	return Targets(b.CrashLoop, id)
}

// underMaintenance reports whether a group holds data in the zone under maintenance.
func underMaintenance(g v1beta2.ProcessGroupStatus, zone string) bool {
	return zone != "" && g.FaultDomain == zone && g.ProcessClass == v1beta2.ProcessClass(fdb.ClassStorage)
}

// UsesLocalities reports whether groups are excluded by their ids.
func UsesLocalities(c *v1beta2.FoundationDBCluster) bool {
	running, err := fdb.ParseVersion(either(c.Status.RunningVersion, c.Spec.Version))
	return err == nil && running.Has(fdb.FeatureLocalityExclusion) && or(c.Spec.AutomationOptions.UseLocalitiesForExclusion, true)
}

// taintsCount reports whether groups on tainted nodes are replaced: the spec says which taints count, and not so
// many zones are tainted that something else must be wrong.
func taintsCount(c *v1beta2.FoundationDBCluster) bool {
	if len(c.Spec.AutomationOptions.Replacements.TaintReplacementOptions) == 0 {
		return false
	}
	zones, tainted := map[string]bool{}, map[string]bool{}
	for _, g := range c.Status.ProcessGroups {
		if g.FaultDomain == "" {
			continue
		}
		zones[g.FaultDomain] = true
		if g.Has(v1beta2.NodeTaintReplacing) {
			tainted[g.FaultDomain] = true
		}
	}
	return len(tainted) <= TaintBudget(c.Spec, len(zones))
}

// TaintBudget returns how many of the fault domains may be tainted while groups on tainted nodes are still
// replaced: at least 1; percentages are rounded down. 0 for a value that is neither a number nor a percentage.
func TaintBudget(spec v1beta2.FoundationDBClusterSpec, faultDomains int) int {
	most := or(spec.AutomationOptions.Replacements.MaxFaultDomainsWithTaintedProcessGroups, intstr.FromString(defaultTaintedDomains))
	n, err := intstr.GetScaledValueFromIntOrPercent(&most, faultDomains, false)
	if err != nil {
		return 0
	}
	return max(1, n)
}
