package classic

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Written is the result of Write.
type Written struct {
	New   int // number of runs that were not in the store
	Known int // number of runs that were in the store: they are not changed
}

// Write stores the runs. It may be repeated: it skips a run that exists, and completes a run whose
// write was interrupted. Call it before a worker serves the store.
//
// A subject has one active run. If several runs of the ConfigMap have not ended, the first one that
// can continue is active and the others are queued behind it. A queued run that was interrupted
// pauses at its step when it leaves the queue.
func (i Imported) Write(ctx context.Context, store runstore.Store) (Written, error) {
	var w Written
	if keeps, ok := store.(runstore.Definitions); ok {
		for _, d := range i.definitions {
			if err := keeps.PutDefinition(ctx, d); err != nil {
				return w, err
			}
		}
	}
	for _, one := range i.Runs {
		fresh, err := write(ctx, store, one)
		if err != nil {
			return w, fmt.Errorf("%s: %w", one.Key, err)
		}
		if fresh {
			w.New++
		} else {
			w.Known++
		}
	}
	return w, nil
}

func write(ctx context.Context, store runstore.Store, one ImportedRun) (fresh bool, err error) {
	want := *one.Run
	run := want // the store reads the changed records from it
	run.Phase, run.Fault, run.Seq = runtype.Running, nil, 1
	run.State.PausedAt = time.Time{}
	run.EndedAt = time.Time{}
	_, _, err = store.Load(ctx, run.ID)
	if fresh = errors.Is(err, runstore.ErrNotFound); err != nil && !fresh {
		return false, err
	}
	event := runtype.Event{Run: run.ID, Seq: 1, At: run.CreatedAt, Kind: runtype.RunCreated, Actor: run.Actor, Message: "imported from " + one.Key}
	got, err := store.Create(ctx, &run, []runtype.Event{event})
	if err != nil {
		return false, err
	}
	// At its first revision no worker has changed a run. A run that continues is complete now; one
	// that has ended or stopped needs a second write.
	untouched := got.Revision <= 1 && got.Epoch == 0
	if !untouched || want.Phase == runtype.Running || got.Phase == runtype.Queued && !want.Phase.Final() {
		return fresh, nil
	}
	got.Phase, got.Fault, got.EndedAt, got.NextAt = want.Phase, want.Fault, want.EndedAt, time.Time{}
	got.State = want.State
	got.Seq++
	last := runtype.Event{Run: got.ID, Seq: got.Seq, At: want.EndedAt, Kind: runtype.RunSucceeded, Actor: want.Actor}
	if want.Phase == runtype.Paused {
		last.Kind, last.At, last.Step, last.Code, last.Message = runtype.RunPaused, want.State.PausedAt, want.Fault.Step, want.Fault.Code, want.Fault.Message
	}
	return fresh, store.Save(ctx, &runstore.Save{Run: got, Events: []runtype.Event{last}})
}
