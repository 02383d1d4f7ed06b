package report

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/kube/condition"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters"
	"github.com/pawl-dev/pawl/view/fdbview"
)

// Of tells a cluster.
func Of(f Facts) Cluster {
	c := f.Cluster
	s := c.Status
	v := Cluster{
		Kind: ClusterKind, Namespace: c.Namespace, Name: c.Name, Generation: c.Generation, CreatedAt: c.CreationTimestamp.UTC(),
		Version: c.Spec.Version, RunningVersion: s.RunningVersion, Configured: s.Configured, Available: s.Health.Available,
		FullReplication: s.Health.FullReplication, DesiredGroups: s.DesiredProcessGroups, ReconciledGroups: s.ReconciledProcessGroups,
		MaintenanceZone: s.MaintenanceModeInfo.ZoneID, Coordinators: coordinatorsOf(c), Plan: PlanOf(c),
	}
	v.State, v.Reason, v.Message = stateOf(c)
	wanted := desiredConfiguration(c)
	v.DesiredConfiguration = wanted.Text()
	if s.DatabaseConfiguration.RedundancyMode != "" {
		live := foundationdb.ConfigurationOf(s.DatabaseConfiguration)
		v.Configuration = live.Text()
		if !wanted.Differs(live) {
			v.DesiredConfiguration = ""
		}
	}
	v.Ready, v.Reconciled = meta.IsStatusConditionTrue(s.Conditions, condition.TypeReady), s.Generations.Reconciled == c.Generation
	v.Classes = classesOf(c, v.Plan)
	for _, class := range v.Classes {
		for _, zone := range class.Zones {
			for _, g := range zone.Groups {
				if len(g.Conditions) > 0 {
					v.Problems++
				}
			}
		}
	}
	return v
}

func desiredConfiguration(c *v1beta2.FoundationDBCluster) fdb.Configuration {
	wanted := foundationdb.ConfigurationOf(foundationdb.Effective(c.Spec).DatabaseConfiguration)
	wanted.RoleCounts = wanted.Counts()
	return wanted
}

// stateOf says in a word how a cluster is, and why.
func stateOf(c *v1beta2.FoundationDBCluster) (state, reason, message string) {
	is := func(kind string, status metav1.ConditionStatus) *metav1.Condition {
		if found := meta.FindStatusCondition(c.Status.Conditions, kind); found != nil && found.Status == status {
			return found
		}
		return nil
	}
	progressing := is("Progressing", metav1.ConditionTrue)
	if progressing != nil {
		reason, message = progressing.Reason, progressing.Message
	}
	reconciled := meta.FindStatusCondition(c.Status.Conditions, clusters.TypeReconciled)
	switch {
	case c.DeletionTimestamp != nil:
		return "Deleting", "", ""
	case c.Spec.Skip:
		return "Paused", "Skipped", "spec.skip is set: nothing is done"
	case len(c.Status.Conditions) == 0 && c.Status.Generations.Reconciled == 0:
		return "New", "", "no operator has looked at it yet"
	case reconciled != nil && reconciled.Reason == foundationdb.SpecInvalid.Reason():
		return "Refused", reconciled.Reason, reconciled.Message
	case !c.Status.Configured:
		return "Creating", reason, message
	case is(clusters.TypeAvailable, metav1.ConditionUnknown) != nil:
		silent := is(clusters.TypeAvailable, metav1.ConditionUnknown)
		return "Unavailable", silent.Reason, silent.Message
	case !c.Status.Health.Available:
		return "Unavailable", cmp.Or(reason, fdb.DatabaseUnavailable), message
	case c.Status.Generations.Reconciled == c.Generation:
		return "Reconciled", "", ""
	}
	if message == "" && reconciled != nil {
		reason, message = reconciled.Reason, reconciled.Message
	}
	return "Progressing", reason, message
}

func coordinatorsOf(c *v1beta2.FoundationDBCluster) []Coordinator {
	found := []Coordinator{}
	connection, err := fdb.ParseConnection(c.Status.ConnectionString)
	if err != nil {
		return found
	}
	for _, a := range connection.Coordinators {
		found = append(found, Coordinator{Address: a.String(), Group: string(groupAt(c, a.Host))})
	}
	return found
}

// groupAt is the group with an address or a DNS name; "": none.
func groupAt(c *v1beta2.FoundationDBCluster, host string) v1beta2.ProcessGroupID {
	for _, g := range c.Status.ProcessGroups {
		if slices.Contains(g.Addresses, host) {
			return g.ProcessGroupID
		}
		if id, err := fdb.ParseGroupID(string(g.ProcessGroupID)); err == nil && strings.EqualFold(foundationdb.DNSName(c, id), host) {
			return g.ProcessGroupID
		}
	}
	return ""
}

func classesOf(c *v1beta2.FoundationDBCluster, plan Plan) []Class {
	desired := foundationdb.Groups(foundationdb.Effective(c.Spec))
	byClass := map[fdb.Class]map[string][]Group{}
	for _, g := range c.Status.ProcessGroups {
		class := fdb.Class(g.ProcessClass)
		if byClass[class] == nil {
			byClass[class] = map[string][]Group{}
		}
		byClass[class][g.FaultDomain] = append(byClass[class][g.FaultDomain], groupOf(c, g, plan))
	}
	for class, n := range desired {
		if n > 0 && byClass[class] == nil {
			byClass[class] = nil
		}
	}
	classes := []Class{}
	for _, class := range slices.SortedFunc(maps.Keys(byClass), byImportance) {
		v := Class{Name: string(class), Desired: max(0, desired[class]), Zones: []Zone{}}
		for _, zone := range slices.Sorted(maps.Keys(byClass[class])) {
			groups := byClass[class][zone]
			slices.SortFunc(groups, func(a, b Group) int { return natural(a.ID, b.ID) })
			v.Zones = append(v.Zones, Zone{Name: zone, Groups: groups})
		}
		classes = append(classes, v)
	}
	return classes
}

// byImportance puts what keeps data first.
func byImportance(a, b fdb.Class) int {
	rank := func(c fdb.Class) int {
		switch {
		case c == fdb.ClassStorage:
			return 0
		case c.Stateful():
			return 1
		}
		return 2
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b))
}

var number = regexp.MustCompile(`[0-9]+$`)

// natural orders storage-2 before storage-10.
func natural(a, b string) int {
	x, y := number.FindString(a), number.FindString(b)
	return cmp.Or(cmp.Compare(strings.TrimSuffix(a, x), strings.TrimSuffix(b, y)), cmp.Compare(len(x), len(y)), cmp.Compare(x, y))
}

func groupOf(c *v1beta2.FoundationDBCluster, g v1beta2.ProcessGroupStatus, plan Plan) Group {
	v := Group{ID: string(g.ProcessGroupID), Addresses: g.Addresses, State: fdbview.Serves}
	for _, is := range g.ProcessGroupConditions {
		if is.Type != v1beta2.ProcessGroupConditionReady {
			v.Conditions = append(v.Conditions, Condition{Type: string(is.Type), Since: time.Unix(is.Timestamp, 0).UTC()})
		}
	}
	switch {
	case g.Marked() && g.ExclusionSkipped:
		v.State = fdbview.Skipped
	case g.Marked() && g.Excluded():
		v.State = fdbview.Drained
	case g.Marked():
		v.State = fdbview.Draining
	case len(v.Conditions) > 0:
		v.State = fdbview.Wrong
	}
	if g.Marked() {
		v.Since = g.RemovalTimestamp.UTC()
	}
	pod := ""
	if id, err := fdb.ParseGroupID(v.ID); err == nil {
		pod = foundationdb.PodName(c, id)
	}
	for _, e := range plan.Entries {
		if slices.Contains(e.Targets, v.ID) || pod != "" && slices.Contains(e.Targets, pod) || slices.Contains(e.Targets, fdb.LocalityPrefix+fdb.InstanceLocality+":"+v.ID) {
			v.Plan = append(v.Plan, e.Brief())
		}
	}
	return v
}
