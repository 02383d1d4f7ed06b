package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/chain"
	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/view/fdbview"
)

// Severity says how bad a finding is.
type Severity string

// The severities, from the worst.
const (
	Error   Severity = "error"   // it does not mend itself, or the database does not serve
	Warning Severity = "warning" // it may become an error
	Info    Severity = "info"    // to be known
)

// Finding is something that is wrong with a cluster, and the command that mends it.
type Finding struct {
	Severity Severity `json:"severity"`
	Code     string   `json:"code"` // the reason, in CamelCase
	Message  string   `json:"message"`
	Groups   []string `json:"groups,omitempty"`
	// Command mends it, or shows more; "": nothing is to be done by hand.
	Command string `json:"command,omitempty"`
	// Replaces: --fix marks Groups for removal, so that others are made in their place.
	Replaces bool `json:"replaces,omitempty"`
}

// Analysis is what is wrong with a cluster.
type Analysis struct {
	Cluster  string    `json:"cluster"` // namespace/name
	State    string    `json:"state"`
	Database string    `json:"database"` // what was read of it: its status document, or why there is none
	Findings []Finding `json:"findings"`
}

// Exit is 4 when something does not mend itself.
func (a Analysis) Exit() int {
	if slices.ContainsFunc(a.Findings, func(f Finding) bool { return f.Severity == Error }) {
		return view.ExitRemedy
	}
	return view.ExitDone
}

// Text is the analysis for people.
func (a Analysis) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "cluster %s  %s\n", a.Cluster, a.State)
	if a.Database != "" {
		fmt.Fprintf(&b, "  database: %s\n", a.Database)
	}
	if len(a.Findings) == 0 {
		b.WriteString("  ✔ nothing is wrong\n")
	}
	for _, f := range a.Findings {
		mark := map[Severity]string{Error: "✖", Warning: "!", Info: "·"}[f.Severity]
		fmt.Fprintf(&b, "  %s %s\n", mark, fdbview.Because(f.Code, f.Message))
		if len(f.Groups) > 0 {
			fmt.Fprintf(&b, "      groups: %s\n", some(f.Groups))
		}
		if f.Command != "" {
			fmt.Fprintf(&b, "      mend:   %s\n", f.Command)
		}
	}
	return b.String()
}

// some lists names, at most 20 of them.
func some(names []string) string {
	const most = 20
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
}

// analysis collects findings.
type analysis struct {
	Facts
	found []Finding
}

func (a *analysis) add(severity Severity, code, command string, groups []string, format string, args ...any) *Finding {
	a.found = append(a.found, Finding{Severity: severity, Code: code, Message: fmt.Sprintf(format, args...), Groups: groups, Command: command})
	return &a.found[len(a.found)-1]
}

// command is a line that a person can call for this cluster.
func (a *analysis) command(format string, args ...any) string {
	line, behind, found := strings.Cut(fmt.Sprintf("pawl "+format, args...), " -- ")
	line += " -n " + a.Cluster.Namespace
	if found {
		line += " -- " + behind
	}
	return line
}

// Analyze says what is wrong with a cluster, the worst first.
func Analyze(f Facts) Analysis {
	a := &analysis{Facts: f}
	a.object()
	a.conditions()
	a.groups()
	a.pods()
	a.database()
	rank := map[Severity]int{Error: 0, Warning: 1, Info: 2}
	slices.SortStableFunc(a.found, func(x, y Finding) int { return cmp.Compare(rank[x.Severity], rank[y.Severity]) })
	state, reason, message := stateOf(f.Cluster)
	if why := fdbview.Because(reason, message); why != "" {
		state += "  " + why
	}
	database := f.Silence
	if f.Status != nil {
		database = fmt.Sprintf("%d processes report", len(f.Status.Cluster.Processes))
	}
	if a.found == nil {
		a.found = []Finding{}
	}
	return Analysis{Cluster: f.Cluster.Namespace + "/" + f.Cluster.Name, State: state, Database: database, Findings: a.found}
}

// object looks at the object alone.
func (a *analysis) object() {
	c := a.Cluster
	edit := a.command("edit fdb %s", c.Name)
	for _, p := range foundationdb.Validate(c) {
		a.add(Error, foundationdb.SpecInvalid.Reason(), edit, nil, "%s", p)
	}
	for _, p := range foundationdb.Warnings(c) {
		a.add(Warning, "SpecWarning", edit, nil, "%s", p)
	}
	if c.Spec.Skip {
		a.add(Error, "Skipped", edit, nil, "spec.skip is set: the operator does nothing")
	}
	if b := c.Spec.Buggify; len(b.NoSchedule)+len(b.CrashLoop)+len(b.CrashLoopContainers)+len(b.IgnoreDuringRestart)+len(b.BlockRemoval) > 0 || b.EmptyMonitorConf {
		a.add(Warning, "Buggified", a.command("fdb buggify off %s", c.Name), nil, "spec.buggify does harm on purpose")
	}
	if c.Status.ObservedGeneration > 0 && c.Status.ObservedGeneration < c.Generation {
		a.add(Info, "NotObserved", "", nil, "the operator has seen generation %d, and the object has %d", c.Status.ObservedGeneration, c.Generation)
	}
	for _, d := range Deprecated(c) {
		a.add(Info, "Deprecated", a.command("fdb deprecation %s", c.Name), nil, "%s: %s", d.Field, d.Instead)
	}
}

// conditions looks at what the operator says.
func (a *analysis) conditions() {
	c := a.Cluster
	if len(c.Status.Conditions) == 0 {
		a.add(Warning, "NotObserved", "", nil, "no operator of Pawl has looked at it: see whether pawl operator runs for namespace %s", c.Namespace)
	}
	plan := PlanOf(c)
	is := func(kind string, status metav1.ConditionStatus) *metav1.Condition {
		if found := meta.FindStatusCondition(c.Status.Conditions, kind); found != nil && found.Status == status {
			return found
		}
		return nil
	}
	if held := is(clusters.TypeUpgradeBlocked, metav1.ConditionTrue); held != nil {
		a.add(Error, held.Reason, a.command("fdb cli %s -- status details", c.Name), nil, "%s: update these clients", held.Message)
	}
	if held := is(clusters.TypeAdopted, metav1.ConditionFalse); held != nil {
		a.add(Error, held.Reason, a.command("fdb approve %s %s", c.Name, cmp.Or(plan.Hash, "HASH")), nil, "%s", held.Message)
	} else if plan.Held() {
		a.add(Error, chain.ReasonHeld, a.command("fdb approve %s %s", c.Name, cmp.Or(plan.Hash, "HASH")), nil, "links are held (%s): look at pawl fdb plan %s", plan.Hold, c.Name)
	}
	if going := is("Progressing", metav1.ConditionTrue); going != nil && going.Reason == clusters.TwoOperators.Reason() {
		a.add(Error, going.Reason, a.command("annotate fdb %s %s=seen --overwrite", c.Name, clusters.AdoptedAnnotation), nil, "another program writes the status: stop it first")
	}
	if ignored := is(clusters.TypeFieldsIgnored, metav1.ConditionTrue); ignored != nil {
		a.add(Info, ignored.Reason, "", nil, "fields without an effect: %s", ignored.Message)
	}
	if c.Status.Configured && !c.Status.Health.Available && a.Status == nil {
		a.add(Error, fdb.DatabaseUnavailable, a.command("fdb cli %s -- status details", c.Name), nil, "the database is not available, says the status of the object")
	} else if c.Status.Configured && !c.Status.Health.FullReplication && a.Status == nil {
		a.add(Warning, "ReplicasMissing", a.command("fdb exclusion-status %s", c.Name), nil, "data has fewer replicas than it should have")
	}
	for _, e := range plan.Entries {
		if e.Reason == clusters.CoordinatorsMoved {
			a.add(Error, e.Reason, a.command("fdb fix-coordinator-ips %s", c.Name), nil, "%s", fdbview.Because("", e.Message))
			continue
		}
		if !e.Now && e.Reason != chain.ReasonHeld && e.Reason != "Behind" && e.Reason != "" {
			waits := ""
			if !e.Since.IsZero() {
				waits = " since " + view.Age(a.Now.Sub(e.Since))
			}
			a.add(Info, e.Reason, "", nil, "%s waits%s: %s", e.Link, waits, fdbview.Because("", cmp.Or(e.Message, e.Action)))
		}
	}
}

// what mends a condition of a group.
var mending = map[v1beta2.ProcessGroupConditionType]struct {
	severity Severity
	message  string
	command  string // %s: the groups; of the cluster
	replaces bool
}{
	v1beta2.MissingProcesses:          {Error, "servers do not report", "fdb remove process-groups -c %s", true},
	v1beta2.PodFailing:                {Error, "pods fail", "fdb remove process-groups -c %s", true},
	v1beta2.ProcessHasIOError:         {Error, "disks fail", "fdb remove process-groups -c %s", true},
	v1beta2.MissingPod:                {Warning, "pods are missing: the operator makes them", "", false},
	v1beta2.MissingPVC:                {Warning, "claims are missing: the operator makes them", "", false},
	v1beta2.MissingService:            {Warning, "services are missing: the operator makes them", "", false},
	v1beta2.PodPending:                {Warning, "pods are on no node", "", false},
	v1beta2.SidecarUnreachable:        {Warning, "sidecars do not answer the operator", "", false},
	v1beta2.ProcessIsMarkedAsExcluded: {Error, "the database excludes groups that are not to go", "fdb include -c %s", false},
	v1beta2.NodeTaintDetected:         {Info, "nodes are tainted", "", false},
	v1beta2.NodeTaintReplacing:        {Warning, "nodes are tainted for long: the groups are replaced", "", false},
	v1beta2.ProcessHasHighRunLoopBusy: {Info, "servers are busy", "", false},
}

// groups looks at the conditions of groups.
func (a *analysis) groups() {
	c := a.Cluster
	byCondition := map[v1beta2.ProcessGroupConditionType][]string{}
	oldest := map[v1beta2.ProcessGroupConditionType]int64{}
	var draining []string
	for _, g := range c.Status.ProcessGroups {
		if g.Marked() {
			if !g.Excluded() && a.Now.Sub(g.RemovalTimestamp.Time) > time.Hour {
				draining = append(draining, string(g.ProcessGroupID))
			}
			continue
		}
		for _, condition := range g.ProcessGroupConditions {
			if _, told := mending[condition.Type]; !told {
				continue
			}
			byCondition[condition.Type] = append(byCondition[condition.Type], string(g.ProcessGroupID))
			if first, seen := oldest[condition.Type]; !seen || condition.Timestamp < first {
				oldest[condition.Type] = condition.Timestamp
			}
		}
	}
	for _, condition := range slices.Sorted(maps.Keys(byCondition)) {
		m := mending[condition]
		groups := byCondition[condition]
		slices.SortFunc(groups, natural)
		command := m.command
		switch {
		case command != "":
			command = a.command(m.command, c.Name+" "+strings.Join(firstFew(groups), " "))
		case condition == v1beta2.PodPending || condition == v1beta2.SidecarUnreachable:
			command = fmt.Sprintf("kubectl describe pod -n %s %s", c.Namespace, strings.Join(podsOf(c, firstFew(groups)), " "))
		}
		a.add(m.severity, string(condition), command, groups, "%s since %s", m.message, view.Age(a.Now.Sub(time.Unix(oldest[condition], 0)))).Replaces = m.replaces
	}
	if len(draining) > 0 {
		slices.SortFunc(draining, natural)
		a.add(Warning, "ExclusionInProgress", a.command("fdb exclusion-status %s", c.Name), draining, "marked for removal for over an hour, and not drained")
	}
}

// firstFew keeps a command short.
func firstFew(groups []string) []string { return groups[:min(10, len(groups))] }

func podsOf(c *v1beta2.FoundationDBCluster, groups []string) []string {
	var pods []string
	for _, g := range groups {
		if id, err := fdb.ParseGroupID(g); err == nil {
			pods = append(pods, foundationdb.PodName(c, id))
		}
	}
	return pods
}

// pods compares the groups with the pods that there are.
func (a *analysis) pods() {
	if a.Pods == nil {
		return
	}
	known := map[v1beta2.ProcessGroupID]bool{}
	for _, g := range a.Cluster.Status.ProcessGroups {
		known[g.ProcessGroupID] = true
	}
	var orphans []string
	for id := range a.Pods {
		if !known[id] {
			orphans = append(orphans, string(id))
		}
	}
	if len(orphans) > 0 {
		slices.SortFunc(orphans, natural)
		a.add(Warning, "GroupsUnknown", "", orphans, "pods of groups that the status does not have: the operator adopts them")
	}
}

// database looks at the status document.
func (a *analysis) database() {
	s, c := a.Status, a.Cluster
	if s == nil {
		if a.Silence != "" && c.Status.Configured {
			a.add(Error, fdb.DatabaseSilent, a.command("fdb cli %s -- status details", c.Name), nil, "%s", a.Silence)
		}
		return
	}
	if !yes(s.Client.DatabaseStatus.Available) {
		a.add(Error, fdb.DatabaseUnavailable, a.command("fdb cli %s -- status details", c.Name), nil, "the database is not available; its recovery is %s", cmp.Or(s.Cluster.RecoveryState.Name, "not known"))
	} else if v := fdb.FullFaultTolerance(s); !v.Open {
		a.add(Warning, v.Reason, a.command("fdb exclusion-status %s", c.Name), nil, "%s", v.Message)
	}
	var away []string
	for _, one := range s.Client.Coordinators.Coordinators {
		if !yes(one.Reachable) {
			away = append(away, one.Address.String())
		}
	}
	if len(away) > 0 {
		a.add(Error, "CoordinatorsUnreachable", a.command("fdb plan %s", c.Name), nil, "coordinators that cannot be reached: %s", strings.Join(away, ", "))
	}
	for _, m := range slices.Concat(s.Client.Messages, s.Cluster.Messages) {
		a.add(Warning, "DatabaseMessage", "", nil, "%s", fdbview.Because(m.Name, m.Description))
	}
	for _, p := range s.Cluster.Processes {
		for _, m := range p.Messages {
			a.add(Warning, "ProcessMessage", "", []string{cmp.Or(p.Locality[fdb.InstanceLocality], p.Address.String())}, "%s", fdbview.Because(m.Name, m.Type))
		}
	}
	if left := Leftovers(a.Facts); len(left) > 0 {
		a.add(Warning, "ExclusionsLeft", a.command("fdb include -c %s --leftover", c.Name), nil, "exclusions of what is no group: %s", some(left))
	}
}

// Leftovers are exclusions of the database that name no group of the cluster. Those of other objects of the same
// database look the same, so a cluster with a prefix or a data center has none.
func Leftovers(f Facts) []string {
	if f.Status == nil || f.Status.Cluster.Configuration == nil || f.Cluster.Spec.ProcessGroupIDPrefix != "" || f.Cluster.Spec.DataCenter != "" {
		return nil
	}
	var left []string
	for _, e := range f.Status.Cluster.Configuration.ExcludedServers {
		target := cmp.Or(e.Locality, e.Address)
		if groupExcludedBy(f.Cluster, target) == "" {
			left = append(left, target)
		}
	}
	return left
}

// groupExcludedBy is the group that an exclusion names; "": none.
func groupExcludedBy(c *v1beta2.FoundationDBCluster, target string) v1beta2.ProcessGroupID {
	if id, ok := strings.CutPrefix(target, fdb.LocalityPrefix+fdb.InstanceLocality+":"); ok {
		for _, g := range c.Status.ProcessGroups {
			if string(g.ProcessGroupID) == id {
				return g.ProcessGroupID
			}
		}
		return ""
	}
	host := target
	if a, err := fdb.ParseAddress(target); err == nil {
		host = a.Host
	}
	return groupAt(c, host)
}
