package serve

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/schedule"
)

// admitSchedules refuses schedules whose flow is not loaded, or refuses their input.
func (p *parts) admitSchedules(objects control.Objects) control.Objects {
	return control.Admit(objects, func(_ context.Context, want control.Object, stored func() (*control.Object, error)) error {
		if want.Kind != schedule.Kind || want.Spec == nil {
			return nil
		}
		before, err := stored()
		if err != nil || before != nil && sameFlow(before.Spec, want.Spec) {
			return err // what is there already may be changed, whatever is loaded now
		}
		timetable, err := schedule.Parse(want.Spec)
		if err != nil {
			return machine.SpecUnfit.Errorf("spec of %s: %w", want.Ref, err)
		}
		return p.engine.CheckInput(timetable.Flow, schedule.SubjectOf(want, timetable.Spec), timetable.Input)
	})
}

// sameFlow reports whether two specs start the same.
func sameFlow(a, b json.RawMessage) bool {
	var specs [2]struct {
		Flow, Subject string
		Input         json.RawMessage
	}
	for i, raw := range []json.RawMessage{a, b} {
		if json.Unmarshal(raw, &specs[i]) != nil {
			return false
		}
	}
	return specs[0].Flow == specs[1].Flow && specs[0].Subject == specs[1].Subject && slices.Equal(specs[0].Input, specs[1].Input)
}
