package workflow

import (
	"fmt"
	"strconv"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// visitSequence visits a sequence, beginning with its first unsettled step.
func (s walk) visitSequence(children []*node, inst string) visitResult {
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

func (s walk) visit(n *node, inst string) visitResult {
	rec := s.run.Step(inst)
	if rec != nil && !n.virtual || rec != nil && n.kind <= childNode {
		if rec.Phase.Settled() {
			return settled
		}
		if rec.Phase == runtype.StepFailed {
			return failed
		}
	}
	if fresh := rec == nil || rec.Phase == runtype.StepPending; fresh && n.step.When != nil {
		if s.halt {
			return busy
		}
		if rec = s.evaluateWhen(n, inst, rec); rec != nil && rec.Phase != runtype.StepEntered {
			if rec.Phase == runtype.StepFailed {
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
	if v == settled && !n.virtual && rec != nil && rec.Phase == runtype.StepEntered {
		rec.Phase, rec.EndedAt = runtype.StepDone, s.now
		s.put(rec)
	}
	return v
}

// evaluateWhen evaluates `when`. If it is false, the step is recorded as skipped. If it is true, a
// leaf goes on without a record; a structure gets one, so that the answer stays the same.
func (s walk) evaluateWhen(n *node, inst string, rec *runtype.StepRecord) *runtype.StepRecord {
	ok, err := s.predicate(n, inst)
	if rec == nil {
		rec = s.record(inst)
	}
	switch {
	case err != nil:
		s.fail(rec, s.expression("when", err))
	case !ok:
		rec.Phase, rec.Note, rec.EndedAt = runtype.StepSkipped, "only if "+n.step.WhenText, s.now
		s.put(rec)
		s.event(runtype.StepSkippedEvent, rec, runtype.Event{Actor: "engine", Reason: "When", Message: rec.Note})
	case n.kind <= childNode:
		if rec.Phase == runtype.StepPending {
			return &runtype.StepRecord{Phase: runtype.StepEntered} // the stored record stays Pending until the step is opened
		}
		s.run.State.Ord-- // the new record is not used
		return &runtype.StepRecord{Phase: runtype.StepEntered}
	default:
		rec.Phase = runtype.StepEntered
		s.put(rec)
	}
	return rec
}

func (s *state) expression(what string, err error) *runtype.Fault {
	f := s.faultOf(err)
	if f.Code == fault.Unknown.Code {
		f.Code = ExpressionFailed.Code
	}
	f.Message = what + ": " + f.Message
	return f
}

// record creates the record of an instance that the run reaches for the first time.
func (s *state) record(inst string) *runtype.StepRecord {
	s.run.State.Ord++
	return &runtype.StepRecord{Name: inst, Ord: s.run.State.Ord, StartedAt: s.now}
}

// visitParallel visits branches or iterations that run side by side. At most `most` of them are
// unsettled at the same time.
func (s walk) visitParallel(inst string, count, most int, child func(int) (*node, string)) visitResult {
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

// visitLoop visits a loop. It evaluates the list when the run reaches the loop, and stores it.
func (s walk) visitLoop(n *node, inst string) visitResult {
	rec := s.run.Step(inst)
	if rec == nil || rec.Phase == runtype.StepPending || rec.Items == nil && rec.Phase == runtype.StepEntered {
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
		rec.Phase, rec.Items, rec.StartedAt, rec.EndedAt = runtype.StepEntered, items, s.now, time.Time{}
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
func (s walk) indexItems(inst string, items []runtype.LoopItem) {
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

// visitLeaf visits a step that does something itself.
func (s walk) visitLeaf(n *node, inst string, rec *runtype.StepRecord) visitResult {
	if rec != nil && rec.Name == "" {
		rec = s.run.Step(inst)
	}
	if rec == nil || rec.Phase == runtype.StepPending {
		if s.halt {
			return busy
		}
		return s.openLeaf(n, inst, rec)
	}
	switch rec.Phase {
	case runtype.StepRunning:
		s.running++
		return busy
	case runtype.StepRetrying:
		if !s.halt && !s.now.Before(rec.NextAt) {
			return s.openLeaf(n, inst, rec)
		}
		s.retrying++
		if !s.halt {
			s.wakeAt(rec.NextAt)
		}
		return busy
	case runtype.StepWaiting:
		if isLimitWait(n, rec) && !s.halt {
			return s.openLeaf(n, inst, rec)
		}
		return s.waits(n, inst, rec)
	case runtype.StepFailed:
		return failed
	}
	return settled
}

// openLeaf opens an attempt or begins a wait.
func (s walk) openLeaf(n *node, inst string, rec *runtype.StepRecord) visitResult {
	if n.missing != "" && n.do == nil {
		if rec == nil {
			rec = s.record(inst)
		}
		s.fail(rec, &runtype.Fault{Code: ActionMissing.Code, Message: fmt.Sprintf("the step uses %q", n.missing), At: s.now})
		return failed
	}
	isolated := rec != nil && rec.Lost > 0 && !n.closes // the close of a bracket needs no turn
	if ok, err := s.acquired(inst, n.step.Limits, s.view(scopeOf(inst)), time.Time{}); err != nil {
		if rec == nil {
			rec = s.record(inst)
		}
		s.fail(rec, s.expression("limits", err))
		return failed
	} else if !ok {
		return s.waitsForLimit(n, inst, rec)
	}
	waitStep := n.step.Wait != nil && n.step.Do == nil && n.step.Uses == "" && n.kind == leafNode && (rec == nil || !rec.Undoing)
	if !waitStep && s.acquireSlot != nil && !s.acquireSlot(n, isolated) {
		s.starved = true
		return busy
	}
	if s.run.StartedAt.IsZero() {
		s.run.StartedAt = s.now
		s.event(runtype.RunStarted, nil, runtype.Event{})
	}
	if rec == nil {
		rec = s.record(inst)
	}
	if rec.Phase == runtype.StepPending {
		rec.StartedAt, rec.EndedAt, rec.Output, rec.Wait, rec.Progress = s.now, time.Time{}, nil, nil, nil
		rec.Attempt = 0
	}
	if isLimitWait(n, rec) {
		rec.Wait = nil
	}
	rec.Attempt++
	rec.Phase, rec.AttemptAt, rec.NextAt, rec.Isolated = runtype.StepRunning, s.now, time.Time{}, isolated
	s.put(rec)
	s.event(runtype.StepStarted, rec, runtype.Event{})
	if waitStep {
		return s.beginWait(n, inst, rec)
	}
	s.running++
	s.opens = append(s.opens, opening{node: n, rec: rec})
	return busy
}
