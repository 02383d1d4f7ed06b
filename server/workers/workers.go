// Package workers serves who works on the runs of a server's store, and who holds its locks.
package workers

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/lock"
	"github.com/pawl-dev/pawl/server/route"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

// Service serves the workers and the locks of a store.
type Service struct {
	Engine *workflow.Engine
	Locks  lock.Lister // nil: NOT_SERVED
}

// Routes are the routes of workers and locks.
func (s *Service) Routes() route.Table {
	return route.Table{Tag: "workers", Errors: []int{http.StatusNotImplemented}, Routes: []route.Route{
		{Method: http.MethodGet, Path: "/v1/workers", ID: "listWorkers", Role: route.Operator, Handle: route.Do(s.listWorkers),
			Summary: "List the processes that work on runs, with their leases and their oldest runs"},
		{Method: http.MethodGet, Path: "/v1/locks", ID: "listLocks", Role: route.Operator, Errors: []int{400}, Handle: route.Do(s.listLocks),
			Summary: "List the locks that processes share, with holders and deny lists"},
	}}
}

func (s *Service) listWorkers(ctx context.Context, _ *struct{}) (*route.ListOf[view.Worker], error) {
	store, ok := s.Engine.Store().(runstore.Workers)
	lister, lists := s.Engine.Store().(runstore.Lister)
	if !ok || !lists {
		return nil, route.NotServed.Errorf("the store of this server does not know its workers")
	}
	found, err := store.Workers(ctx)
	if err != nil {
		return nil, err
	}
	list := route.NewList([]view.Worker{})
	for _, w := range found {
		one := view.OfWorker(w)
		if len(w.Runs) > 0 {
			runs, _, err := lister.List(ctx, runstore.Query{IDs: w.Runs, Limit: len(w.Runs), OldestFirst: true})
			if err != nil {
				return nil, err
			}
			one.Runs = view.OfRuns(runs, "", s.Engine.Flows()).Items
		}
		list.Body.Items = append(list.Body.Items, one)
	}
	return list, nil
}

func (s *Service) listLocks(ctx context.Context, in *struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"100"`
	Cursor string `query:"cursor" doc:"next of the previous page"`
}) (*route.ListOf[view.Lock], error) {
	if s.Locks == nil {
		return nil, route.NotServed.Errorf("this server shares no locks")
	}
	after, err := route.ParseTextCursor(in.Cursor)
	if err != nil {
		return nil, err
	}
	values, now, err := s.Locks.List(ctx, after, in.Limit)
	if err != nil {
		return nil, err
	}
	list := route.NewList([]view.Lock{})
	for _, v := range values {
		if !strings.HasPrefix(v.Name, lock.ReservedPrefix) {
			list.Body.Items = append(list.Body.Items, lockOf(v, now))
		}
	}
	if len(values) == in.Limit {
		list.Body.Next = route.TextCursor(values[len(values)-1].Name)
	}
	return list, nil
}

func lockOf(v lock.Value, now time.Time) view.Lock {
	one := view.Lock{Name: v.Name, Denied: []string{}}
	state, err := lock.ParseState(v.Name, v.Data)
	if err != nil {
		one.Unreadable = fault.Message(err)
		return one
	}
	one.Denied = append(one.Denied, state.Deny...)
	if r := state.Record; r != nil {
		start, end := r.Start, r.End
		one.Holder, one.Since, one.Until, one.Expired = r.Owner, &start, &end, !r.Valid(now)
	}
	return one
}
