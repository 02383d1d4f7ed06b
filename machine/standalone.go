package machine

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Standalone is a machine over control.Objects: machinefile loads it, driver runs it.
type Standalone struct {
	Table   Table[*Subject] // Kind is set: it names the objects
	Schema  workflow.Schema // of specs; nil: any spec is valid
	Observe []Observation
	Old     bool            // its predicates read Subject.Old, so it is stored
	Clock   bool            // its predicates read Subject.Now, so objects at rest are polled
	Flows   []workflow.Flow // one for each state whose work is a single action; load them with the others
	File    string          // where it was read from; may be empty
}

// Observation is a fact that is gathered while an object rests.
type Observation struct {
	Name    string        // of the field status.observed.<name>
	Every   time.Duration // interval; default 30 s, at least 1 s
	Timeout time.Duration // of one observation; default 10 s
	In      []State       // stable states in which it applies; empty: all
	Uses    string        // name of a registered action; its output is the fact
	With    json.RawMessage
	Resolve func(workflow.View) (json.RawMessage, error) // evaluates With for each observation; the view's input is Subject.Input
	Secrets map[string]workflow.SecretRef
}

// Defaults and limits of observations.
const (
	DefaultEvery   = 30 * time.Second
	ShortestEvery  = time.Second
	DefaultTimeout = 10 * time.Second
)

// AppliesIn reports whether the observation applies in a state of the table.
func (o Observation) AppliesIn(table Table[*Subject], s State) bool {
	place, ok := table.States[s]
	return ok && !place.Transient() && !place.Final() && (len(o.In) == 0 || slices.Contains(o.In, s))
}

// StatusKeys are the keys of an object's status that belong to the driver.
// They are not part of a run's input.
var StatusKeys = []string{"machine", "state", "run", "conditions", "fault"}

// Subject is a standalone object as predicates, parameters and observations see it.
type Subject struct {
	Object control.Object
	// Old is the object's spec and generation when the last event won:
	// {"metadata": {"generation": 3}, "spec": {…}}. Later changes have not been acted on.
	// nil: no event has won yet.
	Old json.RawMessage
	Now time.Time

	decode sync.Once
	object map[string]any
	old    map[string]any
	err    error
}

// Values returns the object and the old one as expressions read them:
//
//	{"kind", "metadata": {"namespace", "name", "uid", "generation", "labels", "annotations", "createdAt",
//	 "deleting": false, "deletionMark" (if there is one)}, "spec": {…}, "status": {…}}
//
// Whole numbers are int64, times of metadata time.Time. The maps must not be changed.
func (s *Subject) Values() (object, old map[string]any, err error) {
	s.decode.Do(func() {
		o := s.Object
		metadata := map[string]any{
			"namespace": o.Namespace, "name": o.Name, "uid": o.UID, "generation": o.Generation,
			"labels": texts(o.Labels), "annotations": texts(o.Annotations), "createdAt": o.CreatedAt, "deleting": o.Deleting(),
		}
		if o.Deleting() {
			metadata["deletionMark"] = o.DeletionMark
		}
		s.object = map[string]any{"kind": o.Kind, "metadata": metadata}
		for name, raw := range map[string]json.RawMessage{"spec": o.Spec, "status": o.Status} {
			if s.object[name], s.err = decoded(name, raw); s.err != nil {
				return
			}
		}
		if s.Old == nil {
			s.old = s.object
			return
		}
		s.old, s.err = decoded("old", s.Old)
	})
	return s.object, s.old, s.err
}

// Input is the input of runs whose event names no parameters: {"object": …}
// without the keys of the status that belong to the driver.
func (s *Subject) Input() (any, error) {
	object, _, err := s.Values()
	if err != nil {
		return nil, err
	}
	status := map[string]any{}
	for key, value := range object["status"].(map[string]any) {
		if !slices.Contains(StatusKeys, key) {
			status[key] = value
		}
	}
	return map[string]any{"object": map[string]any{"kind": object["kind"], "metadata": object["metadata"], "spec": object["spec"], "status": status}}, nil
}

// Spec returns the decoded spec.
func (s *Subject) Spec() (any, error) {
	object, _, err := s.Values()
	if err != nil {
		return nil, err
	}
	return object["spec"], nil
}

// Remember returns the next Old, stored when an event wins.
func (s *Subject) Remember() json.RawMessage {
	spec := s.Object.Spec
	if spec == nil {
		spec = json.RawMessage("{}")
	}
	return json.RawMessage(fmt.Sprintf(`{"metadata":{"generation":%d},"spec":%s}`, s.Object.Generation, spec))
}

func decoded(name string, raw json.RawMessage) (map[string]any, error) {
	if len(raw) == 0 {
		return map[string]any{}, nil
	}
	value, err := runtype.Decode(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	object, ok := value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s is no JSON object", name)
	}
	return object, nil
}

func texts(m map[string]string) map[string]any {
	out := make(map[string]any, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}
