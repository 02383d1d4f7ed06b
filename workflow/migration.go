package workflow

import (
	"maps"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/workflow/runtype"
)

// migrate moves the records of a run to the loaded definition, or returns why that is not possible.
// Every started step must exist there.
func migrate(r *runtype.Run, to *plan) error {
	var m *Migration
	for i := range to.flow.Migrations {
		if to.flow.Migrations[i].From == r.Hash {
			m = &to.flow.Migrations[i]
		}
	}
	if m == nil {
		m = &Migration{}
	}
	dropped := map[string]bool{}
	for _, name := range m.Drop {
		dropped[name] = true
	}
	at := newState(r, to, nil)
	var last position
	moved := map[string]*runtype.StepRecord{} // by new name
	for rec := range r.Steps() {
		name := m.renamed(rec.Name)
		n := to.node(name)
		switch {
		case dropped[rec.Name] && (rec.Phase.Settled() || rec.Phase == runtype.StepUndone):
			continue
		case dropped[rec.Name]:
			return FlowChanged.Errorf("step %s is dropped but not done", rec.Name)
		case n == nil:
			return FlowChanged.Errorf("step %s has no place in the new definition: add a rename or drop", rec.Name)
		case name != rec.Name && to.node(rec.Name) != nil:
			return FlowChanged.Errorf("step %s is renamed to %s, but the new definition has a step of the old name too", rec.Name, name)
		}
		moved[name] = rec
		if p := at.position(name); rec.Phase.Settled() && p != nil && (last == nil || p.atOrAfter(last)) {
			last = p
		}
	}
	passed, err := inserted(at, to, m, moved, last)
	if err != nil {
		return err
	}
	for name, rec := range moved {
		if name == rec.Name {
			continue
		}
		copied := rec.Renamed(name)
		rec.Phase, rec.Note = runtype.StepSkipped, "renamed to "+name
		r.Put(rec)
		r.Put(copied)
	}
	for _, path := range passed {
		rec := at.record(path)
		rec.Phase, rec.Note, rec.StartedAt, rec.EndedAt = runtype.StepSkipped, "inserted as done by a migration", r.CreatedAt, now()
		r.Put(rec)
	}
	return nil
}

func (m *Migration) renamed(name string) string {
	for old, to := range m.Rename {
		if name == old || strings.HasPrefix(name, old+"/") || strings.HasPrefix(name, old+"[") {
			return to + name[len(old):]
		}
	}
	return name
}

// inserted returns the new steps before the position that count as done. The migration must list
// each new step.
func inserted(at *state, to *plan, m *Migration, moved map[string]*runtype.StepRecord, last position) (done []string, err error) {
	for _, path := range slices.Sorted(maps.Keys(to.nodes)) {
		n := to.nodes[path]
		if n.loop || moved[path] != nil || last == nil || n.kind > childNode || n.finally || at.position(path).atOrAfter(last) {
			continue
		}
		switch m.Insert[path] {
		case "done":
			done = append(done, path)
		case "run":
		default:
			return nil, FlowChanged.Errorf("step %s is new and lies before the position: the migration must insert it as done or run", path)
		}
	}
	return done, nil
}
