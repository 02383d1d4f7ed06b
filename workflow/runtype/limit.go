package runtype

import "time"

// Limit is a key of a run and the number of runs of that key that may run at once. All limits of a run
// hold: it starts when each of its keys has a free place, and keeps the places until it ends.
type Limit struct {
	Key    string `json:"key"`    // such as provider/aws; at most 256 bytes
	AtOnce int    `json:"atOnce"` // at least 1
}

// Limits of limits.
const (
	MaxLimits   = 8    // keys of one run
	MaxLimitKey = 256  // bytes
	MaxPriority = 1000 // of a run; the lowest is -MaxPriority
)

// PriorityAge is what one point of priority is worth: a run starts before the runs whose priority is one
// lower, unless they have waited longer by more than this time. So a run that waits rises by one point in each
// such time, and none starves.
const PriorityAge = time.Minute

// Rank is the position of the run among those that wait for the same limit: the lowest starts first. It does
// not change while the run waits. Unit: nanoseconds since 1970.
func (r *Run) Rank() int64 {
	return r.CreatedAt.Add(-time.Duration(r.Priority) * PriorityAge).UnixNano()
}
