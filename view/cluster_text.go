package view

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/api"
	"github.com/pawl-dev/pawl/machine"
)

// stateColors are the colors of states. They only repeat the words.
var stateColors = map[machine.State]color{
	cluster.Running: green, cluster.Alert: red, cluster.Expunge: red, cluster.Stopped: dim, cluster.Destroyed: dim,
	cluster.Starting: blue, cluster.Stopping: blue, cluster.Scaling: blue, cluster.Recovering: blue, cluster.Expunging: blue,
}

// ClusterTable returns the table of `pawl cluster list`.
func ClusterTable(clusters []Cluster, now time.Time) Table {
	t := Table{Head: []string{"NAME", "ID", "STATE", "SIZE", "CONTROL", "VERSION", "PROVIDER", "ENDPOINT", "AGE", "REASON"}}
	for _, c := range clusters {
		size := strconv.Itoa(c.Size)
		if c.Existing != nil && *c.Existing != c.Size {
			size = fmt.Sprintf("%d/%d", *c.Existing, c.Size)
		}
		t.Rows = append(t.Rows, []string{c.Name, c.ID, string(c.State), size, strconv.Itoa(c.Control), cmp.Or(c.version(), none), c.Provider,
			cmp.Or(c.Endpoint, none), Age(now.Sub(c.Created)), cmp.Or(oneLine(c.tableReason()), none)})
	}
	return t
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
	state := style.paint(stateColors[c.State], string(c.State))
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
	if len(nodes) > 0 {
		b.WriteString("\n" + style.paint(bold, "Nodes") + "\n" + indent(ClusterNodeTable(nodes, now).String(), "  "))
	}
	if len(c.Findings) > 0 {
		b.WriteString("\n" + style.paint(bold, "Findings") + "\n" + indent(findingTable(c.Findings, now).String(), "  "))
	}
	if len(events) > 0 {
		b.WriteString("\n" + style.paint(bold, "History") + "\n" + indent(ClusterHistory(events, style), "  "))
	}
	return b.String()
}

// ClusterNodeTable returns the table of `pawl cluster nodes`.
func ClusterNodeTable(nodes []ClusterNode, now time.Time) Table {
	t := Table{Head: []string{"NAME", "ROLE", "READY", "VERSION", "ADDRESS", "ID", "HEARTBEAT", "REASON"}}
	for _, n := range nodes {
		heartbeat := none
		if !n.HeartbeatAt.IsZero() {
			heartbeat = Age(now.Sub(n.HeartbeatAt)) + " ago"
		}
		t.Rows = append(t.Rows, []string{n.Name, string(n.Role), n.Ready, cmp.Or(n.Version, none), cmp.Or(n.Address, none), cmp.Or(n.ID, none), heartbeat, cmp.Or(n.NotReady, none)})
	}
	return t
}

// ClusterResourceTable returns the table of `pawl cluster resources`.
func ClusterResourceTable(rows []ClusterResource) Table {
	t := Table{Head: []string{"KIND", "NAME", "PHASE", "ORIGIN", "ID", "ATTEMPTS", "ERROR"}}
	for _, r := range rows {
		trouble := r.Error
		if r.Code != "" {
			trouble = r.Code + ": " + r.Error
		}
		t.Rows = append(t.Rows, []string{string(r.Kind), r.Name, string(r.Phase), string(r.Origin), cmp.Or(r.ID, none), strconv.Itoa(r.Attempts), cmp.Or(oneLine(trouble), none)})
	}
	return t
}

func findingTable(findings []cluster.Finding, now time.Time) Table {
	t := Table{Head: []string{"TYPE", "RESOURCE", "SINCE", "ALARM", "EVIDENCE", "THEN"}}
	for _, f := range findings {
		since, alarm, then := none, "no", cmp.Or(f.Then, none)
		if !f.Since.IsZero() {
			since = Age(now.Sub(f.Since))
		}
		if f.Alarm {
			alarm = "yes"
		}
		if f.At.After(now) {
			then += " in " + Took(f.At.Sub(now))
		}
		t.Rows = append(t.Rows, []string{string(f.Type), cmp.Or(f.Resource, none), since, alarm, cmp.Or(oneLine(f.Evidence), none), then})
	}
	return t
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
	return f.String() + "\n" + style.paint(bold, "Findings") + "\n" + indent(findingTable(r.Findings, now).String(), "  ")
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
	t := Table{Head: []string{"CLUSTER", "PROVIDER", "KIND", "RESOURCE", "ID", "PHASE", "SINCE", "ATTEMPTS", "FAULT", "REMEDY"}}
	for _, l := range leaks {
		since := none
		if !l.Since.IsZero() {
			since = Age(now.Sub(l.Since))
		}
		t.Rows = append(t.Rows, []string{cmp.Or(l.Name, cmp.Or(l.Cluster, none)), l.Provider, string(l.Kind), l.Resource, cmp.Or(l.ID, none), l.Phase, since,
			strconv.Itoa(l.Attempts), cmp.Or(oneLine(strings.TrimPrefix(l.Code+": "+l.Text, ": ")), none), cmp.Or(oneLine(l.Remedy), none)})
	}
	return t
}

// ClusterPlan returns the text of --dry-run.
func ClusterPlan(p api.DryRun, style Style) string {
	var b strings.Builder
	if len(p.Steps) == 0 && len(p.Resources) == 0 {
		b.WriteString("Nothing is to be done.\n")
	}
	if len(p.Steps) > 0 {
		t := Table{Head: []string{"STEP", "WHAT", "TIMEOUT", "TRIES"}}
		for _, s := range p.Steps {
			tries := none
			if s.Tries > 0 {
				tries = strconv.Itoa(s.Tries)
			}
			t.Rows = append(t.Rows, []string{s.Name, cmp.Or(s.Text, none), cmp.Or(s.Timeout, none), tries})
		}
		b.WriteString(style.paint(bold, "Steps") + "\n" + indent(t.String(), "  "))
	}
	if len(p.Resources) > 0 {
		t := Table{Head: []string{"ACT", "KIND", "NAME", "ROLE"}}
		for _, r := range p.Resources {
			t.Rows = append(t.Rows, []string{r.Act, string(r.Kind), r.Name, cmp.Or(string(r.Role), none)})
		}
		b.WriteString("\n" + style.paint(bold, "Resources") + "\n" + indent(t.String(), "  "))
	}
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
