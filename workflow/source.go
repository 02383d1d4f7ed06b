package workflow

import (
	"bytes"
	"encoding/json"

	"github.com/pawl-dev/pawl/workflow/runtype"
)

// stateSource answers a View from the state. It takes no lock: the caller must hold the state.
type stateSource struct{ s *reader }

func (w stateSource) info() RunInfo { return infoOf(w.s.run) }

func infoOf(r *runtype.Run) RunInfo {
	return RunInfo{ID: r.ID, Flow: r.Flow, Subject: r.Subject, Reason: r.Reason, Version: r.Version, Labels: r.Labels}
}

func (w stateSource) input() json.RawMessage { return w.s.run.Input }

func (w stateSource) lookup(inst string) (StepView, bool) {
	rec := w.s.run.Step(inst)
	if rec == nil {
		return StepView{}, false
	}
	if rec.Items != nil && rec.Output == nil {
		return StepView{Phase: rec.Phase, Output: w.s.loopOutputs(rec)}, true
	}
	return StepView{Phase: rec.Phase, Output: rec.Output}, true
}

func (w stateSource) item(scope, as string) (json.RawMessage, bool) {
	for ; scope != ""; scope = parent(scope) {
		if scope[len(scope)-1] != ']' {
			continue
		}
		loopName := parent(scope)
		n := w.s.plan.node(loopName)
		rec := w.s.run.Step(loopName)
		if n == nil || rec == nil || n.kind != loopNode || n.step.ForEach.as() != as {
			continue
		}
		key := scope[len(loopName)+1 : len(scope)-1]
		if at, ok := w.s.itemIndex[loopName][key]; ok && at < len(rec.Items) && rec.Items[at].Key == key {
			return rec.Items[at].Value, true
		}
		for _, item := range rec.Items {
			if item.Key == key {
				return item.Value, true
			}
		}
	}
	return nil, false
}

func (w stateSource) params(scope string) (json.RawMessage, error) {
	for ; scope != ""; scope = parent(scope) {
		n := w.s.plan.node(scope)
		if n == nil || n.step.Params == nil || n.kind == loopNode {
			continue
		}
		if scope[len(scope)-1] != ']' {
			return n.step.Params(w.s.view(parent(scope)))
		}
		outer := View{source: outerParams{w, parent(parent(scope))}, scope: scope}
		return n.step.Params(outer)
	}
	return json.RawMessage("{}"), nil
}

// outerParams lets the parameters of a looped group read the item of the loop and, as `params`, the
// parameters of the enclosing group.
type outerParams struct {
	stateSource
	scope string
}

func (w outerParams) params(string) (json.RawMessage, error) { return w.stateSource.params(w.scope) }

func (w stateSource) object() (json.RawMessage, error) {
	if w.s.object == nil {
		return json.RawMessage("null"), nil
	}
	return w.s.object()
}

// itemSource adds one item to a source: the item whose key is computed.
type itemSource struct {
	viewSource
	as    string
	value json.RawMessage
}

func (w itemSource) item(scope, as string) (json.RawMessage, bool) {
	if as == w.as {
		return w.value, true
	}
	return w.viewSource.item(scope, as)
}

// driverSource answers a View for attempts, which run concurrently with the driver.
type driverSource struct{ d *driver }

func (w driverSource) info() RunInfo { return infoOf(w.d.s.run) }

func (w driverSource) input() json.RawMessage { return bytes.Clone(w.d.s.run.Input) }

func (w driverSource) lookup(inst string) (StepView, bool) {
	w.d.mu.RLock()
	defer w.d.mu.RUnlock()
	v, ok := stateSource{&w.d.s.reader}.lookup(inst)
	v.Output = bytes.Clone(v.Output)
	return v, ok
}

func (w driverSource) item(scope, as string) (json.RawMessage, bool) {
	w.d.mu.RLock()
	defer w.d.mu.RUnlock()
	return stateSource{&w.d.s.reader}.item(scope, as)
}

func (w driverSource) params(scope string) (json.RawMessage, error) {
	w.d.mu.RLock()
	defer w.d.mu.RUnlock()
	return stateSource{&w.d.s.reader}.params(scope)
}

func (w driverSource) object() (json.RawMessage, error) {
	if w.d.s.object == nil {
		return json.RawMessage("null"), nil
	}
	return w.d.s.object()
}

func (w driverSource) outputs() []namedOutput {
	w.d.mu.RLock()
	defer w.d.mu.RUnlock()
	var all []namedOutput
	for rec := range w.d.s.run.Steps() {
		if rec.Output != nil {
			all = append(all, namedOutput{rec.Name, bytes.Clone(rec.Output)})
		}
	}
	return all
}

type namedOutput struct {
	name   string
	output json.RawMessage
}
