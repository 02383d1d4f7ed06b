package cluster

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/fault"
)

// RecoveryOptions are the limits of a plan. The zero value is usable.
type RecoveryOptions struct {
	Consent        bool // the last control node may be replaced
	MaxUnavailable int  // nodes that are repaired at the same time; default 1
	Now            time.Time
	Tolerances     Tolerances
}

// RecoveryPlan is what a recover run does, in this order. On a healthy cluster an
// empty plan succeeds.
type RecoveryPlan struct {
	Start   []Node       // VMs that are stopped
	Replace []Node       // VMs that are missing or broken: what remains of them is destroyed first
	Adopt   []Resource   // VMs of Pawl without a row, which are recorded
	Create  []NewNodes   // nodes that are then missing up to the desired count
	Remove  []Resource   // resources of Pawl without a row, which are destroyed after proof
	Drop    []Node       // workers above the desired count, in the order of their removal
	Repair  []JournalRow // network, address and rules that are gone or changed, which are created again
	// Forbidden is work that is needed and that neither the policy nor the consent
	// allows.
	Forbidden []Finding
	// Batches contain Start, Replace and Create in the order of the work. Start and
	// Replace are limited to MaxUnavailable at a time, control nodes first.
	Batches []RecoveryBatch
}

// NewNodes says how many nodes of a role a plan creates.
type NewNodes struct {
	Role  Role
	Count int
}

// RecoveryBatch is work that may be done at the same time.
type RecoveryBatch struct {
	Start, Replace []Node
	Create         []NewNodes
}

// Empty reports a plan without work. Forbidden may still contain work that is
// needed.
func (p RecoveryPlan) Empty() bool {
	return len(p.Start)+len(p.Replace)+len(p.Create)+len(p.Adopt)+len(p.Remove)+len(p.Drop)+len(p.Repair) == 0
}

// Err returns the fault of the work that the plan may not do: nil,
// LAST_CONTROL_NODE or RECOVERY_FORBIDDEN.
func (p RecoveryPlan) Err() error {
	if len(p.Forbidden) == 0 {
		return nil
	}
	kind := RecoveryForbidden
	var texts []string
	for _, f := range p.Forbidden {
		if f.Code == LastControl.Code {
			kind = LastControl
		}
		texts = append(texts, f.String()+" ("+f.Then+")")
	}
	return kind.Errorf("%s", strings.Join(texts, "; ")).With("resource", p.Forbidden[0].Resource)
}

// PlanRecovery returns what a recover run does to a cluster that should run. A nil
// policy is the default.
func PlanRecovery(b *Record, seen Observed, policy Recovery, o RecoveryOptions) RecoveryPlan {
	if seen.Err != nil || !seen.Listed[VM] {
		return RecoveryPlan{}
	}
	l := newComparison(&b.Cluster, b, seen, o.Now, o.Tolerances)
	l.shouldRun = true
	return l.plan(l.differences(), policy.Or(l.tolerances.Policy), o)
}

// planner turns differences into a plan.
type planner struct {
	*comparison
	policy   Recovery
	options  RecoveryOptions
	plan     RecoveryPlan
	severity map[string]int // severity of each node, by name; the worst are removed first
}

func (l *comparison) plan(differences []difference, policy Recovery, o RecoveryOptions) RecoveryPlan {
	p := &planner{comparison: l, policy: policy, options: o, severity: map[string]int{}}
	differences = slices.Clone(differences)
	for i := range l.record.Nodes {
		if n := &l.record.Nodes[i]; n.VMID == "" && n.Removed.IsZero() { // its VM was never created
			d := l.newDifference(Missing, n.Name, "", alarmAtOnce, "its VM was never created")
			d.node, d.row = n, l.vmRow(n)
			differences = append(differences, d)
		}
	}
	p.planDrops(differences)
	for _, d := range differences {
		if d.node != nil && !slices.ContainsFunc(p.plan.Drop, func(n Node) bool { return n.Name == d.node.Name }) {
			p.planNode(d, differences)
		}
	}
	p.planExtras(differences)
	p.planCreates()
	p.waitForControl()
	for _, d := range differences {
		if d.row != nil && d.node == nil {
			p.planRepair(d)
		}
	}
	p.planBatches()
	return p.plan
}

// The severities of what is wrong with a node, the worst last.
const (
	severitySilent = iota + 1
	severityDown
	severityBroken
	severityMissing
)

func (p *planner) severityOf(d difference) int {
	switch {
	case d.node == nil:
		return 0
	case d.Type == Missing:
		return severityMissing
	case d.Type == PowerState && d.tolerance == alarmAtOnce && strings.HasPrefix(d.Evidence, "broken"):
		return severityBroken
	case d.Type == PowerState && d.tolerance == alarmAtOnce && strings.HasPrefix(d.Evidence, "stopped"):
		return severityDown
	case d.Type == NotReady:
		return severitySilent
	}
	return 0
}

// isLasting reports a difference that lasts longer than a VM may need to change its
// state.
func (p *planner) isLasting(d difference) bool {
	old, ok := p.previous[d.key()]
	return ok && p.now.Sub(old.Since) >= p.tolerances.Transitional
}

func (p *planner) planNode(d difference, all []difference) {
	switch severity := p.severityOf(d); {
	case severity == severityDown && p.policy.Allows(Restart):
		p.plan.Start = append(p.plan.Start, *d.node)
	case severity == severityDown:
		p.forbid(d, RecoveryForbidden, "restart is not allowed")
	case severity == severitySilent && (!p.isLasting(d) || !p.policy.Allows(Replace)):
		// it may come back; a run waits for it
	case severity == severitySilent && d.node.Role == Worker && !p.hasOtherControl(d.node, all):
		// there is no control node that it could join, and none that a new worker
		// could join
	case severity >= severitySilent && d.node.Role == Control && !p.options.Consent && !p.hasOtherControl(d.node, all) && (severity != severityMissing || p.holdsState(d.node)):
		p.forbid(d, LastControl, "the last control node is replaced only with consent")
	case severity >= severitySilent && p.policy.Allows(Replace):
		p.plan.Replace = append(p.plan.Replace, *d.node)
	case severity >= severitySilent:
		p.forbid(d, RecoveryForbidden, "replace is not allowed")
	}
}

// holdsState reports a control node that may hold the state of a cluster. It is not
// replaced by an empty one without consent.
func (p *planner) holdsState(n *Node) bool {
	return p.cluster.Started && (!n.ReadyAt.IsZero() || !p.observed.SendsHeartbeats)
}

// hasOtherControl reports another control node that is ready.
func (p *planner) hasOtherControl(not *Node, all []difference) bool {
	return slices.ContainsFunc(p.record.Nodes, func(n Node) bool {
		vm := p.resources[resourceID{VM, n.VMID}]
		return n.Role == Control && n.Removed.IsZero() && n.Name != not.Name && vm != nil && vm.Power == PoweredOn &&
			!slices.ContainsFunc(all, func(d difference) bool { return d.node != nil && d.node.Name == n.Name })
	})
}

func (p *planner) forbid(d difference, by *fault.Kind, why string) {
	f := d.Finding
	f.Code, f.Then = by.Code, why
	p.plan.Forbidden = append(p.plan.Forbidden, f)
}

// planDrops chooses the workers above the desired count: the worst first, then the
// newest.
func (p *planner) planDrops(differences []difference) {
	for _, d := range differences {
		if d.node != nil {
			p.severity[d.node.Name] = max(p.severity[d.node.Name], p.severityOf(d))
		}
	}
	workers := slices.DeleteFunc(slices.Clone(p.record.Nodes), func(n Node) bool { return n.Role != Worker || !n.Removed.IsZero() })
	surplus := len(workers) - p.cluster.NodeCount
	if surplus <= 0 || p.cluster.NodeCount < 1 {
		return
	}
	slices.SortStableFunc(workers, func(a, b Node) int {
		return cmp.Or(-cmp.Compare(p.severity[a.Name], p.severity[b.Name]), -cmp.Compare(a.Ordinal, b.Ordinal))
	})
	if len(p.policy) == 0 {
		p.forbid(p.newDifference(Count, string(Worker), "", alarmAtOnce, "%d workers too many", surplus), RecoveryForbidden, "nothing is allowed")
		return
	}
	p.plan.Drop = workers[:surplus]
}

// missingCount returns how many nodes of a role must be created or adopted.
func (p *planner) missingCount(role Role) int {
	want := map[Role]int{Control: p.cluster.ControlCount, Worker: p.cluster.NodeCount}[role]
	for _, n := range p.record.Nodes {
		if n.Role == role && n.Removed.IsZero() {
			want--
		}
	}
	for _, r := range p.plan.Adopt {
		if of, _, _ := RoleOf(p.cluster, r.Name); of == role {
			want--
		}
	}
	return max(0, want)
}

func (p *planner) planExtras(differences []difference) {
	for _, d := range differences {
		if d.Type != ExtraOwned || d.tolerance == alarmNever {
			continue
		}
		role, _, isNode := RoleOf(p.cluster, d.existing.Name)
		switch {
		case len(p.policy) == 0:
			p.forbid(d, RecoveryForbidden, "nothing is allowed")
		case d.existing.Kind == VM && isNode && p.policy.Allows(Adopt) && p.missingCount(role) > 0:
			p.plan.Adopt = append(p.plan.Adopt, *d.existing)
		default:
			p.plan.Remove = append(p.plan.Remove, *d.existing)
		}
	}
}

func (p *planner) planCreates() {
	for _, role := range []Role{Control, Worker} {
		n := p.missingCount(role)
		switch {
		case n == 0:
		case role == Control && p.cluster.Started && n == p.cluster.ControlCount && !p.options.Consent:
			p.forbid(p.newDifference(Count, string(role), "", alarmAtOnce, "no control node is left"), LastControl, "the last control node is replaced only with consent")
		case p.policy.Allows(Replace):
			p.plan.Create = append(p.plan.Create, NewNodes{role, n})
		default:
			p.forbid(p.newDifference(Count, string(role), "", alarmAtOnce, "%d %s nodes are missing", n, role), RecoveryForbidden, "replace is not allowed")
		}
	}
}

// waitForControl postpones the workers if the last control node may not be
// replaced: new ones could not join.
func (p *planner) waitForControl() {
	if !slices.ContainsFunc(p.plan.Forbidden, func(f Finding) bool { return f.Code == LastControl.Code }) {
		return
	}
	p.plan.Replace = slices.DeleteFunc(p.plan.Replace, func(n Node) bool { return n.Role == Worker })
	p.plan.Create = slices.DeleteFunc(p.plan.Create, func(n NewNodes) bool { return n.Role == Worker })
}

func (p *planner) planRepair(d difference) {
	switch {
	case d.Type == RuleChanged && len(p.policy) > 0, p.policy.Allows(Replace):
		p.plan.Repair = append(p.plan.Repair, *d.row)
	default:
		p.forbid(d, RecoveryForbidden, "replace is not allowed")
	}
}

func (p *planner) planBatches() {
	size := max(1, p.options.MaxUnavailable)
	controlFirst := func(a, b Node) int {
		return cmp.Or(strings.Compare(string(a.Role), string(b.Role)), cmp.Compare(a.Ordinal, b.Ordinal))
	}
	slices.SortStableFunc(p.plan.Start, controlFirst)
	slices.SortStableFunc(p.plan.Replace, controlFirst)
	for part := range slices.Chunk(p.plan.Start, size) {
		p.plan.Batches = append(p.plan.Batches, RecoveryBatch{Start: part})
	}
	for part := range slices.Chunk(p.plan.Replace, size) {
		p.plan.Batches = append(p.plan.Batches, RecoveryBatch{Replace: part})
	}
	if len(p.plan.Create) > 0 {
		p.plan.Batches = append(p.plan.Batches, RecoveryBatch{Create: p.plan.Create})
	}
}

// describe writes into findings what the plan does about them, and when.
func (p RecoveryPlan) describe(findings []Finding, at time.Time) {
	node := func(nodes []Node, f Finding) bool {
		return slices.ContainsFunc(nodes, func(n Node) bool { return n.Name == f.Resource })
	}
	contains := func(resources []Resource, f Finding) bool {
		return slices.ContainsFunc(resources, func(r Resource) bool { return r.ID == f.ID })
	}
	for i := range findings {
		f := &findings[i]
		forbidden := slices.IndexFunc(p.Forbidden, func(o Finding) bool { return o.Type == f.Type && o.Resource == f.Resource && o.ID == f.ID })
		switch {
		case f.Type == Foreign:
			f.Then = "left alone"
			continue
		case f.Type == Outdated:
			f.Then = "an upgrade to that version ends it"
			continue
		case forbidden >= 0:
			f.Then, f.Code = "nothing: "+p.Forbidden[forbidden].Then, p.Forbidden[forbidden].Code
			continue
		case f.Type == ExtraOwned && contains(p.Adopt, *f):
			f.Then = "adopt it"
		case f.Type == ExtraOwned && contains(p.Remove, *f):
			f.Then = "remove it"
		case node(p.Drop, *f):
			f.Then = "remove the node"
		case node(p.Start, *f):
			f.Then = "start it"
		case node(p.Replace, *f):
			f.Then = "replace it"
		case f.Type == Count && (len(p.Create) > 0 || len(p.Drop) > 0 || len(p.Adopt) > 0 || len(p.Replace) > 0):
			f.Then = "correct the number of nodes"
		case slices.ContainsFunc(p.Repair, func(row JournalRow) bool { return row.ProviderID == f.ID && f.ID != "" }):
			f.Then = "create it again"
		default:
			f.Then = "wait"
			continue
		}
		f.At = at
	}
}

// ParseRecovery parses a policy: none, or a comma-separated list of restart,
// replace and adopt. An empty text is the default, nil. CLUSTER_INVALID otherwise.
func ParseRecovery(text string) (Recovery, error) {
	text = strings.ToLower(strings.TrimSpace(text))
	switch text {
	case "":
		return nil, nil
	case "none":
		return Recovery{}, nil
	}
	var r Recovery
	for word := range strings.SplitSeq(text, ",") {
		if m := Remedy(strings.TrimSpace(word)); !slices.Contains(r, m) {
			r = append(r, m)
		}
	}
	return r, ValidateRecovery(r)
}

// String returns the text that ParseRecovery parses.
func (r Recovery) String() string {
	switch {
	case r == nil:
		return ""
	case len(r) == 0:
		return "none"
	}
	words := make([]string, len(r))
	for i, m := range r {
		words[i] = string(m)
	}
	return strings.Join(words, ",")
}

// Or returns the policy if it is not nil, else other, else restart.
func (r Recovery) Or(other Recovery) Recovery {
	switch {
	case r != nil:
		return r
	case other != nil:
		return other
	default:
		return Recovery{Restart}
	}
}

// Allows reports whether the policy contains a remedy.
func (r Recovery) Allows(m Remedy) bool { return slices.Contains(r, m) }
