package workflow

import (
	"encoding/json"
	"fmt"
	"regexp"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/pawl-dev/pawl/fault"
)

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// visitSequence visits a sequence, beginning with its first unsettled step.
func (s *state) visitSequence(children []*node, inst string) visitResult {
	i := s.cursor[inst]
	from := i
	v := settled
	scope := inst
	if len(scope) > 0 && scope[0] == 0 {
		scope = ""
	}
	for ; i < len(children); i++ {
		if v = s.visit(children[i], children[i].instance(scope)); v != settled {
			break
		}
	}
	if i != from {
		if s.cursor == nil {
			s.cursor = map[string]int{}
		}
		s.cursor[inst] = i
	}
	return v
}

// instance returns the instance name within a scope. Outside of loops it is the path.
func (n *node) instance(scope string) string {
	if !n.loop {
		return n.path
	}
	return join(scope, n.step.Name)
}

func (s *state) visit(n *node, inst string) visitResult {
	rec := s.run.Step(inst)
	if rec != nil && !n.virtual || rec != nil && n.kind <= childNode {
		if rec.Phase.Settled() {
			return settled
		}
		if rec.Phase == StepFailed {
			return failed
		}
	}
	if fresh := rec == nil || rec.Phase == StepPending; fresh && n.step.When != nil {
		if s.halt {
			return busy
		}
		if rec = s.evaluateWhen(n, inst, rec); rec != nil && rec.Phase != StepEntered {
			if rec.Phase == StepFailed {
				return failed
			}
			return settled
		}
	}
	v := settled
	switch n.kind {
	case leafNode, childNode:
		return s.visitLeaf(n, inst, rec)
	case groupNode:
		v = s.visitSequence(n.children, inst)
	case parallelNode:
		v = s.visitParallel(inst, len(n.children), n.step.Parallel, func(i int) (*node, string) { return n.children[i], n.children[i].instance(inst) })
	case loopNode:
		if v = s.visitLoop(n, inst); v == settled {
			rec = s.run.Step(inst)
		}
	case bracketNode:
		if v = s.visit(n.open, n.open.instance(inst)); v == settled {
			if v = s.visit(n.body, inst); v == settled {
				v = s.visit(n.close, n.close.instance(inst))
			}
		}
	}
	if v == settled && !n.virtual && rec != nil && rec.Phase == StepEntered {
		rec.Phase, rec.EndedAt = StepDone, s.now
		s.put(rec)
	}
	return v
}

// evaluateWhen evaluates `when`. If it is false, the step is recorded as skipped. If it is true, a
// leaf goes on without a record; a structure gets one, so that the answer stays the same.
func (s *state) evaluateWhen(n *node, inst string, rec *StepRecord) *StepRecord {
	ok, err := s.predicate(n, inst)
	if rec == nil {
		rec = s.record(inst)
	}
	switch {
	case err != nil:
		s.fail(rec, s.expression("when", err))
	case !ok:
		rec.Phase, rec.Note, rec.EndedAt = StepSkipped, "only if "+n.step.WhenText, s.now
		s.put(rec)
		s.event(StepSkippedEvent, rec, Event{Actor: "engine", Reason: "When", Message: rec.Note})
	case n.kind <= childNode:
		if rec.Phase == StepPending {
			return &StepRecord{Phase: StepEntered} // the stored record stays Pending until the step is opened
		}
		s.run.State.Ord-- // the new record is not used
		return &StepRecord{Phase: StepEntered}
	default:
		rec.Phase = StepEntered
		s.put(rec)
	}
	return rec
}

func (s *state) expression(what string, err error) *Fault {
	f := s.faultOf(err)
	if f.Code == fault.Unknown.Code {
		f.Code = ExpressionFailed.Code
	}
	f.Message = what + ": " + f.Message
	return f
}

// scopeOf returns the innermost scope in which the expressions of an instance look up names.
func scopeOf(inst string) string {
	if inst != "" && inst[len(inst)-1] == ']' {
		return inst
	}
	return parent(inst)
}

// record creates the record of an instance that the run reaches for the first time.
func (s *state) record(inst string) *StepRecord {
	s.run.State.Ord++
	return &StepRecord{Name: inst, Ord: s.run.State.Ord, StartedAt: s.now}
}

// visitParallel visits branches or iterations that run side by side. At most `most` of them are
// unsettled at the same time.
func (s *state) visitParallel(inst string, count, most int, child func(int) (*node, string)) visitResult {
	live, ok := s.unsettled[inst]
	if !ok {
		live = make([]int, count)
		for i := range live {
			live[i] = i
		}
	}
	if most <= 0 {
		most = 1
	}
	v, at, active := settled, 0, 0
	for at < len(live) && active < most {
		n, name := child(live[at])
		switch s.visit(n, name) {
		case settled:
			live = append(live[:at], live[at+1:]...)
			continue
		case failed:
			v = failed
		case busy:
			if v != failed {
				v = busy
			}
		}
		active++
		at++
	}
	if s.unsettled == nil {
		s.unsettled = map[string][]int{}
	}
	s.unsettled[inst] = live
	return v
}

var keyPattern = regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,63}$`)

// visitLoop visits a loop. It evaluates the list when the run reaches the loop, and stores it.
func (s *state) visitLoop(n *node, inst string) visitResult {
	rec := s.run.Step(inst)
	if rec == nil || rec.Phase == StepPending || rec.Items == nil && rec.Phase == StepEntered {
		if s.halt {
			return busy
		}
		if rec == nil {
			rec = s.record(inst)
		}
		items, err := s.items(n, inst)
		if err != nil {
			s.fail(rec, s.expression("forEach", err))
			return failed
		}
		rec.Phase, rec.Items, rec.StartedAt, rec.EndedAt = StepEntered, items, s.now, time.Time{}
		s.put(rec)
		delete(s.unsettled, inst)
		delete(s.itemIndex, inst)
	}
	s.indexItems(inst, rec.Items)
	v := s.visitParallel(inst, len(rec.Items), n.step.ForEach.Max, func(i int) (*node, string) {
		return n.body, inst + "[" + rec.Items[i].Key + "]"
	})
	return v
}

// indexItems indexes the items of a loop by key, because each step of the loop looks up its item.
func (s *state) indexItems(inst string, items []LoopItem) {
	if s.itemIndex[inst] != nil {
		return
	}
	positions := make(map[string]int, len(items))
	for i, item := range items {
		positions[item.Key] = i
	}
	if s.itemIndex == nil {
		s.itemIndex = map[string]map[string]int{}
	}
	s.itemIndex[inst] = positions
}

func (s *state) items(n *node, inst string) (items []LoopItem, err error) {
	defer recovered(&err)
	loop := n.step.ForEach
	values, err := loop.List(s.view(scopeOf(inst)))
	if err != nil {
		return nil, err
	}
	if len(values) > maxSteps {
		return nil, fmt.Errorf("the list has %d items, the limit is %d", len(values), maxSteps)
	}
	known := map[string]bool{}
	items = make([]LoopItem, 0, len(values))
	for i, value := range values {
		item := LoopItem{Key: strconv.Itoa(i), Value: value}
		if loop.Key != nil {
			v := s.view(scopeOf(inst))
			v.source = itemSource{v.source, loop.as(), value}
			if item.Key, err = loop.Key(v); err != nil {
				return nil, err
			}
		}
		if !keyPattern.MatchString(item.Key) {
			return nil, fmt.Errorf("the key %q of item %d does not match %s", item.Key, i, keyPattern)
		}
		if known[item.Key] {
			return nil, fmt.Errorf("two items have the key %q", item.Key)
		}
		known[item.Key] = true
		items = append(items, item)
	}
	return items, nil
}

func (l *Loop) as() string {
	if l.As == "" {
		return "item"
	}
	return l.As
}

func (s *state) predicate(n *node, inst string) (ok bool, err error) {
	defer recovered(&err)
	return n.step.When(s.view(scopeOf(inst)))
}

// recovered turns a panic into PANIC with the stack.
func recovered(err *error) {
	if r := recover(); r != nil {
		*err = fault.Panic.Errorf("%v", r).With("stack", stack())
	}
}

func stack() string {
	text := debug.Stack()
	return string(text[:min(len(text), 16<<10)])
}

// visitLeaf visits a step that does something itself.
func (s *state) visitLeaf(n *node, inst string, rec *StepRecord) visitResult {
	if rec != nil && rec.Name == "" {
		rec = s.run.Step(inst)
	}
	if rec == nil || rec.Phase == StepPending {
		if s.halt {
			return busy
		}
		return s.openLeaf(n, inst, rec)
	}
	switch rec.Phase {
	case StepRunning:
		s.running++
		return busy
	case StepRetrying:
		if !s.halt && !s.now.Before(rec.NextAt) {
			return s.openLeaf(n, inst, rec)
		}
		s.retrying++
		if !s.halt {
			s.wakeAt(rec.NextAt)
		}
		return busy
	case StepWaiting:
		return s.waits(n, inst, rec)
	case StepFailed:
		return failed
	}
	return settled
}

// openLeaf opens an attempt or begins a wait.
func (s *state) openLeaf(n *node, inst string, rec *StepRecord) visitResult {
	if n.missing != "" && n.do == nil {
		if rec == nil {
			rec = s.record(inst)
		}
		s.fail(rec, &Fault{Code: ActionMissing.Code, Message: fmt.Sprintf("the step uses %q", n.missing), At: s.now})
		return failed
	}
	isolated := rec != nil && rec.Lost > 0 && !n.closes // the close of a bracket needs no turn
	waitStep := n.step.Wait != nil && n.step.Do == nil && n.step.Uses == "" && n.kind == leafNode && (rec == nil || !rec.Undoing)
	if !waitStep && s.acquireSlot != nil && !s.acquireSlot(n, isolated) {
		s.starved = true
		return busy
	}
	if s.run.StartedAt.IsZero() {
		s.run.StartedAt = s.now
		s.event(RunStarted, nil, Event{})
	}
	if rec == nil {
		rec = s.record(inst)
	}
	if rec.Phase == StepPending {
		rec.StartedAt, rec.EndedAt, rec.Output, rec.Wait, rec.Progress = s.now, time.Time{}, nil, nil, nil
		rec.Attempt = 0
	}
	rec.Attempt++
	rec.Phase, rec.AttemptAt, rec.NextAt, rec.Isolated = StepRunning, s.now, time.Time{}, isolated
	s.put(rec)
	s.event(StepStarted, rec, Event{})
	if waitStep {
		return s.beginWait(n, inst, rec)
	}
	s.running++
	s.opens = append(s.opens, opening{node: n, rec: rec})
	return busy
}

// view returns the run as the expressions of a step within scope read it.
func (s *state) view(scope string) View { return View{source: stateSource{s}, scope: scope} }

// stateSource answers a View from the state. It takes no lock: the caller must hold the state.
type stateSource struct{ s *state }

func (w stateSource) info() RunInfo { return infoOf(w.s.run) }

func infoOf(r *Run) RunInfo {
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

// loopOutputs returns the outputs of the iterations of a loop, in the order of the items: the
// output of the only step of the body, or an object with the outputs of its steps. It contains null
// for an iteration without output.
func (s *state) loopOutputs(loop *StepRecord) json.RawMessage {
	n := s.plan.node(loop.Name)
	if n == nil || n.kind != loopNode {
		return nil
	}
	list := make([]json.RawMessage, len(loop.Items))
	for i, item := range loop.Items {
		list[i] = s.outputOf(n.body, loop.Name+"["+item.Key+"]")
	}
	data, _ := json.Marshal(list) // cannot fail: the values were encoded before
	return data
}

func (s *state) outputOf(n *node, inst string) json.RawMessage {
	rec := s.run.Step(inst)
	if n.kind <= childNode {
		if rec == nil {
			return nil
		}
		return rec.Output
	}
	if n.kind == loopNode && rec != nil {
		return s.loopOutputs(rec)
	}
	outputs := map[string]json.RawMessage{}
	for _, child := range n.children {
		if output := s.outputOf(child, child.instance(inst)); output != nil {
			outputs[child.step.Name] = output
		}
	}
	if len(outputs) == 0 {
		return nil
	}
	data, _ := json.Marshal(outputs)
	return data
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
