package rollout

// movement is the arithmetic of batches: how many pods have moved, and how many will have. It sees no pods.
// The plan has its defaults and the batches of the position.
type movement struct {
	p  Plan
	at Position
}

func (m *movement) original() int { return deref(m.at.OriginalSize) }
func (m *movement) target() int   { return deref(m.at.TargetSize) }
func (m *movement) total() int    { return total(m.at.Mode, m.original(), m.target()) }

func deref(n *int) int {
	if n == nil {
		return 0
	}
	return *n
}

// moved is how many pods have moved when the current batch has ended; in a rollback, how many are
// still moved.
func (m *movement) moved() int { return m.movedAfter(m.at.CurrentBatch) }

// movedBefore is what moved was when the current batch began.
func (m *movement) movedBefore() int { return m.movedAfter(m.at.CurrentBatch - 1) }

func (m *movement) movedAfter(batch int) int {
	back := m.at.Rollback
	switch {
	case back == nil:
		return m.p.moved(m.total(), batch)
	case batch >= back.FromBatch:
		return 0
	default:
		return max(0, back.Size-m.p.moved(m.total(), batch))
	}
}

// maxUnavailable is how many pods the check of the current batch may miss.
func (m *movement) maxUnavailable() int {
	if b := m.batch(); b.MaxUnavailable != nil {
		return b.MaxUnavailable.Of(m.total())
	}
	return 0
}

func (m *movement) batch() Batch {
	if k := m.at.CurrentBatch; k >= 0 && k < len(m.p.RolloutBatches) {
		return m.p.RolloutBatches[k]
	}
	return Batch{}
}

// size is the number of pods when the current batch has ended.
func (m *movement) size() int { return m.sizeAfter(m.at.CurrentBatch) }

func (m *movement) sizeAfter(batch int) int {
	base := m.at.ScaleBase
	if base == nil {
		moved := m.movedAfter(batch)
		if m.target() < m.original() {
			return m.original() - moved
		}
		return m.original() + moved
	}
	if batch >= len(m.p.RolloutBatches)-1 {
		return m.target()
	}
	moved := min(abs(m.target()-base.Size), m.p.moved(m.total(), batch)-m.p.moved(m.total(), base.Batch-1))
	if m.target() < base.Size {
		return base.Size - moved
	}
	return base.Size + moved
}

// recorded is the plan with the batches of the position: those may not be edited any more.
func (at Position) recorded(p Plan) Plan {
	if len(at.Batches) == 0 {
		return p
	}
	if at.Strategy != "" {
		p.RolloutStrategy = at.Strategy
	}
	batches := make([]Batch, len(at.Batches))
	for i := range batches {
		if i < len(p.RolloutBatches) {
			batches[i] = p.RolloutBatches[i]
		} else if p.RolloutBatches == nil {
			batches[i].Soak, batches[i].Deadline = &p.Soak, p.BatchDeadline
		}
		b := at.Batches[i]
		batches[i].Replicas, batches[i].PodList, batches[i].Pods = b.Replicas, b.PodList, b.Pods
		batches[i].MaxUnavailable, batches[i].InstanceInterval = b.MaxUnavailable, b.InstanceInterval
	}
	p.RolloutBatches = batches
	return p
}

// resolved writes the batches with their sizes to the position.
func (m *movement) resolved() Position {
	at, all := m.at, m.total()
	p := m.p.Defaulted(all)
	at.Strategy = p.RolloutStrategy
	at.Batches = make(map[int]BatchPosition, len(p.RolloutBatches))
	for i, b := range p.RolloutBatches {
		at.Batches[i] = BatchPosition{
			Replicas: b.Replicas, PodList: b.PodList, Pods: b.Pods, MaxUnavailable: b.MaxUnavailable, InstanceInterval: b.InstanceInterval,
			Size: p.moved(all, i) - p.moved(all, i-1), Target: p.moved(all, i),
		}
	}
	return at
}

// resized is the position with the sizes of another total; starts, ends and deadlines stay.
func (m *movement) resized(size int) Position {
	after := movement{m.p, m.at}
	after.at.TargetSize = &size
	p, all := after.at.recorded(m.p), after.total()
	batches := make(map[int]BatchPosition, len(m.at.Batches))
	for i, b := range m.at.Batches {
		b.Size, b.Target = p.moved(all, i)-p.moved(all, i-1), p.moved(all, i)
		batches[i] = b
	}
	after.at.Batches = batches
	return after.at
}

// last reports whether no batch follows.
func (m *movement) last() bool {
	if back := m.at.Rollback; back != nil {
		return m.at.CurrentBatch >= back.FromBatch
	}
	return m.at.CurrentBatch >= len(m.p.RolloutBatches)-1
}

// allowed is the last batch that may run.
func (m *movement) allowed() int {
	last := len(m.p.RolloutBatches) - 1
	if m.p.BatchPartition == nil {
		return last
	}
	allowed := *m.p.BatchPartition
	if a := m.at.Approved; a != nil {
		allowed = max(allowed, a.Batch)
	}
	return min(allowed, last)
}
