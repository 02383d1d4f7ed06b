package sim

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb/port"
)

// keepUnknown remembers what patches have given, and reports whether fields changed that the types do not have: the
// schema keeps unknown fields of a spec.
func (s *schemas) keepUnknown(o port.Object, patch []byte) (changed bool, err error) {
	var change map[string]any
	if err := json.Unmarshal(patch, &change); err != nil || !custom(kindOf(o)) || change["spec"] == nil {
		return false, err
	}
	before, err := s.unknown(o)
	if err != nil {
		return false, err
	}
	old, err := json.Marshal(s.specs[o.GetUID()])
	if err != nil {
		return false, err
	}
	if s.specs[o.GetUID()] == nil {
		s.specs[o.GetUID()] = map[string]any{}
	}
	s.specs[o.GetUID()] = merge(s.specs[o.GetUID()], change["spec"])
	after, err := s.unknown(o)
	if err != nil {
		return false, err
	}
	now, err := json.Marshal(s.specs[o.GetUID()])
	return len(before)+len(after) > 0 && !bytes.Equal(old, now), err
}

func (s *schemas) unknown(o port.Object) ([]string, error) {
	spec := s.specs[o.GetUID()]
	if spec == nil {
		return nil, nil
	}
	document, err := json.Marshal(map[string]any{"apiVersion": v1beta2.GroupVersion.String(), "kind": kindOf(o), "spec": spec})
	if err != nil {
		return nil, err
	}
	return port.UnknownIn(document)
}

// UnknownFields returns the fields of patches that the type does not have.
func (o *objects) UnknownFields(ctx context.Context, object port.Object) (paths []string, err error) {
	t, err := o.table(object)
	if err != nil {
		return nil, err
	}
	if !custom(kindOf(object)) {
		return nil, control.Invalid.Errorf("%s has no fields that only others know", kindOf(object))
	}
	err = o.call(ctx, "UnknownFields", kindOf(object), object.GetName(), func() error {
		stored := t.objects[nameOf(object)]
		if stored != nil {
			paths, err = o.w.unknown(stored)
		}
		return err
	})
	return paths, err
}
