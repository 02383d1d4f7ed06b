package driver

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// objects keeps positions in the status of standalone objects. It is the
// machine.Objects of one kind.
type objects struct {
	store   control.Objects
	machine machine.Standalone
	now     func() time.Time
	moved   func(control.Ref, machine.Move)
}

// Load implements machine.Objects.
func (k *objects) Load(ctx context.Context, ref control.Ref) (s machine.Snapshot[*machine.Subject], err error) {
	o, err := k.store.Get(ctx, ref)
	if err != nil {
		return s, err
	}
	return machine.Snapshot[*machine.Subject]{Object: k.subject(o)}, nil
}

func (k *objects) subject(o control.Object) *machine.Subject {
	rec, _ := recordOf(o) // Position reports what cannot be read
	return &machine.Subject{Object: o, Old: rec.Old, Now: k.now().UTC()}
}

func recordOf(o control.Object) (record, error) {
	var status struct {
		Machine record `json:"machine"`
	}
	if o.Status == nil {
		return record{}, nil
	}
	err := json.Unmarshal(o.Status, &status)
	return status.Machine, err
}

// Position implements machine.Objects.
func (k *objects) Position(s *machine.Subject) (machine.Position, error) {
	rec, err := recordOf(s.Object)
	return rec.Position, err
}

// Subject implements machine.Objects.
func (k *objects) Subject(s *machine.Subject) string { return Subject(s.Object) }

// Write implements machine.Objects. Position and all of the status go in one write.
func (k *objects) Write(ctx context.Context, s *machine.Subject, move machine.Move) error {
	rec := record{Position: move.To, Old: s.Old}
	if k.machine.Old && move.Cause == machine.ByEvent {
		rec.Old = s.Remember()
	}
	v := view{position: move.To, moved: move.Cause.Changes()}
	if move.To.Held {
		v.run = &machine.RunFacts{ID: move.To.Run, Phase: runtype.Paused}
	}
	if err := k.save(ctx, s.Object, rec, v); err != nil {
		return err
	}
	if k.moved != nil && move.Cause.Changes() {
		k.moved(s.Object.Ref, move)
	}
	return nil
}

// save writes what the view says into exactly this version of the object,
// unless that is what it says already. It keeps and removes the finalizer.
func (k *objects) save(ctx context.Context, o control.Object, rec record, v view) error {
	v.table, v.deleting, v.gen, v.now = k.machine.Table, o.Deleting(), o.Generation, k.now().UTC()
	status, err := compose(o.Status, rec, v)
	if err != nil {
		return err
	}
	next := o.Copy()
	next.Status = status
	next.Finalizers = k.finalizers(o, rec.Position)
	if same(o.Status, status) && slices.Equal(o.Finalizers, next.Finalizers) {
		return nil
	}
	_, err = k.store.Update(ctx, next)
	return err
}

func (k *objects) finalizers(o control.Object, p machine.Position) []string {
	held := slices.Contains(o.Finalizers, Finalizer)
	place, known := k.machine.Table.States[p.State]
	switch {
	case !o.Deleting() && !held && k.ends():
		return append(slices.Clone(o.Finalizers), Finalizer)
	case o.Deleting() && held && (!k.ends() || known && place.Final() && p.Ending == nil):
		return slices.DeleteFunc(slices.Clone(o.Finalizers), func(f string) bool { return f == Finalizer })
	}
	return o.Finalizers
}

// ends reports a table with a final state: only that can let an object go.
func (k *objects) ends() bool {
	for place := range maps.Values(k.machine.Table.States) {
		if place.Final() {
			return true
		}
	}
	return false
}

// same compares JSON values.
func same(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	x, errX := runtype.Decode(a)
	y, errY := runtype.Decode(b)
	if errX != nil || errY != nil {
		return false
	}
	left, _ := json.Marshal(x)
	right, _ := json.Marshal(y)
	return bytes.Equal(left, right)
}

// facts are the part of a status that is not the driver's own, but for what
// was observed: a change of it may let an event hold.
func facts(o control.Object) string {
	all := map[string]json.RawMessage{}
	if json.Unmarshal(o.Status, &all) != nil {
		return string(o.Status)
	}
	for _, key := range machine.StatusKeys {
		delete(all, key)
	}
	raw, _ := json.Marshal(all)
	return string(raw)
}

// news holds if somebody asked something new of an object, its labels or
// annotations changed, or a fact of its status did.
func news(e control.Event[control.Object]) bool {
	return control.DesiredChanged(e) || !maps.Equal(e.Old.Labels, e.New.Labels) || !maps.Equal(e.Old.Annotations, e.New.Annotations) ||
		facts(e.Old) != facts(e.New)
}

// Object is what workflow.Options.Object takes: conditions of waits read the
// subject as {kind, metadata, spec, status}. A subject that is no object, or
// is gone, is null.
func Object(store control.Objects) func(context.Context, string) (json.RawMessage, error) {
	return func(ctx context.Context, subject string) (json.RawMessage, error) {
		ref, uid, err := Ref(subject)
		if err != nil {
			return json.RawMessage("null"), nil //nolint:nilerr // the subject of a run need not be an object
		}
		o, err := store.Get(ctx, ref)
		if isGone(err) || err == nil && uid != "" && uid != o.UID {
			return json.RawMessage("null"), nil
		}
		if err != nil {
			return nil, err
		}
		values, _, err := (&machine.Subject{Object: o}).Values()
		if err != nil {
			return nil, err
		}
		return json.Marshal(values)
	}
}
