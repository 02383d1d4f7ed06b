package runstore

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/workflow/runtype"
)

// List returns runs without their records. See Lister.
func (m *Memory) List(ctx context.Context, q Query) ([]*runtype.Run, string, error) {
	if err := ctx.Err(); err != nil {
		return nil, "", err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	pool := m.order
	if q.Subject != "" && q.UID == "" {
		pool = nil
		if subject := m.subjects[q.Subject]; subject != nil {
			pool = subject.runs
		}
	}
	limit := q.PageSize()
	from, step := len(pool)-1, -1
	if q.OldestFirst {
		from, step = 0, 1
	}
	if q.Cursor != "" {
		number, err := parseCursor(q.Cursor)
		if err != nil {
			return nil, "", err
		}
		at := sort.Search(len(pool), func(i int) bool { return pool[i].number >= number })
		switch {
		case !q.OldestFirst:
			from = at - 1
		case at < len(pool) && pool[at].number == number:
			from = at + 1
		default:
			from = at
		}
	}
	var runs []*runtype.Run
	var last int64
	for i := from; i >= 0 && i < len(pool); i += step {
		run := pool[i]
		if run.removed || !q.Matches(&run.row) {
			continue
		}
		if len(runs) == limit {
			return runs, strconv.FormatInt(last, 10), nil
		}
		last = run.number
		runs = append(runs, run.head())
	}
	return runs, "", nil
}

// PageSize returns the limit of a query, with its default and its maximum.
func (q Query) PageSize() int {
	if q.Limit <= 0 {
		return 100
	}
	return min(q.Limit, 1000)
}

// Count counts runs. See Lister.
func (m *Memory) Count(ctx context.Context, q Query) ([]RunCount, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var counter Counter
	for _, run := range m.order {
		if !run.removed && q.Matches(&run.row) {
			counter.Add(&run.row)
		}
	}
	return counter.Counts(), nil
}

// Matches reports whether a run matches the query.
func (q Query) Matches(r *runtype.Run) bool {
	return (len(q.Phases) == 0 || slices.Contains(q.Phases, r.Phase)) &&
		(!q.Active || !r.Phase.Final()) &&
		(q.Flow == "" || q.Flow == r.Flow) &&
		(q.Subject == "" || q.Subject == r.Subject || (q.UID != "" && r.Subject == q.Subject+"/"+q.UID)) &&
		(q.Hash == "" || q.Hash == r.Hash) &&
		(q.Parent == "" || q.Parent == r.Parent) &&
		strings.HasPrefix(r.ID, q.Prefix) &&
		(len(q.IDs) == 0 || slices.Contains(q.IDs, r.ID)) &&
		(q.Fault == "" || q.Fault == PausedBy(r)) &&
		(q.Since.IsZero() || !r.CreatedAt.Before(q.Since)) &&
		(q.Until.IsZero() || !r.CreatedAt.After(q.Until)) &&
		(q.Text == "" || q.hasText(r)) &&
		!slices.ContainsFunc(q.Labels, func(t LabelTerm) bool { return !t.Holds(r.Labels) })
}

// head copies a run with the record of its current step only.
func (run *memoryRun) head() *runtype.Run {
	r := new(runtype.Run)
	*r = run.row.CopyRow()
	r.Input, r.Labels = bytes.Clone(run.row.Input), maps.Clone(run.row.Labels)
	if s := runtype.CurrentOf(run.steps); s != nil {
		record := new(runtype.StepRecord)
		s.CopyTo(record)
		r.Restore([]*runtype.StepRecord{record})
	}
	return r
}

// History returns the events of one run. See Lister.
func (m *Memory) History(ctx context.Context, id string, after int64, limit int) ([]runtype.Event, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	run := m.runs[id]
	if run == nil {
		return nil, ErrNotFound
	}
	if limit <= 0 {
		limit = 1000
	}
	var events []runtype.Event
	first := sort.Search(len(run.events), func(i int) bool {
		block := run.events[i]
		return block[len(block)-1].Seq > after
	})
	for _, block := range run.events[first:] {
		for _, e := range block {
			if e.Seq <= after {
				continue
			}
			if len(events) == limit {
				return events, nil
			}
			events = append(events, copyEvent(e))
		}
	}
	return events, nil
}

// Events returns the events of all runs. See Lister.
func (m *Memory) Events(ctx context.Context, cursor string, limit int) ([]runtype.Event, string, error) {
	if err := ctx.Err(); err != nil {
		return nil, "", err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if limit <= 0 {
		limit = 1000
	}
	var after int64
	switch cursor {
	case "":
	case "now":
		after = m.log.last
	default:
		var err error
		if after, err = parseCursor(cursor); err != nil {
			return nil, "", err
		}
	}
	var events []runtype.Event
	blocks := m.log.blocks
	first := sort.Search(len(blocks), func(i int) bool { return blocks[i].end() > after })
	for _, b := range blocks[first:] {
		for i, e := range b.events {
			number := b.first + int64(i)
			if number <= after || b.run.removed {
				continue
			}
			if len(events) == limit {
				return events, strconv.FormatInt(after, 10), nil
			}
			events = append(events, copyEvent(e))
			after = number
		}
	}
	return events, strconv.FormatInt(max(after, m.log.last), 10), nil
}

func copyEvent(e runtype.Event) runtype.Event {
	e.Data = bytes.Clone(e.Data)
	return e
}

// eventLog holds the events of all runs in the order of writing. Each event has a number, from 1.
type eventLog struct {
	blocks []eventBlock
	last   int64
}

type eventBlock struct {
	run    *memoryRun
	first  int64
	events []runtype.Event
}

func (b eventBlock) end() int64 { return b.first + int64(len(b.events)) - 1 }

// record stores the events of one write.
func (m *Memory) record(run *memoryRun, events []runtype.Event) {
	if len(events) == 0 {
		return
	}
	block := slices.Clone(events)
	for i := range block {
		block[i].Run = run.row.ID
		block[i].Data = bytes.Clone(block[i].Data)
	}
	run.events = append(run.events, block)
	m.log.blocks = append(m.log.blocks, eventBlock{run: run, first: m.log.last + 1, events: block})
	m.log.last += int64(len(block))
}

func (l *eventLog) compact() {
	l.blocks = slices.DeleteFunc(l.blocks, func(b eventBlock) bool { return b.run.removed })
}
