package workflow

import (
	"reflect"
	"time"

	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Jump sets the clock of a process forward, or back by a negative time. It moves every stored point
// in time, in the store and in drivers, into the past by this time. Timers, contexts and leases of
// Memory use the monotonic clock, which cannot be set. The bubble must be idle.
func Jump(e *Engine, m *runstore.Memory, by time.Duration) {
	m.Edit(func(row *runtype.Run, records []*runtype.StepRecord) {
		shift(reflect.ValueOf(row), by)
		shift(reflect.ValueOf(records), by)
	})
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, d := range e.drivers {
		d.mu.Lock()
		shift(reflect.ValueOf(d.s.run), by)
		for rec := range d.s.run.Steps() {
			shift(reflect.ValueOf(rec), by)
		}
		if !d.s.soonest.IsZero() {
			d.s.soonest = d.s.soonest.Add(-by)
		}
		d.mu.Unlock()
	}
}

// shift moves every time that is reachable from v by exported fields.
func shift(v reflect.Value, by time.Duration) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			shift(v.Elem(), by)
		}
	case reflect.Slice:
		for i := range v.Len() {
			shift(v.Index(i), by)
		}
	case reflect.Struct:
		if at, ok := v.Interface().(time.Time); ok {
			if !at.IsZero() {
				v.Set(reflect.ValueOf(at.Add(-by)))
			}
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				shift(v.Field(i), by)
			}
		}
	}
}
