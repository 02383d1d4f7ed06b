package api

import (
	"context"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/machine"
)

// DriftReport compares the desired, recorded and observed state of a cluster.
type DriftReport struct {
	Cluster  string            `json:"cluster"`
	State    machine.State     `json:"state"`
	Desired  DriftSide         `json:"desired"`
	Recorded DriftSide         `json:"recorded"`
	Observed DriftSide         `json:"observed"`
	At       time.Time         `json:"at"`
	Findings []cluster.Finding `json:"findings"`
	Policy   cluster.Recovery  `json:"policy"`
	NextTry  time.Time         `json:"nextTry,omitzero"`
}

// DriftSide is the desired, recorded or observed state.
type DriftSide struct {
	State   string      `json:"state"`
	Workers int         `json:"workers"`
	Control int         `json:"control"`
	Nodes   []DriftNode `json:"nodes,omitempty"`
}

// DriftNode is a node in a DriftSide.
type DriftNode struct {
	Name  string       `json:"name"`
	ID    string       `json:"id,omitempty"`
	Role  cluster.Role `json:"role,omitempty"`
	Power string       `json:"power,omitempty"`
	Ready string       `json:"ready,omitempty"` // true, false, unknown
}

// Drift observes a cluster now and compares desired, recorded and observed
// state. It reports the recovery policy and its next attempt. Nothing is
// written.
func (s *Reader) Drift(ctx context.Context, who cluster.Caller, uuid string) (*DriftReport, error) {
	record, err := s.Get(ctx, who, uuid)
	if err != nil {
		return nil, err
	}
	seen, err := s.options.Observer.Observe(ctx, record)
	if err != nil {
		return nil, err
	}
	c, now := &record.Cluster, s.options.Now()
	verdict := cluster.DecideHealth(c, record, seen, now, s.options.Settings.Health(s.options.Versions))
	report := &DriftReport{
		Cluster: c.UUID, State: c.State, At: seen.At, Findings: verdict.Findings,
		Policy: c.Recovery.Or(s.options.Settings.Recovery), NextTry: c.RecoverNext,
		Desired:  DriftSide{State: string(c.Desired), Workers: c.NodeCount, Control: c.ControlCount},
		Recorded: DriftSide{State: string(c.State)},
		Observed: DriftSide{State: "reachable"},
	}
	if report.Findings == nil {
		report.Findings = []cluster.Finding{}
	}
	if seen.Err != nil {
		report.Observed.State = "unknown: " + seen.Err.Error()
	}
	if seen.Err == nil {
		c.Findings = verdict.Findings // the readiness of nodes is read from these findings
	}
	for _, n := range record.Nodes {
		count(&report.Recorded, n.Role)
		report.Recorded.Nodes = append(report.Recorded.Nodes, DriftNode{Name: n.Name, ID: n.VMID, Role: n.Role})
	}
	for _, r := range seen.Resources {
		if r.Kind != cluster.VM {
			continue
		}
		node := DriftNode{Name: r.Name, ID: r.ID, Power: string(r.Power), Ready: "unknown"}
		if i := slices.IndexFunc(record.Nodes, func(n cluster.Node) bool { return n.VMID == r.ID }); i >= 0 {
			node.Role = record.Nodes[i].Role
			node.Ready, _ = record.Readiness(&record.Nodes[i])
			count(&report.Observed, node.Role)
		}
		report.Observed.Nodes = append(report.Observed.Nodes, node)
	}
	return report, nil
}

func count(side *DriftSide, role cluster.Role) {
	if role == cluster.Control {
		side.Control++
	} else {
		side.Workers++
	}
}
