package cloudstack

import (
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/api"
)

// datedDrift is a report with dates in the format of this API. Its own fields hide
// those of the report with the same name.
type datedDrift struct {
	*api.DriftReport
	At       string           `json:"at,omitempty"`
	NextTry  string           `json:"nextTry,omitempty"`
	Findings []datedFinding   `json:"findings"`
	Policy   cluster.Recovery `json:"policy,omitempty"`
}

type datedPlan struct {
	*api.DryRun
	Findings []datedFinding `json:"findings"`
}

type datedFinding struct {
	cluster.Finding
	Since string `json:"since,omitempty"`
	At    string `json:"at,omitempty"`
}

func driftAnswer(r *api.DriftReport) any {
	if r == nil {
		return nil
	}
	return datedDrift{DriftReport: r, At: dateOrNone(r.At), NextTry: dateOrNone(r.NextTry), Findings: dated(r.Findings), Policy: r.Policy}
}

func planAnswer(p *api.DryRun) any {
	if p == nil {
		return nil
	}
	return datedPlan{DryRun: p, Findings: dated(p.Findings)}
}

func dated(findings []cluster.Finding) []datedFinding {
	list := make([]datedFinding, len(findings))
	for i, f := range findings {
		list[i] = datedFinding{Finding: f, Since: dateOrNone(f.Since), At: dateOrNone(f.At)}
	}
	return list
}

func dateOrNone(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return date(t)
}
