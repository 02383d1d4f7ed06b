package driver

import (
	"encoding/json"
	"slices"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/machine"
)

// ObjectStatus is what the driver keeps in the status of an object. The rest of
// the status belongs to the steps: a type of one's own embeds this one.
type ObjectStatus struct {
	State      machine.State        `json:"state,omitempty"`
	Conditions []Condition          `json:"conditions,omitempty"`
	Run        *Run                 `json:"run,omitempty"`   // of the state the object is in; nil: none
	Fault      *control.FaultRecord `json:"fault,omitempty"` // what keeps it from going on; nil: nothing
}

// StatusOf reads the status of an object.
func StatusOf(o control.Object) (ObjectStatus, error) {
	var s ObjectStatus
	if o.Status == nil {
		return s, nil
	}
	if err := json.Unmarshal(o.Status, &s); err != nil {
		return ObjectStatus{}, control.Invalid.Errorf("%s: status: %w", o.Ref, err)
	}
	return s, nil
}

// Condition finds a condition by its type: Ready or Progressing; nil: it is not there.
func (s ObjectStatus) Condition(kind string) *Condition {
	i := slices.IndexFunc(s.Conditions, func(c Condition) bool { return c.Type == kind })
	if i < 0 {
		return nil
	}
	return &s.Conditions[i]
}
