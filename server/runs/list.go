package runs

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/server/route"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Filter selects runs.
type Filter struct {
	Phase    []runtype.Phase `query:"phase" enum:"Queued,Running,Waiting,Paused,Cancelling,Cancelled,Succeeded" doc:"any of these, separated by commas"`
	Active   bool            `query:"active" doc:"only those that have not ended"`
	Flow     string          `query:"flow"`
	Fault    string          `query:"fault" doc:"code of the fault that they are paused by"`
	Subject  string          `query:"subject" doc:"kind/namespace/name: all runs of that object; with its uid behind it: those of its machine"`
	Prefix   string          `query:"prefix" doc:"prefix of the id"`
	Hash     string          `query:"hash" doc:"content hash of the definition"`
	Parent   string          `query:"parent" doc:"id of the run that started them"`
	Selector string          `query:"selector" doc:"labels: key=value, key!=value, key, !key, separated by commas"`
	Text     string          `query:"text" maxLength:"200" doc:"occurs in the id, the flow, the subject or a label (key=value), in small or capital letters"`
	Since    time.Time       `query:"since" doc:"created then or later"`
	Until    time.Time       `query:"until" doc:"created then or earlier"`
}

type listRuns struct {
	Filter
	Oldest bool   `query:"oldest" doc:"oldest first; default: newest first"`
	Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"100"`
	Cursor string `query:"cursor" doc:"next of the previous page"`
}

// query returns the query of a filter.
func (s *Service) query(ctx context.Context, f Filter) (q runstore.Query, err error) {
	labels, err := view.Labels(f.Selector)
	if err != nil {
		return q, err
	}
	uid, err := s.uidOf(ctx, f.Subject)
	return runstore.Query{
		Labels: labels, Phases: f.Phase, Active: f.Active, Flow: f.Flow, Fault: fault.Code(f.Fault), Subject: f.Subject, UID: uid, Prefix: f.Prefix,
		Hash: f.Hash, Parent: f.Parent, Text: f.Text, Since: f.Since, Until: f.Until,
	}, err
}

// count counts the runs of a filter.
func (s *Service) count(ctx context.Context, in *struct{ Filter }) (*route.One[view.RunCounts], error) {
	lister, err := s.Lister()
	if err != nil {
		return nil, err
	}
	q, err := s.query(ctx, in.Filter)
	if err != nil {
		return nil, err
	}
	counts, err := lister.Count(ctx, q)
	return route.OneOf(view.OfCounts(counts), err)
}

func (s *Service) list(ctx context.Context, in *listRuns) (*route.One[view.Runs], error) {
	lister, err := s.Lister()
	if err != nil {
		return nil, err
	}
	q, err := s.query(ctx, in.Filter)
	if err != nil {
		return nil, err
	}
	q.OldestFirst, q.Limit, q.Cursor = in.Oldest, in.Limit, in.Cursor
	runs, next, err := lister.List(ctx, q)
	if err != nil {
		return nil, route.CursorError(in.Cursor, err)
	}
	page := view.OfRuns(runs, next, s.Engine.Flows())
	known := map[string]string{}
	for i := range page.Items {
		r := &page.Items[i]
		if r.Phase != runtype.Queued || r.Behind != "" || r.WaitsForLimits() {
			continue
		}
		if _, ok := known[r.Subject]; !ok {
			if known[r.Subject], err = s.active(ctx, r.Subject); err != nil {
				return nil, err
			}
		}
		r.Behind = known[r.Subject]
	}
	return route.OneOf(page, nil)
}
