package view

import (
	"cmp"
	"slices"

	"github.com/pawl-dev/pawl/workflow/runstore"
)

// RunCounts are the runs of a selection, counted. Each list has the largest number first.
type RunCounts struct {
	Runs   int        `json:"runs" doc:"how many in all"`
	Phases []RunCount `json:"phases" doc:"how many in each phase"`
	Flows  []RunCount `json:"flows" doc:"how many of each flow"`
	Faults []RunCount `json:"faults" doc:"how many are paused by each fault; its code is the name"`
}

// RunCount is how many runs have a phase, flow or fault.
type RunCount struct {
	Name string `json:"name"`
	Runs int    `json:"runs"`
}

// OfCounts returns the counts of a store by phase, by flow and by fault.
func OfCounts(counts []runstore.RunCount) RunCounts {
	phases, flows, faults := map[string]int{}, map[string]int{}, map[string]int{}
	var all RunCounts
	for _, c := range counts {
		all.Runs += c.Runs
		phases[string(c.Phase)] += c.Runs
		flows[c.Flow] += c.Runs
		if c.Fault != "" {
			faults[string(c.Fault)] += c.Runs
		}
	}
	all.Phases, all.Flows, all.Faults = largestFirst(phases), largestFirst(flows), largestFirst(faults)
	return all
}

func largestFirst(numbers map[string]int) []RunCount {
	counts := make([]RunCount, 0, len(numbers))
	for name, n := range numbers {
		counts = append(counts, RunCount{name, n})
	}
	slices.SortFunc(counts, func(a, b RunCount) int { return cmp.Or(cmp.Compare(b.Runs, a.Runs), cmp.Compare(a.Name, b.Name)) })
	return counts
}
