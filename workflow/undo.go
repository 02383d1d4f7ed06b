package workflow

import (
	"slices"
	"strconv"
	"time"
)

// undo visits a part of the flow backwards and undoes the steps, the newest first.
func (s *state) undo(n *node, inst string) visitResult {
	switch n.kind {
	case groupNode:
		return s.undoSequence(n, inst)
	case parallelNode:
		for _, child := range slices.Backward(n.children) {
			if v := s.undo(child, child.instance(inst)); v != settled {
				return v
			}
		}
	case loopNode:
		rec := s.run.Step(inst)
		if rec == nil {
			return settled
		}
		for _, item := range slices.Backward(rec.Items) {
			if v := s.undo(n.body, inst+"["+item.Key+"]"); v != settled {
				return v
			}
		}
	case bracketNode:
		return s.undoBracket(n, inst)
	default:
		return s.undoLeaf(n, inst)
	}
	return settled
}

func (s *state) undoSequence(n *node, inst string) visitResult {
	key := "\x00undo" + inst
	done := s.cursor[key] // number of children, from the end, that are undone
	v := settled
	for ; done < len(n.children); done++ {
		child := n.children[len(n.children)-1-done]
		if v = s.undo(child, child.instance(inst)); v != settled {
			break
		}
	}
	if s.cursor == nil {
		s.cursor = map[string]int{}
	}
	s.cursor[key] = done
	return v
}

// undoBracket undoes the body between open and close.
func (s *state) undoBracket(n *node, inst string) visitResult {
	open, closing := n.open.instance(inst), n.close.instance(inst)
	if s.run.Step(open) == nil {
		return settled
	}
	if s.toUndo(n.body, inst) {
		if !s.isOpen(n, inst) && !s.opening(open) {
			s.reopen(open)
			s.reopen(closing)
		}
		if v := s.visit(n.open, open); v != settled {
			return v
		}
		if v := s.undo(n.body, inst); v != settled {
			return v
		}
	}
	if s.isOpen(n, inst) {
		return s.visit(n.close, closing)
	}
	return settled
}

func (s *state) opening(open string) bool {
	rec := s.run.Step(open)
	return rec != nil && !rec.Phase.Settled() && rec.Phase != StepFailed
}

// reopen prepares a step for a new round, if it was executed in the current one.
func (s *state) reopen(inst string) {
	rec := s.run.Step(inst)
	if rec == nil || rec.Phase == StepPending {
		return
	}
	if n := s.plan.node(inst); n != nil && n.kind == childNode && rec.Attempt > 0 && !rec.Phase.Settled() && rec.Phase != StepUndone {
		s.send(s.childID(rec), VerbCancel, RunRequest{Actor: Actor{Name: "parent " + s.run.ID, Reason: "it returns to an earlier step and starts another child run"}, Mode: Drop})
	}
	s.drop(rec)
	rec.Phase, rec.Round, rec.Attempt, rec.Failures, rec.Lost, rec.Isolated = StepPending, rec.Round+1, 0, 0, 0, false
	rec.NextAt, rec.EndedAt, rec.Fault, rec.Wait, rec.Undoing = time.Time{}, time.Time{}, nil, nil, false
	rec.Uncharged, rec.UnchargedSince, rec.Note, rec.Actor, rec.Items = 0, time.Time{}, "", "", nil
	s.put(rec)
}

// drop removes a record from the failures.
func (s *state) drop(rec *StepRecord) {
	s.failures = slices.DeleteFunc(s.failures, func(f *StepRecord) bool { return f == rec })
}

// toUndo reports whether a part of the flow contains a step that must be undone.
func (s *state) toUndo(n *node, inst string) bool {
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
func (s *state) undoable(n *node, rec *StepRecord) bool {
	if rec == nil || rec.Phase == StepUndone || rec.Phase == StepSkipped || n.undo == nil && n.kind != childNode {
		return false
	}
	return rec.Phase != StepPending || rec.Round > 0
}

func (s *state) undoLeaf(n *node, inst string) visitResult {
	rec := s.run.Step(inst)
	if !s.undoable(n, rec) {
		return settled
	}
	if !rec.Undoing {
		s.drop(rec)
		rec.Undoing, rec.Attempt, rec.Failures, rec.Uncharged, rec.Lost, rec.Isolated = true, 0, 0, 0, 0, false
		rec.Phase, rec.NextAt, rec.Fault, rec.Wait, rec.EndedAt = StepRetrying, s.now, nil, nil, time.Time{}
		s.put(rec)
	}
	return s.visitLeaf(n, inst, rec)
}

// dropChildren cancels the child runs of a run that is dropped.
func (s *state) dropChildren() visitResult {
	for rec := range s.run.Steps() {
		n := s.plan.node(rec.Name)
		if n == nil || n.kind != childNode || rec.Phase.Settled() || rec.Phase == StepUndone || rec.Phase == StepPending {
			continue
		}
		if v := s.undoLeaf(n, rec.Name); v != settled {
			return v
		}
	}
	return settled
}

// isOpen reports whether the open of a bracket has started and its close is not done.
func (s *state) isOpen(n *node, inst string) bool {
	open, closing := s.run.Step(n.open.instance(inst)), s.run.Step(n.close.instance(inst))
	if open == nil || open.Phase == StepPending || open.Phase == StepSkipped {
		return false
	}
	return closing == nil || !closing.Phase.Settled()
}

// closeBrackets closes open brackets, the innermost first.
func (s *state) closeBrackets() visitResult {
	for _, rec := range slices.Backward(s.run.order) {
		n := s.plan.node(rec.Name)
		if n == nil || !n.opens {
			continue
		}
		inst := parent(rec.Name)
		if bracket := n.parent; s.isOpen(bracket, inst) {
			if v := s.visit(bracket.close, bracket.close.instance(inst)); v != settled {
				return v
			}
		}
	}
	return settled
}

// closed lists the brackets whose close has started, by the records of their open.
func (s *state) closed() (opens []*StepRecord) {
	for _, rec := range s.run.order {
		n := s.plan.node(rec.Name)
		if n == nil || !n.opens || rec.Phase == StepPending {
			continue
		}
		if closing := s.run.Step(n.parent.close.instance(parent(rec.Name))); closing != nil && closing.Phase != StepPending {
			opens = append(opens, rec)
		}
	}
	return opens
}

// reopenBrackets lets a resumed run execute open again before it continues in the body of a closed
// bracket.
func (s *state) reopenBrackets(closed []*StepRecord) {
	for _, rec := range closed {
		bracket, inst := s.plan.node(rec.Name).parent, parent(rec.Name)
		if s.finished(bracket.body, inst) {
			continue
		}
		s.reopen(rec.Name)
		s.reopen(bracket.close.instance(inst))
	}
}

// finished reports whether every step of a part of the flow is settled. It opens none.
func (s *state) finished(n *node, inst string) bool {
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

// position is the position of an instance in the order of its flow: for each enclosing structure,
// the index of the child or of the item. If parallel is set, the children of that structure run
// side by side, so none is after another.
type position []struct {
	at       int
	parallel bool
}

func (s *state) position(inst string) position {
	var p position
	for inst != "" {
		n := s.plan.node(inst)
		if n == nil {
			return nil
		}
		if inst[len(inst)-1] == ']' {
			loop := parent(inst)
			if rec := s.run.Step(loop); rec != nil {
				key := inst[len(loop)+1 : len(inst)-1]
				at := slices.IndexFunc(rec.Items, func(i LoopItem) bool { return i.Key == key })
				p = append(p, struct {
					at       int
					parallel bool
				}{at, s.plan.node(loop).step.ForEach.Max > 1})
			}
			inst = loop
			continue
		}
		at := n.index + 1
		switch {
		case n.opens:
			at = 0
		case n.closes:
			at = maxSteps + 1
		case n.finally && n.parent == s.plan.finally:
			at += 2 * maxSteps
		}
		p = append(p, struct {
			at       int
			parallel bool
		}{at, n.parent != nil && n.parent.kind == parallelNode})
		inst = parent(inst)
	}
	slices.Reverse(p)
	return p
}

// atOrAfter reports whether a is at or after b.
func (a position) atOrAfter(b position) bool {
	for i := range min(len(a), len(b)) {
		if a[i].at != b[i].at {
			return a[i].at > b[i].at && !b[i].parallel
		}
	}
	return len(a) >= len(b)
}

func (s *state) childID(rec *StepRecord) string {
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
