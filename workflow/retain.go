package workflow

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

const retainBatch = 100

// Retain archives and removes the finished runs that no policy keeps. It returns their number.
// It forgets starts that are older than the windows of their keys, too. Serve calls it once an hour.
func (e *Engine) Retain(ctx context.Context) (int, error) {
	if err := e.forgetStarts(ctx); err != nil {
		e.log.Warn("workflow: old starts of limits could not be removed", "error", err)
	}
	retainer, ok := e.store.(runstore.Retainer)
	if !ok {
		return 0, nil
	}
	policy := func(flow string) runtype.Retention {
		if p := e.catalog.planNamed(flow); p != nil && p.flow.Retention != nil {
			return p.flow.Retention.Filled()
		}
		return e.options.Retention.Filled()
	}
	removed := 0
	for ctx.Err() == nil {
		ids, err := retainer.Expired(ctx, now(), policy, retainBatch)
		if err != nil || len(ids) == 0 {
			return removed, err
		}
		if err := e.archive(ctx, ids); err != nil {
			return removed, err
		}
		if err := retainer.Remove(ctx, ids); err != nil {
			return removed, err
		}
		removed += len(ids)
		if len(ids) < retainBatch {
			break
		}
	}
	return removed, ctx.Err()
}

// archive passes runs to Options.Archive before they are removed.
func (e *Engine) archive(ctx context.Context, ids []string) error {
	lister, ok := e.store.(runstore.Lister)
	if e.options.Archive == nil || !ok {
		return nil
	}
	for _, id := range ids {
		r, _, err := e.store.Load(ctx, id)
		if err != nil {
			return err
		}
		var events []runtype.Event
		for after := int64(0); ; {
			part, err := lister.History(ctx, id, after, 0)
			if err != nil {
				return err
			}
			if len(part) == 0 {
				break
			}
			events = append(events, part...)
			after = part[len(part)-1].Seq
		}
		if err := e.options.Archive(r, events); err != nil {
			return err
		}
	}
	return nil
}

// retainLoop calls Retain once an hour until ctx ends. It has its own goroutine, so that a long
// removal does not delay claims.
func (e server) retainLoop(ctx context.Context) {
	ticker := time.NewTicker(time.Hour)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if n, err := e.Retain(ctx); err != nil && ctx.Err() == nil {
			e.log.Warn("workflow: old runs could not be removed", "error", err)
		} else if n > 0 {
			e.log.Info("workflow: old runs were removed", "runs", n)
		}
	}
}
