package report

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/pawl-dev/pawl/chain"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters"
	"github.com/pawl-dev/pawl/view"
)

// Plan is what happens next, and what blocks it.
type Plan struct {
	Cluster string `json:"cluster"` // namespace/name
	// Hash names the plan while links of it are held: pawl fdb approve takes it.
	Hash string `json:"hash,omitempty"`
	// Hold are the links that a person holds.
	Hold string `json:"hold,omitempty"`
	// Assumed says of which facts the plan was made, when it is not the operator's own.
	Assumed string `json:"assumed,omitempty"`
	// Warnings are what is allowed in the spec and may not do what is expected.
	Warnings []string `json:"warnings,omitempty"`
	Entries  []Entry  `json:"entries"`
}

// Entry is an action of a link: it is done now, or something blocks it.
type Entry struct {
	Link      string    `json:"link"`
	Action    string    `json:"action"`
	Targets   []string  `json:"targets,omitempty"`
	Now       bool      `json:"now"`
	Reason    string    `json:"reason,omitempty"`
	Message   string    `json:"message,omitempty"`
	Remedy    string    `json:"remedy,omitempty"`
	Since     time.Time `json:"since,omitzero"`
	NotBefore time.Time `json:"notBefore,omitzero"`
}

// hash finds that of a held plan: the operator writes it into the remedy, and into the condition of a take-over.
var hash = regexp.MustCompile(`\b[0-9a-f]{12,16}\b`)

// PlanOf is the plan in the status of a cluster.
func PlanOf(c *v1beta2.FoundationDBCluster) Plan {
	p := Plan{Cluster: c.Namespace + "/" + c.Name, Hold: c.Annotations[foundationdb.HoldAnnotation], Warnings: warningsOf(c), Entries: entriesOf(c.Status.Plan)}
	for _, e := range p.Entries {
		if e.Reason == chain.ReasonHeld && p.Hash == "" {
			p.Hash = hash.FindString(e.Remedy)
		}
	}
	if adopted := meta.FindStatusCondition(c.Status.Conditions, clusters.TypeAdopted); p.Hash == "" && adopted != nil && adopted.Reason == "ApprovalMissing" {
		p.Hash = hash.FindString(adopted.Message)
	}
	return p
}

// PlannedOf is a plan that was made here of a cluster, stored or changed: it has no hash, since the operator's facts
// may be others.
func PlannedOf(c *v1beta2.FoundationDBCluster, planned []chain.Planned, assumed string, now time.Time) Plan {
	p := Plan{
		Cluster: c.Namespace + "/" + c.Name, Hold: c.Annotations[foundationdb.HoldAnnotation], Assumed: assumed, Warnings: warningsOf(c),
		Entries: entriesOf(clusters.Entries(planned, nil, "", now)),
	}
	for i := range p.Entries {
		p.Entries[i].Since = time.Time{} // all of it was seen only now
		if p.Entries[i].Reason == chain.ReasonHeld {
			p.Entries[i].Remedy = ""
		}
	}
	return p
}

// Warnings are what is allowed in an object and may not do what is expected; other kinds than clusters have none.
func Warnings(o control.Object) []string {
	if KindOf(o.Kind) != ClusterKind {
		return nil
	}
	c, err := ClusterOf(o)
	if err != nil {
		return nil // which the operator says
	}
	return warningsOf(c)
}

func warningsOf(c *v1beta2.FoundationDBCluster) []string {
	var all []string
	for _, w := range foundationdb.Warnings(c) {
		all = append(all, w.String())
	}
	return all
}

func entriesOf(plan []v1beta2.PlanEntry) []Entry {
	entries := []Entry{}
	for _, e := range plan {
		entry := Entry{Link: e.Link, Action: e.Action, Targets: e.Targets, Now: e.Now, Reason: e.Reason, Message: e.Message, Remedy: e.Remedy}
		if e.Since != nil {
			entry.Since = e.Since.UTC()
		}
		if e.NotBefore != nil {
			entry.NotBefore = e.NotBefore.UTC()
		}
		entries = append(entries, entry)
	}
	return entries
}

// Held reports whether a person must let something of the plan pass.
func (p Plan) Held() bool {
	for _, e := range p.Entries {
		if e.Reason == chain.ReasonHeld {
			return true
		}
	}
	return false
}

// brief is an entry beside one of its targets.
func (e Entry) brief() string {
	if e.Now {
		return e.Link + " now"
	}
	return e.Link + " waits: " + e.Reason
}

// Text is the plan for people: what is done now, then what waits, and why.
func (p Plan) Text(now time.Time) string {
	var b strings.Builder
	head := "plan of " + p.Cluster
	if p.Hash != "" {
		head += "  hash " + p.Hash
	}
	if p.Hold != "" {
		head += "  held: " + p.Hold
	}
	b.WriteString(head + "\n")
	if p.Assumed != "" {
		b.WriteString("  " + p.Assumed + "\n")
	}
	for _, warning := range p.Warnings {
		b.WriteString("  ! " + warning + "\n")
	}
	b.WriteString(p.lines(now))
	if p.Hash != "" {
		_, name, _ := strings.Cut(p.Cluster, "/")
		fmt.Fprintf(&b, "  to let it pass once: pawl fdb approve %s %s\n", name, p.Hash)
	}
	return b.String()
}

func (p Plan) lines(now time.Time) string {
	if len(p.Entries) == 0 {
		return "  nothing is to be done\n"
	}
	t := view.Table{Head: []string{"  LINK", "ACTION", "WHEN", "WHY NOT NOW"}}
	remedies := []string{}
	for _, e := range p.Entries {
		when, why := "now", ""
		if !e.Now {
			when, why = "–", because(e.Reason, e.Message)
			if !e.Since.IsZero() {
				when = "waits since " + view.Age(now.Sub(e.Since))
			}
			if !e.NotBefore.IsZero() {
				when = "in " + view.Age(e.NotBefore.Sub(now)) + " at the earliest"
			}
		}
		t.Rows = append(t.Rows, []string{"  " + e.Link, strings.TrimSpace(e.Action + " " + few(e.Targets)), when, why})
		if e.Remedy != "" && e.Reason != chain.ReasonHeld {
			remedies = append(remedies, fmt.Sprintf("  %s: %s\n", e.Link, oneLine(e.Remedy)))
		}
	}
	return t.String() + strings.Join(remedies, "")
}

// few are the first targets: the JSON form has all that the status has.
func few(targets []string) string {
	const most = 4
	if len(targets) <= most {
		return strings.Join(targets, ", ")
	}
	rest := len(targets) - most + 1
	var clipped int // the status has no more than some, and says so
	if _, err := fmt.Sscanf(targets[len(targets)-1], "and %d more", &clipped); err == nil {
		rest += clipped - 1
	}
	return fmt.Sprintf("%s and %d more", strings.Join(targets[:most-1], ", "), rest)
}

// because is a reason with its message.
func because(reason, message string) string {
	message = oneLine(message)
	if reason == "" || message == "" {
		return cmp.Or(reason, message)
	}
	return reason + ": " + message
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
