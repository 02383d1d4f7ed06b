package removal

import (
	"cmp"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
)

// Surplus chooses the groups of a class that go, so that count stay.
func Surplus(groups []*v1beta2.ProcessGroupStatus, count int, now time.Time) []v1beta2.ProcessGroupID {
	most := len(groups) - count
	if most <= 0 {
		return nil
	}
	var failed []*v1beta2.ProcessGroupStatus
	var well []fdb.Candidate
	for _, g := range groups {
		silent := g.Has(v1beta2.MissingProcesses)
		switch {
		case silent && !g.Lasts(v1beta2.MissingProcesses, youngestFault, now): // it stays
		case silent || foundationdb.Fails(g):
			failed = append(failed, g)
		default:
			well = append(well, fdb.Candidate{ID: string(g.ProcessGroupID), Locality: map[string]string{fdb.ZoneLocality: g.FaultDomain}})
		}
	}
	slices.SortStableFunc(failed, func(a, b *v1beta2.ProcessGroupStatus) int { return cmp.Compare(firstFault(a), firstFault(b)) })
	var chosen []v1beta2.ProcessGroupID
	for _, g := range failed[:min(most, len(failed))] {
		chosen = append(chosen, g.ProcessGroupID)
	}
	rest := min(most-len(chosen), len(well))
	if rest <= 0 {
		return chosen
	}
	kept, err := fdb.Spread(well, len(well)-rest, []string{fdb.ZoneLocality}, nil)
	if err != nil {
		return chosen
	}
	for _, c := range well {
		if !slices.ContainsFunc(kept, func(k fdb.Candidate) bool { return k.ID == c.ID }) {
			chosen = append(chosen, v1beta2.ProcessGroupID(c.ID))
		}
	}
	return chosen
}

// firstFault is when the oldest condition of a group began, in unix seconds.
func firstFault(g *v1beta2.ProcessGroupStatus) int64 {
	var first int64
	for _, c := range g.ProcessGroupConditions {
		if first == 0 || c.Timestamp < first {
			first = c.Timestamp
		}
	}
	return first
}
