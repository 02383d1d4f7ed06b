package runstore

import (
	"context"
	"slices"
)

// memoryLogs are the logs of a run.
type memoryLogs struct {
	chunks  []LogChunk // by number
	last    int64
	cost    int64 // of the lines
	leftOut int64
}

// WriteLogs stores what attempts have printed. See Logs.
func (m *Memory) WriteLogs(ctx context.Context, writes []*LogWrite) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, w := range writes {
		if run := m.runs[w.Run]; run != nil {
			run.logs.write(w)
		}
	}
	return nil
}

func (l *memoryLogs) write(w *LogWrite) {
	for _, c := range w.Chunks {
		l.last++
		c.Number = l.last
		l.chunks = append(l.chunks, *c)
		l.cost += c.Cost()
	}
	gone := make(map[int64]bool, len(w.Remove))
	for _, n := range w.Remove {
		gone[n] = true
	}
	removed := l.remove(func(c LogChunk) bool { return gone[c.Number] })
	for i := range l.chunks {
		if l.chunks[i].Number == w.Into {
			l.chunks[i].LeftOut += removed
		}
	}
	if l.cost <= MaxRunLog {
		return
	}
	cost := l.cost
	l.leftOut += l.remove(func(c LogChunk) bool {
		over := cost > KeptRunLog
		if over {
			cost -= c.Cost()
		}
		return over
	})
}

// remove removes chunks and returns the bytes that are not kept for them any more.
func (l *memoryLogs) remove(drop func(LogChunk) bool) (removed int64) {
	l.chunks = slices.DeleteFunc(l.chunks, func(c LogChunk) bool {
		if !drop(c) {
			return false
		}
		removed += c.Bytes + c.LeftOut
		l.cost -= c.Cost()
		return true
	})
	return removed
}

// ReadLogs returns chunks of a run. See Logs.
func (m *Memory) ReadLogs(ctx context.Context, id string, q LogQuery) (LogPage, error) {
	if err := ctx.Err(); err != nil {
		return LogPage{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	run := m.runs[id]
	if run == nil {
		return LogPage{}, ErrNotFound
	}
	page := LogPage{LeftOut: run.logs.leftOut}
	for _, c := range run.logs.chunks {
		if q.Matches(c.Number) {
			page.Chunks = append(page.Chunks, c)
		}
	}
	if extra := len(page.Chunks) - q.PageSize(); extra > 0 {
		if q.Newest {
			page.Chunks = page.Chunks[extra:]
		} else {
			page.Chunks = page.Chunks[:q.PageSize()]
		}
	}
	return page, nil
}
