package view

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/api"
)

// ClusterTable returns the table of `pawl cluster list`.
func ClusterTable(clusters []Cluster, now time.Time) Table {
	return TableOf(clusters, []Column[Cluster]{
		{Head: "NAME", Cell: func(c Cluster) string { return c.Name }},
		{Head: "ID", Cell: func(c Cluster) string { return c.ID }},
		{Head: "STATE", Cell: func(c Cluster) string { return string(c.State) }, Health: Cluster.health},
		{Head: "SIZE", Cell: Cluster.sizeText},
		{Head: "CONTROL", Cell: func(c Cluster) string { return strconv.Itoa(c.Control) }},
		{Head: "VERSION", Cell: func(c Cluster) string { return cmp.Or(c.version(), none) }},
		{Head: "PROVIDER", Cell: func(c Cluster) string { return c.Provider }},
		{Head: "ENDPOINT", Cell: func(c Cluster) string { return cmp.Or(c.Endpoint, none) }},
		{Head: "AGE", Cell: func(c Cluster) string { return Age(now.Sub(c.Created)) }},
		{Head: "DESIRED", Wide: true, Cell: func(c Cluster) string { return string(c.Desired) }},
		{Head: "SINCE", Wide: true, Cell: func(c Cluster) string { return Moment(c.Since) }},
		{Head: "ACCOUNT", Wide: true, Cell: func(c Cluster) string { return cmp.Or(strings.Trim(c.Domain+"/"+c.Account, "/"), none) }},
		{Head: "ZONE", Wide: true, Cell: func(c Cluster) string { return cmp.Or(c.Zone.Name, c.Zone.ID, none) }},
		{Head: "OFFERING", Wide: true, Cell: func(c Cluster) string { return cmp.Or(c.Offering.Name, c.Offering.ID, none) }},
		{Head: "CORES", Wide: true, Cell: func(c Cluster) string { return strconv.Itoa(c.Cores) }},
		{Head: "MEMORY", Wide: true, Cell: func(c Cluster) string { return strconv.Itoa(c.MemoryMB) }},
		{Head: "RUN", Wide: true, Cell: func(c Cluster) string { return cmp.Or(Short(c.Run), none) }},
		{Head: "REASON", Cell: func(c Cluster) string { return cmp.Or(oneLine(c.tableReason()), none) }},
	})
}

// health judges the state of a cluster.
func (c Cluster) health() Health { return HealthOf(string(c.State)) }

// sizeText is the number of workers, or existing/desired if they differ.
func (c Cluster) sizeText() string {
	if c.Existing != nil && *c.Existing != c.Size {
		return fmt.Sprintf("%d/%d", *c.Existing, c.Size)
	}
	return strconv.Itoa(c.Size)
}

// tableReason returns the reason of a cluster's state, or what its run waits for.
func (c Cluster) tableReason() string {
	if why := c.why(); why != "" || c.Waiting == nil {
		return why
	}
	return waits(c.Waiting)
}

// version returns the version of the nodes, or the template that decides it.
func (c Cluster) version() string {
	return cmp.Or(c.Version, cmp.Or(c.Template.Name, c.Template.ID))
}

// why returns the reason of a state, with its code; without one, why the provider
// cannot be read.
func (c Cluster) why() string {
	switch {
	case c.Code == "" && c.Reason == "" && c.Unseen != nil:
		return fmt.Sprintf("%s: provider %s cannot be read since %s: %s", c.Unseen.Code, c.Provider, c.Unseen.Since.UTC().Format(time.RFC3339), c.Unseen.Text)
	case c.Code == "":
		return c.Reason
	case c.Reason == "":
		return c.Code
	default:
		return c.Code + ": " + c.Reason
	}
}

// ClusterLine returns the state of a cluster in one line.
func ClusterLine(c Cluster) string {
	line := c.Name + " " + string(c.State)
	if c.Step != "" {
		line += " at " + c.Step
	}
	if why := c.why(); why != "" {
		line += ": " + oneLine(why)
	}
	return line
}

// waits returns what a run waits for, at which step, since when and until when.
func waits(w *api.Waiting) string {
	text := "at " + w.Step + ": " + w.For
	if w.Code != "" {
		text += "; " + w.Code + ": " + w.Error
	}
	if w.Tries > 1 {
		text += fmt.Sprintf(", attempt %d", w.Tries)
	}
	text += ", since " + w.Since.UTC().Format(time.TimeOnly)
	if !w.Until.IsZero() {
		text += ", until " + w.Until.UTC().Format(time.TimeOnly)
	}
	return oneLine(text) + " UTC"
}

// longWait is the time after which --wait shows what the run waits for.
const longWait = 15 * time.Second

// WaitingLine is ClusterLine, or what the run waits for if it has waited for longWait.
func WaitingLine(c Cluster, now time.Time) string {
	line := ClusterLine(c)
	if c.Waiting != nil && now.Sub(c.Waiting.Since) >= longWait {
		line = c.Name + " " + string(c.State) + " " + waits(c.Waiting)
		if c.Unseen != nil {
			line += "; provider " + c.Provider + " cannot be read: " + oneLine(c.Unseen.Text)
		}
	}
	return line
}

// AcceptedLine returns the line for an accepted change.
func AcceptedLine(c Cluster, op *Operation) string {
	if op == nil {
		return fmt.Sprintf("cluster %s is changed\n", c.Name)
	}
	if op.Status == "done" {
		return fmt.Sprintf("cluster %s: %s is done: there was nothing to run\n", c.Name, op.Kind)
	}
	return fmt.Sprintf("cluster %s (%s): %s is accepted, operation %s\n", c.Name, c.ID, op.Kind, op.ID)
}

// SettledLine returns the lines for an ended operation.
func SettledLine(c Cluster, op Operation) string {
	if op.Status == "done" {
		line := fmt.Sprintf("cluster %s: %s is done, it is %s", c.Name, op.Kind, c.State)
		if c.Endpoint != "" && c.State == cluster.Running {
			line += " at " + c.Endpoint
		}
		return line + "\n"
	}
	lines := []string{fmt.Sprintf("cluster %s: %s failed, it is %s", c.Name, op.Kind, c.State)}
	if op.Code != "" {
		lines = append(lines, "  "+op.Code+": "+op.Reason)
	}
	if op.Remedy != "" {
		lines = append(lines, "  remedy: "+op.Remedy)
	}
	return strings.Join(lines, "\n") + "\n"
}

// DescribeCluster returns the text of `pawl cluster describe`.
func DescribeCluster(c Cluster, nodes []ClusterNode, events []ClusterEvent, now time.Time, style Style) string {
	var f facts
	f.add("Name", c.Name)
	f.add("ID", c.ID)
	f.add("Description", c.Description)
	f.add("Account", strings.Trim(c.Domain+"/"+c.Account, "/"))
	state := style.Health(c.health(), string(c.State))
	if !c.Since.IsZero() {
		state += " for " + Age(now.Sub(c.Since))
	}
	f.add("State", state)
	if string(c.Desired) != string(c.State) {
		f.add("Desired", string(c.Desired))
	}
	why := c.why()
	if !c.ReasonAt.IsZero() && why != "" {
		why += " (" + Age(now.Sub(c.ReasonAt)) + " ago)"
	}
	f.add("Reason", why)
	if c.Waiting != nil {
		f.add("Waits", waits(c.Waiting))
		if !c.Waiting.Next.IsZero() {
			f.add("Next check", "in "+Took(max(0, c.Waiting.Next.Sub(now))))
		}
	}
	if c.Unseen != nil && c.Code != "" {
		f.add("Provider", fmt.Sprintf("cannot be read for %s: %s: %s", Age(now.Sub(c.Unseen.Since)), c.Unseen.Code, oneLine(c.Unseen.Text)))
	}
	f.add("Step", c.Step)
	f.add("Remedy", c.Remedy)
	if !c.NextTry.IsZero() {
		f.add("Next try", "in "+Took(c.NextTry.Sub(now)))
	}
	workers := strconv.Itoa(c.Size) + " desired"
	if c.Existing != nil {
		workers += fmt.Sprintf(", %d existing", *c.Existing)
	}
	f.add("Workers", workers)
	f.add("Control", strconv.Itoa(c.Control))
	size := fmt.Sprintf("%d cores, %d MB", c.Cores, c.MemoryMB)
	if c.DiskGB > 0 {
		size += fmt.Sprintf(", root disks of %d GB", c.DiskGB)
	}
	f.add("Size", size)
	f.add("Provider", c.Provider+", zone "+cmp.Or(c.Zone.Name, c.Zone.ID)+", offering "+cmp.Or(c.Offering.Name, c.Offering.ID))
	f.add("Version", c.version())
	f.add("Endpoint", c.Endpoint)
	f.add("Console", c.ConsoleEndpoint)
	f.add("Allowed", strings.Join(c.CIDRs, ", "))
	f.add("Run", c.Run)
	f.add("Operation", c.Operation)
	var b strings.Builder
	b.WriteString(f.String())
	b.WriteString(ClusterNodeTable(nodes, now).section("Nodes", style))
	b.WriteString(findingTable(c.Findings, now).section("Findings", style))
	if len(events) > 0 {
		b.WriteString("\n" + style.paint(bold, "History") + "\n" + Indent(ClusterHistory(events, style), "  "))
	}
	return b.String()
}

// ClusterNodeTable returns the table of `pawl cluster nodes`.
func ClusterNodeTable(nodes []ClusterNode, now time.Time) Table {
	return TableOf(nodes, []Column[ClusterNode]{
		{Head: "NAME", Cell: func(n ClusterNode) string { return n.Name }},
		{Head: "ROLE", Cell: func(n ClusterNode) string { return string(n.Role) }},
		{Head: "READY", Cell: func(n ClusterNode) string { return n.Ready }, Health: func(n ClusterNode) Health { return HealthOf(n.Ready) }},
		{Head: "VERSION", Cell: func(n ClusterNode) string { return cmp.Or(n.Version, none) }},
		{Head: "ADDRESS", Cell: func(n ClusterNode) string { return cmp.Or(n.Address, none) }},
		{Head: "ID", Cell: func(n ClusterNode) string { return cmp.Or(n.ID, none) }},
		{Head: "HEARTBEAT", Cell: func(n ClusterNode) string {
			if n.HeartbeatAt.IsZero() {
				return none
			}
			return Age(now.Sub(n.HeartbeatAt)) + " ago"
		}},
		{Head: "ORDINAL", Wide: true, Cell: func(n ClusterNode) string { return strconv.Itoa(n.Ordinal) }},
		{Head: "READY SINCE", Wide: true, Cell: func(n ClusterNode) string { return Moment(n.ReadyAt) }},
		{Head: "REASON", Cell: func(n ClusterNode) string { return cmp.Or(n.NotReady, none) }},
	})
}

// ClusterResourceTable returns the table of `pawl cluster resources`.
func ClusterResourceTable(rows []ClusterResource) Table {
	return TableOf(rows, []Column[ClusterResource]{
		{Head: "KIND", Cell: func(r ClusterResource) string { return string(r.Kind) }},
		{Head: "NAME", Cell: func(r ClusterResource) string { return r.Name }},
		{Head: "PHASE", Cell: func(r ClusterResource) string { return string(r.Phase) }, Health: func(r ClusterResource) Health { return HealthOf(string(r.Phase)) }},
		{Head: "ORIGIN", Cell: func(r ClusterResource) string { return string(r.Origin) }},
		{Head: "ID", Cell: func(r ClusterResource) string { return cmp.Or(r.ID, none) }},
		{Head: "ATTEMPTS", Cell: func(r ClusterResource) string { return strconv.Itoa(r.Attempts) }},
		{Head: "RUN", Wide: true, Cell: func(r ClusterResource) string { return cmp.Or(Short(r.Run), none) }},
		{Head: "STEP", Wide: true, Cell: func(r ClusterResource) string { return cmp.Or(r.Step, none) }},
		{Head: "SEEN", Wide: true, Cell: func(r ClusterResource) string { return Moment(r.PresentAt) }},
		{Head: "GONE", Wide: true, Cell: func(r ClusterResource) string { return Moment(r.GoneAt) }},
		{Head: "ERROR", Cell: func(r ClusterResource) string {
			if r.Code != "" {
				return oneLine(r.Code + ": " + r.Error)
			}
			return cmp.Or(oneLine(r.Error), none)
		}},
	})
}

func findingTable(findings []cluster.Finding, now time.Time) Table {
	return TableOf(findings, []Column[cluster.Finding]{
		{Head: "TYPE", Cell: func(f cluster.Finding) string { return string(f.Type) }},
		{Head: "RESOURCE", Cell: func(f cluster.Finding) string { return cmp.Or(f.Resource, none) }},
		{Head: "SINCE", Cell: func(f cluster.Finding) string { return ageOf(f.Since, now) }},
		{Head: "ALARM", Cell: func(f cluster.Finding) string { return map[bool]string{true: "yes", false: "no"}[f.Alarm] }, Health: func(f cluster.Finding) Health {
			return map[bool]Health{true: Degraded}[f.Alarm]
		}},
		{Head: "EVIDENCE", Cell: func(f cluster.Finding) string { return cmp.Or(oneLine(f.Evidence), none) }},
		{Head: "THEN", Cell: func(f cluster.Finding) string {
			then := cmp.Or(f.Then, none)
			if f.At.After(now) {
				then += " in " + Took(f.At.Sub(now))
			}
			return then
		}},
	})
}

func ageOf(at, now time.Time) string {
	if at.IsZero() {
		return none
	}
	return Age(now.Sub(at))
}

// ClusterDrift returns the text of `pawl cluster drift`.
func ClusterDrift(r api.DriftReport, now time.Time, style Style) string {
	side := func(s api.DriftSide) string {
		return fmt.Sprintf("%s, %d workers, %d control", s.State, s.Workers, s.Control)
	}
	var f facts
	f.add("Desired", side(r.Desired))
	f.add("Recorded", side(r.Recorded))
	f.add("Observed", side(r.Observed))
	f.add("Policy", cmp.Or(r.Policy.String(), "none"))
	if !r.NextTry.IsZero() {
		f.add("Next try", "in "+Took(r.NextTry.Sub(now)))
	}
	if len(r.Findings) == 0 {
		return f.String() + "\nNothing differs.\n"
	}
	return f.String() + findingTable(r.Findings, now).section("Findings", style)
}

// ClusterHistory returns the text of `pawl cluster history`.
func ClusterHistory(events []ClusterEvent, style Style) string {
	var rows [][]string
	for _, e := range events {
		what := e.Event
		if e.From != "" && e.From != e.State {
			what = e.From + " → " + e.State + " by " + e.Event
		}
		var more []string
		if e.Actor != "" {
			more = append(more, "by "+e.Actor)
		}
		if why := (Cluster{Code: e.Code, Reason: e.Reason}).why(); why != "" {
			more = append(more, oneLine(why))
		}
		if e.Run != "" {
			more = append(more, "run "+Short(e.Run))
		}
		rows = append(rows, []string{style.clock(e.At, "2006-01-02 15:04:05"), e.Type, what, strings.Join(more, ", ")})
	}
	return strings.Join(columns(rows), "\n") + "\n"
}

// LeakTable returns the table of `pawl cluster leaks`.
func LeakTable(leaks []api.Leak, now time.Time) Table {
	return TableOf(leaks, []Column[api.Leak]{
		{Head: "CLUSTER", Cell: func(l api.Leak) string { return cmp.Or(l.Name, l.Cluster, none) }},
		{Head: "PROVIDER", Cell: func(l api.Leak) string { return l.Provider }},
		{Head: "KIND", Cell: func(l api.Leak) string { return string(l.Kind) }},
		{Head: "RESOURCE", Cell: func(l api.Leak) string { return l.Resource }},
		{Head: "ID", Cell: func(l api.Leak) string { return cmp.Or(l.ID, none) }},
		{Head: "PHASE", Cell: func(l api.Leak) string { return l.Phase }, Health: func(l api.Leak) Health { return HealthOf(l.Phase) }},
		{Head: "SINCE", Cell: func(l api.Leak) string { return ageOf(l.Since, now) }},
		{Head: "ATTEMPTS", Cell: func(l api.Leak) string { return strconv.Itoa(l.Attempts) }},
		{Head: "ACCOUNT", Wide: true, Cell: func(l api.Leak) string { return cmp.Or(l.Account, none) }},
		{Head: "DOMAIN", Wide: true, Cell: func(l api.Leak) string { return cmp.Or(l.Domain, none) }},
		{Head: "FAULT", Cell: func(l api.Leak) string { return cmp.Or(oneLine(strings.TrimPrefix(l.Code+": "+l.Text, ": ")), none) }},
		{Head: "REMEDY", Cell: func(l api.Leak) string { return cmp.Or(oneLine(l.Remedy), none) }},
	})
}

// ClusterPlan returns the text of --dry-run.
func ClusterPlan(p api.DryRun, style Style) string {
	var b strings.Builder
	if len(p.Steps) == 0 && len(p.Resources) == 0 {
		b.WriteString("Nothing is to be done.\n")
	}
	b.WriteString(strings.TrimPrefix(TableOf(p.Steps, []Column[api.DryRunStep]{
		{Head: "STEP", Cell: func(s api.DryRunStep) string { return s.Name }},
		{Head: "WHAT", Cell: func(s api.DryRunStep) string { return cmp.Or(s.Text, none) }},
		{Head: "TIMEOUT", Cell: func(s api.DryRunStep) string { return cmp.Or(s.Timeout, none) }},
		{Head: "TRIES", Cell: func(s api.DryRunStep) string {
			if s.Tries == 0 {
				return none
			}
			return strconv.Itoa(s.Tries)
		}},
	}).section("Steps", style), "\n"))
	b.WriteString(TableOf(p.Resources, []Column[api.DryRunResource]{
		{Head: "ACT", Cell: func(r api.DryRunResource) string { return r.Act }},
		{Head: "KIND", Cell: func(r api.DryRunResource) string { return string(r.Kind) }},
		{Head: "NAME", Cell: func(r api.DryRunResource) string { return r.Name }},
		{Head: "ROLE", Cell: func(r api.DryRunResource) string { return cmp.Or(string(r.Role), none) }},
	}).section("Resources", style))
	for _, part := range []struct {
		title    string
		downtime bool
	}{{"Obstacles", false}, {"Downtime", true}} {
		first := true
		for _, f := range p.Findings {
			if (f.Type == cluster.Downtime) != part.downtime {
				continue
			}
			if first {
				b.WriteString("\n" + style.paint(bold, part.title) + "\n")
				first = false
			}
			b.WriteString("  " + strings.TrimPrefix(string(f.Code)+": ", ": ") + f.Evidence + "\n")
		}
	}
	return b.String()
}
