package notification

import (
	"context"
	"sync"

	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// maxPages is how many pages a reading keeps: notifications that are far behind read many.
const maxPages = 16

// reading reads the history once for all notifications that are at the same position. It is used for one round
// of passes, as what it has read of the end of the history becomes old.
type reading struct {
	history History
	source  Source // of container clusters; nil: none

	mu         sync.Mutex // held while a page is read: others want the same one
	events     map[position]pageOf[runtype.Event]
	ofClusters map[position]pageOf[Event]
	runs       map[string]*runtype.Run // by id; nil: retention has removed it
}

// position is where a page begins, and its limit.
type position struct {
	cursor string
	limit  int
}

type pageOf[E any] struct {
	events []E
	next   string
}

// Events returns events of the history after a cursor. The caller does not change them.
func (r *reading) Events(ctx context.Context, cursor string, limit int) ([]runtype.Event, string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return once(ctx, &r.events, position{cursor, limit}, r.history.Events)
}

// EventsOf is Events of a history that finds the events of kinds that have a type.
func (r *reading) EventsOf(ctx context.Context, h selective, cursor string, limit int) ([]runtype.Event, string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return once(ctx, &r.events, position{cursor, limit}, func(ctx context.Context, cursor string, limit int) ([]runtype.Event, string, error) {
		return h.EventsOf(ctx, cursor, limit, kinds)
	})
}

// Clusters returns events of container clusters.
func (r *reading) Clusters(ctx context.Context, cursor string, limit int) ([]Event, string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return once(ctx, &r.ofClusters, position{cursor, limit}, r.source.Events)
}

// once returns a page that was read before, or reads it.
func once[E any](ctx context.Context, pages *map[position]pageOf[E], at position, read func(context.Context, string, int) ([]E, string, error)) ([]E, string, error) {
	if page, ok := (*pages)[at]; ok {
		return page.events, page.next, nil
	}
	events, next, err := read(ctx, at.cursor, at.limit)
	if err != nil {
		return nil, "", err
	}
	if *pages == nil || len(*pages) >= maxPages {
		*pages = map[position]pageOf[E]{}
	}
	(*pages)[at] = pageOf[E]{events, next}
	return events, next, nil
}

// Runs returns the runs of events by id, without those that retention has removed.
func (r *reading) Runs(ctx context.Context, events []runtype.Event) (map[string]*runtype.Run, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	q := runstore.Query{Limit: batch}
	found := map[string]*runtype.Run{}
	for _, e := range events {
		run, known := r.runs[e.Run]
		if !known {
			if _, asked := found[e.Run]; !asked {
				q.IDs = append(q.IDs, e.Run)
			}
		}
		found[e.Run] = run
	}
	if len(q.IDs) > 0 {
		runs, _, err := r.history.List(ctx, q)
		if err != nil {
			return nil, err
		}
		if r.runs == nil || len(r.runs) > maxPages*batch {
			r.runs = map[string]*runtype.Run{}
		}
		for _, id := range q.IDs {
			r.runs[id] = nil
		}
		for _, run := range runs {
			r.runs[run.ID], found[run.ID] = run, run
		}
	}
	return found, nil
}
