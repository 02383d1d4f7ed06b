package workflow

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/fault"
)

// define stores the definition of a flow, once per hash.
func (e *Engine) define(ctx context.Context, p *plan) error {
	definitions, ok := e.store.(Definitions)
	known := func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.known[p.hash]
	}
	if !ok || known() {
		return nil
	}
	if err := e.defining.lock(ctx); err != nil { // concurrent first runs store it only once
		return err
	}
	defer e.defining.unlock()
	if known() {
		return nil
	}
	err := definitions.PutDefinition(ctx, Definition{Hash: p.hash, Flow: p.flow.Name, Version: p.flow.Version, Data: p.data, Source: p.flow.Source})
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.known[p.hash] = true
	return nil
}

// planOf returns the definition that a run is executed with: the loaded one if the content hash is
// the same, else the one that onChange selects.
func (e *Engine) planOf(ctx context.Context, r *Run) (*plan, *fault.Error) {
	loaded := e.loadedPlan(r.Flow, r.Subject)
	if loaded != nil && (loaded.hash == r.Hash || r.Hash == "") {
		return loaded, nil
	}
	if loaded == nil {
		return e.storedPlan(ctx, r, nil)
	}
	if r.Phase.Final() {
		return loaded, nil
	}
	change := loaded.flow.OnChange
	switch {
	case r.State.Chosen == "old":
		return e.storedPlan(ctx, r, loaded)
	case r.State.Chosen == "new", change == ChangeMigrate:
		err := migrate(r, loaded)
		if err == nil {
			if err := e.define(ctx, loaded); err != nil {
				return loaded, StoreUnavailable.Errorf("%w", err)
			}
			return loaded, nil
		}
		return loaded, FlowChanged.Errorf("the run has definition %.12s, loaded is %.12s: %w", r.Hash, loaded.hash, err).With("old", r.Hash).With("new", loaded.hash)
	case change == ChangePause:
		return loaded, FlowChanged.Errorf("the run has definition %.12s, loaded is %.12s", r.Hash, loaded.hash).With("old", r.Hash).With("new", loaded.hash)
	default:
		return e.storedPlan(ctx, r, loaded)
	}
}

// storedPlan compiles a stored definition.
func (e *Engine) storedPlan(ctx context.Context, r *Run, loaded *plan) (*plan, *fault.Error) {
	e.mu.Lock()
	p := e.stored[r.Hash]
	e.mu.Unlock()
	if p != nil && (len(p.flow.Source) > 0 || loaded != nil) {
		return p, nil
	}
	definitions, ok := e.store.(Definitions)
	if !ok {
		return nil, FlowMissing.Errorf("flow %s (definition %.12s) is not loaded, and the store keeps no definitions", r.Flow, r.Hash)
	}
	d, err := definitions.Definition(ctx, r.Hash)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return nil, StoreUnavailable.Errorf("%w", err)
	}
	if err != nil {
		return nil, FlowMissing.Errorf("flow %s: definition %.12s: %w", r.Flow, r.Hash, err)
	}
	var flow *Flow
	switch {
	case len(d.Source) > 0 && e.options.Compile != nil:
		compiled, err := e.options.Compile(d.Source)
		if err != nil {
			return nil, FlowMissing.Errorf("flow %s: its stored definition does not compile: %w", r.Flow, err)
		}
		flow = &compiled
	case loaded != nil:
		if flow, err = rebuild(d.Data, loaded.flow); err != nil {
			return nil, FlowMissing.Errorf("flow %s: %w", r.Flow, err)
		}
	default:
		return nil, FlowMissing.Errorf("flow %s is written in Go and not loaded", r.Flow)
	}
	if p, err = compile(flow, e.actions, true); err != nil {
		var f *fault.Error
		errors.As(err, &f)
		return nil, FlowMissing.Errorf("flow %s: its stored definition: %w", r.Flow, f)
	}
	p.hash = r.Hash
	e.mu.Lock()
	e.stored[r.Hash] = p
	e.mu.Unlock()
	return p, nil
}

// migrate moves the records of a run to the loaded definition, or returns why that is not possible.
// Every started step must exist there.
func migrate(r *Run, to *plan) error {
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
	moved := map[string]*StepRecord{} // by new name
	for rec := range r.Steps() {
		name := m.renamed(rec.Name)
		n := to.node(name)
		switch {
		case dropped[rec.Name] && (rec.Phase.Settled() || rec.Phase == StepUndone):
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
		copied := *rec
		copied.Name, copied.Row, copied.dirty = name, 0, false
		rec.Phase, rec.Note = StepSkipped, "renamed to "+name
		r.Put(rec)
		r.Put(&copied)
	}
	for _, path := range passed {
		rec := at.record(path)
		rec.Phase, rec.Note, rec.StartedAt, rec.EndedAt = StepSkipped, "inserted as done by a migration", r.CreatedAt, now()
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
func inserted(at *state, to *plan, m *Migration, moved map[string]*StepRecord, last position) (done []string, err error) {
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
