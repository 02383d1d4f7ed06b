package workflow

import (
	"encoding/json"
	"fmt"
	"regexp"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// reader reads a run by its plan. It changes nothing.
type reader struct {
	run       *runtype.Run
	plan      *plan
	object    func() (json.RawMessage, error)
	itemIndex map[string]map[string]int // for each loop: index of an item by its key
}

// scopeOf returns the innermost scope in which the expressions of an instance look up names.
func scopeOf(inst string) string {
	if inst != "" && inst[len(inst)-1] == ']' {
		return inst
	}
	return parent(inst)
}

var keyPattern = regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,63}$`)

func (s *reader) items(n *node, inst string) (items []runtype.LoopItem, err error) {
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
	items = make([]runtype.LoopItem, 0, len(values))
	for i, value := range values {
		item := runtype.LoopItem{Key: strconv.Itoa(i), Value: value}
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

func (s *reader) predicate(n *node, inst string) (ok bool, err error) {
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

// view returns the run as the expressions of a step within scope read it.
func (s *reader) view(scope string) View { return View{source: stateSource{s}, scope: scope} }

// loopOutputs returns the outputs of the iterations of a loop, in the order of the items: the
// output of the only step of the body, or an object with the outputs of its steps. It contains null
// for an iteration without output.
func (s *reader) loopOutputs(loop *runtype.StepRecord) json.RawMessage {
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

func (s *reader) outputOf(n *node, inst string) json.RawMessage {
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

func (s *reader) until(n *node, inst string) (at time.Time, err error) {
	defer recovered(&err)
	return n.step.Wait.Until(s.view(scopeOf(inst)))
}

func (s *reader) condition(n *node, inst string) (ok bool, err error) {
	defer recovered(&err)
	return n.step.Wait.Condition(s.view(scopeOf(inst)))
}

func (s *reader) opening(open string) bool {
	rec := s.run.Step(open)
	return rec != nil && !rec.Phase.Settled() && rec.Phase != runtype.StepFailed
}

// toUndo reports whether a part of the flow contains a step that must be undone.
func (s *reader) toUndo(n *node, inst string) bool {
	switch n.kind {
	case loopNode:
		if rec := s.run.Step(inst); rec != nil {
			for _, item := range rec.Items {
				if s.toUndo(n.body, inst+"["+item.Key+"]") {
					return true
				}
			}
		}
		return false
	case leafNode, childNode:
		return s.undoable(n, s.run.Step(inst))
	case bracketNode:
		return s.toUndo(n.body, inst)
	}
	for _, child := range n.children {
		if s.toUndo(child, child.instance(inst)) {
			return true
		}
	}
	return false
}

// undoable reports whether a step was started and can be undone.
func (s *reader) undoable(n *node, rec *runtype.StepRecord) bool {
	if rec == nil || rec.Phase == runtype.StepUndone || rec.Phase == runtype.StepSkipped || n.undo == nil && n.kind != childNode {
		return false
	}
	if rec.Attempt == 0 && rec.Round == 0 && !rec.Undoing && isLimitWait(n, rec) {
		return false // it was never opened
	}
	return rec.Phase != runtype.StepPending || rec.Round > 0
}

// isOpen reports whether the open of a bracket has started and its close is not done.
func (s *reader) isOpen(n *node, inst string) bool {
	open, closing := s.run.Step(n.open.instance(inst)), s.run.Step(n.close.instance(inst))
	if open == nil || open.Phase == runtype.StepPending || open.Phase == runtype.StepSkipped {
		return false
	}
	return closing == nil || !closing.Phase.Settled()
}

// closed lists the brackets whose close has started, by the records of their open.
func (s *reader) closed() (opens []*runtype.StepRecord) {
	for rec := range s.run.Steps() {
		n := s.plan.node(rec.Name)
		if n == nil || !n.opens || rec.Phase == runtype.StepPending {
			continue
		}
		if closing := s.run.Step(n.parent.close.instance(parent(rec.Name))); closing != nil && closing.Phase != runtype.StepPending {
			opens = append(opens, rec)
		}
	}
	return opens
}

// finished reports whether every step of a part of the flow is settled. It opens none.
func (s *reader) finished(n *node, inst string) bool {
	rec := s.run.Step(inst)
	if rec != nil && !n.virtual && rec.Phase.Settled() {
		return true
	}
	switch n.kind {
	case leafNode, childNode:
		return rec != nil && rec.Phase.Settled()
	case loopNode:
		if rec == nil || rec.Items == nil && !rec.Phase.Settled() {
			return false
		}
		for _, item := range rec.Items {
			if !s.finished(n.body, inst+"["+item.Key+"]") {
				return false
			}
		}
		return true
	case bracketNode:
		return s.finished(n.close, n.close.instance(inst))
	}
	for _, child := range n.children {
		if !s.finished(child, child.instance(inst)) {
			return false
		}
	}
	return true
}

func (s *reader) childID(rec *runtype.StepRecord) string {
	subject := s.run.Subject
	if n := s.plan.node(rec.Name); n != nil && n.step.FlowSubject != nil {
		if other, err := n.step.FlowSubject(s.view(scopeOf(rec.Name))); err == nil && other != "" {
			subject = other
		}
	}
	return childID(s.run.ID, subject, s.plan.node(rec.Name).step.Flow, rec.Name, rec.Round)
}

func childID(run, subject, flow, step string, round int) string {
	return RunID(subject, flow, run+"/"+step+"/"+strconv.Itoa(round))
}

// ofFinally reports whether a record belongs to a finally step.
func (s *reader) ofFinally(rec *runtype.StepRecord) bool {
	n := s.plan.node(rec.Name)
	return n != nil && n.finally
}

// notUndone lists the steps that were not undone because a person gave the undo up.
func (s *reader) notUndone() []string {
	var names []string
	for rec := range s.run.Steps() {
		if n := s.plan.node(rec.Name); n != nil && n.undo != nil && rec.Phase != runtype.StepUndone && rec.Phase != runtype.StepSkipped {
			names = append(names, rec.Name)
		}
	}
	return names
}
