package workflow

import (
	"slices"

	"github.com/pawl-dev/pawl/workflow/runtype"
)

// position is the position of an instance in the order of its flow: for each enclosing structure,
// the index of the child or of the item. If parallel is set, the children of that structure run
// side by side, so none is after another.
type position []struct {
	at       int
	parallel bool
}

func (s *reader) position(inst string) position {
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
				at := slices.IndexFunc(rec.Items, func(i runtype.LoopItem) bool { return i.Key == key })
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
