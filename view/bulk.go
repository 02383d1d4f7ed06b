package view

import (
	"time"

	"github.com/pawl-dev/pawl/bulk"
	"github.com/pawl-dev/pawl/workflow"
)

// BulkPlan tells which runs a bulk would ask now.
type BulkPlan struct {
	At     time.Time    `json:"at" doc:"when it was read; createdBefore of a bulk of just these runs"`
	Runs   int          `json:"runs" doc:"how many"`
	Groups []bulk.Group `json:"groups" doc:"how many of each flow, phase and fault; the largest first"`
	First  []Run        `json:"first" doc:"the oldest runs"`
}

// OfBulkPlan returns the view of a plan.
func OfBulkPlan(p bulk.Plan, flows []workflow.Flow) BulkPlan {
	return BulkPlan{At: p.At, Runs: p.Runs, Groups: p.Groups, First: OfRuns(p.First, "", flows).Items}
}
