package schedule

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/workflow"
)

// Paused reports whether a schedule is paused.
func Paused(o control.Object) bool {
	_, is := o.Annotations[PauseAnnotation]
	return is
}

// Pause pauses a schedule. One that is paused already keeps its reason.
func Pause(o *control.Object, why string) {
	if Paused(*o) {
		return
	}
	if o.Annotations == nil {
		o.Annotations = map[string]string{}
	}
	o.Annotations[PauseAnnotation] = why
}

// Resume ends a pause.
func Resume(o *control.Object) { delete(o.Annotations, PauseAnnotation) }

// pendingOf returns the timetable of a schedule, and what its ticks start.
func pendingOf(o control.Object) (*Timetable, Pending, error) {
	t, err := Parse(o.Spec)
	if err != nil {
		return nil, Pending{}, Invalid.Errorf("spec of %s: %w", o.Ref, err)
	}
	return t, Pending{Flow: t.Flow, Subject: SubjectOf(o, t.Spec), Input: t.Input}, nil
}

// TriggerOf returns the request of a run that no tick starts. Requests with one id are one run.
func TriggerOf(o control.Object, id string, by workflow.Actor) (workflow.Request, error) {
	_, p, err := pendingOf(o)
	if err != nil {
		return workflow.Request{}, err
	}
	r := RunOf(o, p, time.Time{})
	r.RequestID, r.Actor = id, by
	delete(r.Labels, LabelTick)
	return r, nil
}

// Starter starts the runs of a backfill.
type Starter interface {
	Exists(ctx context.Context, run string) (bool, error)
	Start(ctx context.Context, r workflow.Request) error
}

// Backfilled is what became of a tick of a backfill.
type Backfilled struct {
	Tick   time.Time `json:"tick"`
	Run    string    `json:"run" doc:"id"`
	Result string    `json:"result" enum:"started,exists,planned"`
}

// Backfill are ticks of the past whose runs are wanted.
type Backfill struct {
	From, To time.Time
	DryRun   bool // only tells what would start
	By       string
}

// Run starts the runs of those ticks that have none, the oldest first. It calls each after each tick.
func (b Backfill) Run(ctx context.Context, o control.Object, s Starter, now time.Time, each func(Backfilled)) error {
	if b.To.After(now) || b.To.Before(b.From) {
		return RangeInvalid.Errorf("the time from %s to %s ends in the future or before it begins", b.From.Format(time.RFC3339), b.To.Format(time.RFC3339))
	}
	t, p, err := pendingOf(o)
	if err != nil {
		return err
	}
	ticks, more := t.Between(b.From, b.To, MaxCatchUp)
	if more {
		return RangeInvalid.Errorf("there are more than %d ticks from %s to %s, and so many runs can be queued", MaxCatchUp, b.From.Format(time.RFC3339), b.To.Format(time.RFC3339))
	}
	for _, tick := range ticks {
		r := RunOf(o, p, tick)
		r.Actor = workflow.Actor{Name: b.By, Reason: "backfill"}
		one := Backfilled{Tick: tick, Run: workflow.RunID(r.Subject, r.Flow, r.RequestID), Result: "planned"}
		exists, err := s.Exists(ctx, one.Run)
		switch {
		case err != nil:
			return err
		case exists:
			one.Result = "exists"
		case !b.DryRun:
			if err := s.Start(ctx, r); err != nil {
				return err
			}
			one.Result = "started"
		}
		each(one)
	}
	return nil
}
