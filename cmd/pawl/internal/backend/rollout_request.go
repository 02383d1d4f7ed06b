package backend

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	operator "github.com/pawl-dev/pawl/operator/rollout"
	"github.com/pawl-dev/pawl/rollout"
	"github.com/pawl-dev/pawl/view"
)

// AnswerWithin is how long the answer of an operator is waited for.
const AnswerWithin = 15 * time.Second

// RolloutRequest is something asked of a Rollout once.
type RolloutRequest struct {
	Verb       rollout.Verb
	Argument   string // of approve: the index of a batch, next or all
	By, Reason string
}

// annotation is the request as it stands on the Rollout.
func (r RolloutRequest) annotation() (key, value string) {
	var parts []string
	for _, part := range [][2]string{{"", r.Argument}, {"by=", r.By}, {"reason=", oneLine(r.Reason)}} {
		if part[1] != "" {
			parts = append(parts, part[0]+part[1])
		}
	}
	return control.RequestPrefix + string(r.Verb), strings.Join(parts, "; ")
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// RequestRollout annotates a Rollout with a request, which its operator accepts once and answers.
func RequestRollout(ctx context.Context, objects control.Objects, ref control.Ref, r RolloutRequest) (control.Object, error) {
	key, value := r.annotation()
	return control.Modify(ctx, objects, ref, func(o *control.Object) error {
		if old := o.Annotations[key]; old != "" {
			return rollout.RequestUnknown.Errorf("%s has an unanswered request %s=%s: does an operator serve it?", o.Ref, key, old)
		}
		if o.Annotations == nil {
			o.Annotations = map[string]string{}
		}
		o.Annotations[key] = value
		return nil
	})
}

// RolloutAnswer waits for the answer to the request that was written after a reading. A refusal is an
// error. changes tells when to look again.
func RolloutAnswer(ctx context.Context, changes <-chan struct{}, objects control.Objects, before view.Rollout) (rollout.RequestAnswer, error) {
	limited, cancel := context.WithTimeout(ctx, AnswerWithin)
	defer cancel()
	for {
		answer, err := answerSince(limited, objects, before)
		switch {
		case answer != nil && answer.Code == "":
			return *answer, nil
		case answer != nil:
			kind, known := fault.Lookup(answer.Code)
			if !known {
				kind = rollout.RequestUnknown
			}
			return *answer, kind.Errorf("%s", answer.Message)
		case limited.Err() != nil && ctx.Err() == nil:
			return rollout.RequestAnswer{}, fault.APIUnavailable.Errorf("the request is written to %s, and no operator has answered within %s", before.Object, AnswerWithin)
		case err != nil:
			return rollout.RequestAnswer{}, err
		}
		select {
		case <-limited.Done():
		case <-changes:
		}
	}
}

// answerSince is the answer that a Rollout did not have before; nil: none.
func answerSince(ctx context.Context, objects control.Objects, before view.Rollout) (*rollout.RequestAnswer, error) {
	o, err := objects.Get(ctx, before.Object)
	if err != nil {
		return nil, err
	}
	now, err := view.RolloutOf(o)
	if err != nil {
		return nil, err
	}
	if last, old := now.Position.LastRequest, before.Position.LastRequest; last != nil && (old == nil || last.ID != old.ID) {
		return last, nil
	}
	return nil, nil
}

// PauseRollout sets paused in the plan of a Rollout. Who asks, and why, stands in an annotation until the
// plan is not paused any more.
func PauseRollout(ctx context.Context, objects control.Objects, ref control.Ref, by, reason string) (control.Object, error) {
	return control.Modify(ctx, objects, ref, func(o *control.Object) error {
		var spec map[string]any
		if err := json.Unmarshal(o.Spec, &spec); err != nil {
			return err
		}
		plan, ok := spec["rolloutPlan"].(map[string]any)
		if !ok {
			return rollout.PlanInvalid.Errorf("%s has no spec.rolloutPlan", o.Ref)
		}
		plan["paused"] = true
		if o.Annotations == nil {
			o.Annotations = map[string]string{}
		}
		if delete(o.Annotations, operator.PauseReasonAnnotation); reason != "" {
			o.Annotations[operator.PauseReasonAnnotation] = by + ": " + oneLine(reason)
		}
		text, err := json.Marshal(spec)
		o.Spec = text
		return err
	})
}
