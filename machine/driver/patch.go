package driver

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/machine"
)

// StatusReserved is the fault of a step that writes what belongs to the driver.
var StatusReserved = fault.Declare(fault.Kind{
	Code: "STATUS_RESERVED", Class: fault.Invalid,
	Title:  "the status key belongs to the machine's driver",
	Remedy: "Write the fact under another key of the status.",
})

// Status lets steps write facts into the status of their subject: it is the
// StatusWriter of the ready-made action status.
type Status struct{ Objects control.Objects }

// PatchStatus merges a JSON merge patch (RFC 7396) into the object's status.
// Merging it again changes nothing, so the step's key is not needed.
func (s Status) PatchStatus(ctx context.Context, subject string, patch json.RawMessage, _ string) error {
	ref, uid, err := Ref(subject)
	if err != nil {
		return err
	}
	var change map[string]any
	if err := json.Unmarshal(patch, &change); err != nil || change == nil {
		return control.Invalid.Errorf("status of %s: the patch is no JSON object", ref)
	}
	for key := range change {
		if slices.Contains(machine.StatusKeys, key) {
			return StatusReserved.Errorf("status.%s of %s", key, ref).With("key", key)
		}
	}
	_, err = control.Modify(ctx, s.Objects, ref, func(o *control.Object) error {
		if uid != "" && uid != o.UID {
			return control.NotFound.Errorf("%s of uid %s is gone", ref, uid)
		}
		return patchStatus(o, patch)
	})
	return err
}

func patchStatus(o *control.Object, patch json.RawMessage) error {
	status, err := decodeNumbers(o.Status)
	if err != nil {
		return control.Invalid.Errorf("%s: status: %w", o.Ref, err)
	}
	change, err := decodeNumbers(patch)
	if err != nil {
		return err
	}
	o.Status, err = json.Marshal(merge(status, change))
	return err
}

// merge is RFC 7396.
func merge(target, patch any) any {
	change, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	out, ok := target.(map[string]any)
	if !ok {
		out = map[string]any{}
	}
	for key, value := range change {
		if value == nil {
			delete(out, key)
		} else {
			out[key] = merge(out[key], value)
		}
	}
	return out
}

func isGone(err error) bool { return errors.Is(err, control.NotFound) }
