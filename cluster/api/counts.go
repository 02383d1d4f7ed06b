package api

import (
	"context"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/machine"
)

// Counts are the numbers for the metrics of clusters.
type Counts struct {
	States  map[machine.State]int       // clusters, without Destroyed
	Drift   map[cluster.FindingType]int // findings of clusters in Alert
	Backlog int                         // clusters in Expunge
	Overdue int                         // clusters in a transient state past its deadline
	Open    map[cluster.Phase]int       // journal rows in progress
	Leaked  map[cluster.Kind]int        // resources in the leak report
}

// Count returns the current Counts.
func (s *Reader) Count(ctx context.Context) (Counts, error) {
	t := Counts{States: map[machine.State]int{}, Drift: map[cluster.FindingType]int{}, Open: map[cluster.Phase]int{}, Leaked: map[cluster.Kind]int{}}
	records, now := s.options.Store, s.options.Now()
	for _, state := range cluster.States {
		if state == cluster.Destroyed {
			continue
		}
		limit := 1
		if state == cluster.Alert || cluster.Transient(state) {
			limit = -1
		}
		found, total, err := records.List(ctx, cluster.ClusterQuery{Scope: cluster.Scope{All: true}, State: state, Limit: limit})
		if err != nil {
			return t, err
		}
		t.States[state] = total
		for i := range found {
			switch {
			case state == cluster.Alert:
				for _, f := range found[i].Findings {
					t.Drift[f.Type]++
				}
			case cluster.Transient(state) && now.Sub(found[i].StateSince) > cluster.RunDeadline:
				t.Overdue++
			}
		}
	}
	t.Backlog = t.States[cluster.Expunge]
	for _, phase := range []cluster.Phase{cluster.Intent, cluster.Accepted, cluster.Closing} {
		_, total, err := records.Rows(ctx, cluster.RowQuery{Phases: []cluster.Phase{phase}, Limit: 1})
		if err != nil {
			return t, err
		}
		t.Open[phase] = total
	}
	for _, kind := range []cluster.Kind{cluster.VM, cluster.Network, cluster.Address, cluster.Firewall, cluster.Forward, cluster.Balancer, cluster.KeyPair} {
		_, total, err := records.Rows(ctx, cluster.RowQuery{Phases: []cluster.Phase{cluster.Leaked, cluster.Forgotten}, Kind: kind, Limit: 1})
		if err != nil {
			return t, err
		}
		t.Leaked[kind] = total
	}
	return t, nil
}
