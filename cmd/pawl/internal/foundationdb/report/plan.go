package report

import (
	"regexp"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/pawl-dev/pawl/chain"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters"
)

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
