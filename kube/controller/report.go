package controller

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/kube/condition"
	"github.com/pawl-dev/pawl/outcome"
)

// giveUp writes RETRIES_EXHAUSTED into the condition of an object.
func (w *worker[T]) giveUp(ctx context.Context, obj T, given error) error {
	return w.report(ctx, obj, condition.FromError(w.condition, metav1.ConditionFalse, given), nil)
}

// revive replaces that condition after a pass that did not fail, unless the pass has done
// so itself. The condition may have been written by an earlier process.
func (w *worker[T]) revive(ctx context.Context, obj T, out outcome.Outcome) error {
	if w.conditions == nil || !w.isGivenUp(obj) {
		return nil
	}
	fresh := condition.Progressing(out)
	fresh.Type = w.condition
	if err := w.report(ctx, obj, fresh, w.isGivenUp); err != nil {
		return err
	}
	w.events.Normal(obj, "Revived", "a retry did not fail: %s", fresh.Message)
	return nil
}

func (w *worker[T]) isGivenUp(obj T) bool {
	c := meta.FindStatusCondition(*w.conditions(obj), w.condition)
	return c != nil && c.Reason == control.RetriesExhausted.Reason()
}

// report writes one condition into the newest version of an object, if it has the same uid
// and when returns true for it (nil: always).
func (w *worker[T]) report(ctx context.Context, obj T, fresh metav1.Condition, when func(T) bool) error {
	if w.conditions == nil {
		return nil
	}
	d, err := Load(ctx, w.live, w.client, client.ObjectKeyFromObject(obj), w.newObject())
	switch {
	case isNotFound(err):
		return nil
	case err != nil:
		return err
	case d.Object.GetUID() != obj.GetUID(), when != nil && !when(d.Object):
		return nil
	}
	condition.Set(w.conditions(d.Object), d.Object.GetGeneration(), w.now(), fresh)
	if _, err := d.Save(ctx); err != nil && !isNotFound(err) {
		return err
	}
	return nil
}
