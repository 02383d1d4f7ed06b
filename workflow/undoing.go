package workflow

import (
	"slices"
	"time"

	"github.com/pawl-dev/pawl/workflow/runtype"
)

// undo visits a part of the flow backwards and undoes the steps, the newest first.
func (s undoing) undo(n *node, inst string) visitResult {
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

func (s undoing) undoSequence(n *node, inst string) visitResult {
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
func (s undoing) undoBracket(n *node, inst string) visitResult {
	open, closing := n.open.instance(inst), n.close.instance(inst)
	if s.run.Step(open) == nil {
		return settled
	}
	if s.toUndo(n.body, inst) {
		if !s.isOpen(n, inst) && !s.opening(open) {
			s.reopen(open)
			s.reopen(closing)
		}
		if v := s.walk().visit(n.open, open); v != settled {
			return v
		}
		if v := s.undo(n.body, inst); v != settled {
			return v
		}
	}
	if s.isOpen(n, inst) {
		return s.walk().visit(n.close, closing)
	}
	return settled
}

// reopen prepares a step for a new round, if it was executed in the current one.
func (s undoing) reopen(inst string) {
	rec := s.run.Step(inst)
	if rec == nil || rec.Phase == runtype.StepPending {
		return
	}
	if n := s.plan.node(inst); n != nil && n.kind == childNode && rec.Attempt > 0 && !rec.Phase.Settled() && rec.Phase != runtype.StepUndone {
		s.send(s.childID(rec), runtype.VerbCancel, RunRequest{Actor: Actor{Name: "parent " + s.run.ID, Reason: "it returns to an earlier step and starts another child run"}, Mode: runtype.Drop})
	}
	s.drop(rec)
	rec.Phase, rec.Round, rec.Attempt, rec.Failures, rec.Lost, rec.Isolated = runtype.StepPending, rec.Round+1, 0, 0, 0, false
	rec.NextAt, rec.EndedAt, rec.Fault, rec.Wait, rec.Undoing = time.Time{}, time.Time{}, nil, nil, false
	rec.Uncharged, rec.UnchargedSince, rec.Note, rec.Actor, rec.Items = 0, time.Time{}, "", "", nil
	s.put(rec)
}

// drop removes a record from the failures.
func (s *state) drop(rec *runtype.StepRecord) {
	s.failures = slices.DeleteFunc(s.failures, func(f *runtype.StepRecord) bool { return f == rec })
}

func (s undoing) undoLeaf(n *node, inst string) visitResult {
	rec := s.run.Step(inst)
	if !s.undoable(n, rec) {
		return settled
	}
	if !rec.Undoing {
		s.drop(rec)
		rec.Undoing, rec.Attempt, rec.Failures, rec.Uncharged, rec.Lost, rec.Isolated = true, 0, 0, 0, 0, false
		rec.Phase, rec.NextAt, rec.Fault, rec.Wait, rec.EndedAt = runtype.StepRetrying, s.now, nil, nil, time.Time{}
		s.put(rec)
	}
	return s.walk().visitLeaf(n, inst, rec)
}

// dropChildren cancels the child runs of a run that is dropped.
func (s undoing) dropChildren() visitResult {
	for rec := range s.run.Steps() {
		n := s.plan.node(rec.Name)
		if n == nil || n.kind != childNode || rec.Phase.Settled() || rec.Phase == runtype.StepUndone || rec.Phase == runtype.StepPending {
			continue
		}
		if v := s.undoLeaf(n, rec.Name); v != settled {
			return v
		}
	}
	return settled
}

// closeBrackets closes open brackets, the innermost first.
func (s undoing) closeBrackets() visitResult {
	for _, rec := range slices.Backward(slices.Collect(s.run.Steps())) {
		n := s.plan.node(rec.Name)
		if n == nil || !n.opens {
			continue
		}
		inst := parent(rec.Name)
		if bracket := n.parent; s.isOpen(bracket, inst) {
			if v := s.walk().visit(bracket.close, bracket.close.instance(inst)); v != settled {
				return v
			}
		}
	}
	return settled
}

// reopenBrackets lets a resumed run execute open again before it continues in the body of a closed
// bracket.
func (s undoing) reopenBrackets(closed []*runtype.StepRecord) {
	for _, rec := range closed {
		bracket, inst := s.plan.node(rec.Name).parent, parent(rec.Name)
		if s.finished(bracket.body, inst) {
			continue
		}
		s.reopen(rec.Name)
		s.reopen(bracket.close.instance(inst))
	}
}
