package rollout

import (
	"strconv"
	"strings"
	"time"
)

// Record is one line of the history.
type Record struct {
	Sequence   int               `json:"sequence"`
	Time       time.Time         `json:"time"`
	From       string            `json:"from"`
	To         string            `json:"to"`
	Event      Event             `json:"event"`
	By         string            `json:"by"` // controller, or the name of a person
	Request    string            `json:"request,omitempty"`
	Why        string            `json:"why,omitempty"`
	Batch      int               `json:"batch"`
	Generation int64             `json:"generation,omitempty"` // of the workload
	Plan       string            `json:"plan,omitempty"`       // hash
	Values     map[string]string `json:"values,omitempty"`     // of metrics and gates
	Pods       []string          `json:"pods,omitempty"`       // that were moved
	MorePods   int               `json:"morePods,omitempty"`   // how many were moved beside those with names
}

// Things that happen without a transition. They are events of the history, not of the table.
const (
	Replanned       Event = "Replanned"
	PausedEvent     Event = "Paused"
	ResumedEvent    Event = "Resumed"
	RequestAnswered Event = "RequestAnswered"
	FailureSkipped  Event = "FailureSkipped"
	PodDeleted      Event = "PodDeleted"
)

const (
	recordedPods  = 20  // names of pods in one record
	recordedBytes = 200 // of these names together
)

// name gives the record the names of pods, as far as they are few: a record of a large batch has the
// size of that of a small one.
func (r *Record) name(pods []string) {
	n, size := 0, 0
	for n < min(len(pods), recordedPods) && size+len(pods[n]) <= recordedBytes {
		size += len(pods[n])
		n++
	}
	r.Pods, r.MorePods = pods[:n:n], len(pods)-n
}

// PodsText is the pods of the record in words; "": it has none.
func (r Record) PodsText() string {
	switch {
	case len(r.Pods) == 0 && r.MorePods == 0:
		return ""
	case r.MorePods == 0:
		return strings.Join(r.Pods, ", ")
	case len(r.Pods) == 0:
		return podCount(r.MorePods)
	}
	return strings.Join(r.Pods, ", ") + " and " + strconv.Itoa(r.MorePods) + " more"
}
