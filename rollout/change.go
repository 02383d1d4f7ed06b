package rollout

import (
	"reflect"
	"slices"
	"strconv"
)

// Change refuses an edit of the plan that cannot be taken over now: batches that have begun, fewer
// batches than have begun, the strategy, the plan of a finished named pair, the size of a rollout in
// place. The fault is PLAN_CHANGE_REFUSED and names the field.
func (p Plan) Change(to Plan, at Position) error {
	refuse := func(field, format string, args ...any) error {
		return PlanChangeRefused.Errorf(field+": "+format, args...).With("field", field)
	}
	if len(at.Batches) == 0 {
		return nil
	}
	all := 0
	if at.OriginalSize != nil && at.TargetSize != nil {
		all = total(at.Mode, *at.OriginalSize, *at.TargetSize)
	}
	dealt := to.RolloutBatches == nil
	p, to = at.recorded(p).Defaulted(all), to.Defaulted(all)
	if dealt && len(to.RolloutBatches) == len(p.RolloutBatches) { // dealt from the total of the begin
		to.RolloutBatches = p.RolloutBatches
	}
	if at.State.Terminal() {
		if at.Named && !reflect.DeepEqual(p.RolloutBatches, to.RolloutBatches) {
			return refuse("rolloutBatches", "the rollout has ended; a plan counts for the next pair of revisions")
		}
		return nil
	}
	if at.Mode == Rollout && to.TargetSize != nil && at.TargetSize != nil && *to.TargetSize != *at.TargetSize {
		return refuse("targetSize", "the rollout moves %d pods; the new size is a scale after its end", *at.TargetSize)
	}
	if at.Strategy != "" && to.RolloutStrategy != at.Strategy {
		return refuse("rolloutStrategy", "it is %s until the rollout has ended", at.Strategy)
	}
	if len(to.RolloutBatches) <= at.CurrentBatch {
		return refuse("rolloutBatches", "there are %d, and batch %d has begun", len(to.RolloutBatches), at.CurrentBatch)
	}
	for i := range at.CurrentBatch + 1 {
		if !sameShape(p.RolloutBatches[i], to.RolloutBatches[i]) {
			return refuse("rolloutBatches["+strconv.Itoa(i)+"]", "the batch has begun")
		}
	}
	if found := to.Problems(); found != nil {
		return refuse(found[0].Path, "%s", found[0].Message)
	}
	if at.Replans == 0 && at.OriginalSize != nil && at.TargetSize != nil {
		if err := to.Verify(at.Mode, *at.OriginalSize, *at.TargetSize); err != nil {
			return refuse("rolloutBatches", "%v", err)
		}
	}
	return nil
}

// sameShape compares what moves pods: not webhooks, gates, metrics, soak and deadlines.
func sameShape(a, b Batch) bool {
	return sameAmount(a.Replicas, b.Replicas, a) && slices.Equal(a.PodList, b.PodList) && reflect.DeepEqual(a.Pods, b.Pods) &&
		reflect.DeepEqual(a.MaxUnavailable, b.MaxUnavailable) && a.InstanceInterval == b.InstanceInterval
}

// sameAmount compares sizes. A recorded size of selected pods stands where the plan has none.
func sameAmount(recorded, asked *IntOrPercent, b Batch) bool {
	if asked == nil && b.Pods != nil {
		return true
	}
	return reflect.DeepEqual(recorded, asked)
}

func sameBatches(a, b []Batch) bool {
	return slices.EqualFunc(a, b, func(x, y Batch) bool { return sameShape(y, x) })
}
