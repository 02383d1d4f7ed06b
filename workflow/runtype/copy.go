package runtype

import (
	"bytes"
	"maps"
	"slices"
)

// CopyRow copies the row of a run without its records and without the fields of the caller. The copy
// shares Input and Labels.
func (r *Run) CopyRow() Run {
	row := *r
	row.Handle, row.records, row.order, row.changed = nil, nil, nil, nil
	row.Fault = r.Fault.clone()
	row.State = r.State.clone()
	return row
}

// CopyTo copies a record with everything that it refers to, as a store does that keeps runs in
// memory.
func (s *StepRecord) CopyTo(to *StepRecord) {
	*to = *s
	to.dirty = false
	to.Output = bytes.Clone(s.Output)
	to.Fault = s.Fault.clone()
	to.Wait = clone(s.Wait)
	to.Progress = clone(s.Progress)
	to.Items = slices.Clone(s.Items)
	for i := range to.Items {
		to.Items[i].Value = bytes.Clone(to.Items[i].Value)
	}
}

func (f *Fault) clone() *Fault {
	copied := clone(f)
	if copied != nil {
		copied.Details = maps.Clone(f.Details)
	}
	return copied
}

func (s State) clone() State {
	s.Stop, s.Healing, s.Last = clone(s.Stop), slices.Clone(s.Healing), clone(s.Last)
	return s
}

func clone[T any](p *T) *T {
	if p == nil {
		return nil
	}
	copied := *p
	return &copied
}

// Renamed returns a copy of a record under another name. No store has it.
func (s *StepRecord) Renamed(name string) *StepRecord {
	copied := *s
	copied.Name, copied.Row, copied.dirty = name, 0, false
	return &copied
}
