package runstore

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/workflow/runtype"
)

// memoryLimit is a key of limits.
type memoryLimit struct {
	set     *int         // number that was set
	waiting []*memoryRun // in the order in which they start
	holders []*memoryRun // that hold a limit
}

// byRank orders the runs that wait for a limit.
func byRank(a, b *memoryRun) int {
	return cmp.Or(cmp.Compare(a.row.Rank(), b.row.Rank()), cmp.Compare(a.number, b.number))
}

// limit acquires the limit of a run, or lets it wait for them.
func (m *Memory) requestLimits(run *memoryRun) bool {
	run.waits = true
	for _, want := range run.row.Limits {
		l := m.limits[want.Key]
		if l == nil {
			l = &memoryLimit{}
			m.limits[want.Key] = l
		}
		at, _ := slices.BinarySearchFunc(l.waiting, run, byRank)
		l.waiting = slices.Insert(l.waiting, at, run)
	}
	if !m.mayAcquire(run) {
		return false
	}
	m.acquireLimits(run)
	return true
}

// mayAcquire reports whether the run is the first of all its keys and none of them is reached.
func (m *Memory) mayAcquire(run *memoryRun) bool {
	for _, want := range run.row.Limits {
		l := m.limits[want.Key]
		atOnce := want.AtOnce
		if l.set != nil {
			atOnce = *l.set
		}
		if l.waiting[0] != run || len(l.holders) >= atOnce {
			return false
		}
	}
	return true
}

func (m *Memory) acquireLimits(run *memoryRun) {
	for _, want := range run.row.Limits {
		l := m.limits[want.Key]
		l.waiting = slices.Delete(l.waiting, 0, 1)
		l.holders = append(l.holders, run)
	}
	run.waits, run.holds = false, true
}

// releaseLimits releases the limit of a run that has ended, or ends its wait for them, and starts the runs that may
// start now.
func (m *Memory) releaseLimits(run *memoryRun, now time.Time) {
	if !run.waits && !run.holds {
		return
	}
	run.waits, run.holds = false, false
	var keys []string
	isRun := func(other *memoryRun) bool { return other == run }
	for _, want := range run.row.Limits {
		l := m.limits[want.Key]
		l.waiting, l.holders = slices.DeleteFunc(l.waiting, isRun), slices.DeleteFunc(l.holders, isRun)
		keys = append(keys, want.Key)
	}
	m.startWaiting(keys, now)
	for _, key := range keys {
		m.forgetLimit(key)
	}
}

// startWaiting starts the runs that wait for the keys and may start.
func (m *Memory) startWaiting(keys []string, now time.Time) {
	for len(keys) > 0 {
		l := m.limits[keys[0]]
		if l == nil || len(l.waiting) == 0 || !m.mayAcquire(l.waiting[0]) {
			keys = keys[1:]
			continue
		}
		run := l.waiting[0]
		m.acquireLimits(run)
		run.row.Revision++
		m.begin(run, now)
		for _, want := range run.row.Limits { // another run is the first of these keys now
			keys = append(keys, want.Key)
		}
	}
}

func (m *Memory) forgetLimit(key string) {
	if l := m.limits[key]; l != nil && l.set == nil && len(l.waiting)+len(l.holders) == 0 {
		delete(m.limits, key)
	}
}

// SetRunLimit sets the number of a key. See RunLimiter.
func (m *Memory) SetRunLimit(ctx context.Context, key string, atOnce int) error {
	return m.changeLimit(ctx, key, &atOnce)
}

// ResetRunLimit removes the number of a key. See RunLimiter.
func (m *Memory) ResetRunLimit(ctx context.Context, key string) error {
	return m.changeLimit(ctx, key, nil)
}

func (m *Memory) changeLimit(ctx context.Context, key string, atOnce *int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.limits[key] == nil {
		m.limits[key] = &memoryLimit{}
	}
	m.limits[key].set = atOnce
	m.startWaiting([]string{key}, time.Now())
	m.forgetLimit(key)
	return nil
}

// RunLimits lists the keys. See RunLimiter.
func (m *Memory) RunLimits(ctx context.Context, after string, limit int) ([]KeyLimit, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []KeyLimit
	for _, key := range slices.Sorted(maps.Keys(m.limits)) {
		if key <= after {
			continue
		}
		l, atOnce := m.limits[key], 0
		switch {
		case len(l.waiting) > 0:
			atOnce = l.waiting[0].atOnce(key)
		case len(l.holders) > 0:
			newest := slices.MaxFunc(l.holders, func(a, b *memoryRun) int { return cmp.Compare(a.number, b.number) })
			atOnce = newest.atOnce(key)
		}
		if list = append(list, l.state(key, atOnce)); len(list) == cmp.Or(limit, 1000) {
			break
		}
	}
	return list, nil
}

// RunLimitsOf returns the limits of a run. See RunLimiter.
func (m *Memory) RunLimitsOf(ctx context.Context, id string) ([]KeyLimit, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	run := m.runs[id]
	switch {
	case run == nil:
		return nil, ErrNotFound
	case !run.waits && !run.holds:
		return nil, nil
	}
	var list []KeyLimit
	for _, want := range run.row.Limits {
		l := m.limits[want.Key]
		state := l.state(want.Key, want.AtOnce)
		oldest := slices.SortedFunc(slices.Values(l.holders), func(a, b *memoryRun) int { return cmp.Compare(a.number, b.number) })
		for _, holder := range oldest[:min(len(oldest), MaxHolders)] {
			state.Holders = append(state.Holders, holder.row.ID)
		}
		if run.waits {
			state.Before, _ = slices.BinarySearchFunc(l.waiting, run, byRank)
		}
		list = append(list, state)
	}
	return list, nil
}

func (run *memoryRun) atOnce(key string) int {
	at := slices.IndexFunc(run.row.Limits, func(l runtype.Limit) bool { return l.Key == key })
	return run.row.Limits[at].AtOnce
}

func (l *memoryLimit) state(key string, atOnce int) KeyLimit {
	s := KeyLimit{Key: key, AtOnce: atOnce, Running: len(l.holders), Waiting: len(l.waiting)}
	if l.set != nil {
		s.AtOnce, s.Set = *l.set, true
	}
	return s
}
