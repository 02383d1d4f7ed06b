package postgres

import (
	"container/heap"
	"context"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
)

// entry is a line of a log.
type entry struct {
	at      time.Time
	timed   bool   // the line has a time of its own, else it has that of the line before
	engine  bool   // written by PostgreSQL
	line    []byte // JSON, with instance and id
	from    int    // source
	seq     int    // order of arrival
	arrived time.Time
}

// entries is a heap of lines: the oldest first, and of one time the first to arrive.
type entries []entry

func (h entries) Len() int      { return len(h) }
func (h entries) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *entries) Push(e any)   { *h = append(*h, e.(entry)) }

func (h entries) Less(i, j int) bool {
	if h[i].at.Equal(h[j].at) {
		return h[i].seq < h[j].seq
	}
	return h[i].at.Before(h[j].at)
}

// Pop implements heap.Interface.
func (h *entries) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	*h = (*h)[:last]
	return e
}

// mergeHold is how long a line of a log that is followed waits for older ones of other sources.
const mergeHold = 300 * time.Millisecond

// lookEvery is the time between two looks at which logs there are.
const lookEvery = 2 * time.Second

// event is what a source tells: that it begins, a line, that it has ended, or why it could not be read.
type event struct {
	from   int
	line   *entry
	ends   bool
	failed func() // tells the failure
}

// merger emits the lines of several logs as one log, in the order of time.
type merger struct {
	options logOptions
	emit    func(entry) error
	failed  func(source, error)
	in      chan event
}

// readLogs emits the lines of all sources, to their ends. A source that cannot be read is told to failed; if
// none can, that is the error.
func readLogs(ctx context.Context, sources []source, o logOptions, emit func(entry) error, failed func(source, error)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m := merger{o, emit, failed, make(chan event)}
	errs := make([]error, len(sources))
	var reading sync.WaitGroup
	for n, s := range sources {
		reading.Go(func() { errs[n] = m.read(ctx, s, n, time.Time{}, func(entry) {}) })
	}
	err := m.merge(ctx, len(sources))
	stopped := ctx.Err() != nil
	cancel()
	reading.Wait()
	bad := 0
	for n, s := range sources {
		if errs[n] != nil && !stopped {
			bad++
			failed(s, errs[n])
		}
	}
	if err == nil && bad > 0 && bad == len(sources) {
		err = errs[0]
	}
	return err
}

// tail is a log that is followed.
type tail struct {
	from    int
	reading atomic.Bool
	last    time.Time // of the newest line: a log that begins anew is emitted from there
	told    string    // the failure that was told last
}

// followLogs emits what sources have and get, and what the sources of later looks have, until ctx ends: a log
// that ends, as its pod goes, is read on from its newest line when it is there again. If none of the first
// sources can be read and waiting will not help, that is the error.
func followLogs(ctx context.Context, sources []source, look func(context.Context) ([]source, error), o logOptions, emit func(entry) error, failed func(source, error)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	m := merger{o, emit, failed, make(chan event)}
	var working sync.WaitGroup
	working.Go(func() { m.follow(ctx, cancel, sources, look) })
	err := m.merge(ctx, 0)
	cancel(err)
	working.Wait()
	if err == nil {
		err = context.Cause(ctx)
	}
	return err
}

func (m merger) follow(ctx context.Context, cancel context.CancelCauseFunc, sources []source, look func(context.Context) ([]source, error)) {
	var reading sync.WaitGroup
	defer reading.Wait()
	var hopeless atomic.Int32
	first := int32(len(sources)) //nolint:gosec // some tens at most
	tails := map[string]*tail{}
	for begun := false; ; begun = true {
		var fresh []func()
		for _, s := range sources {
			t := tails[s.key]
			if t == nil {
				t = &tail{from: len(tails)}
				tails[s.key] = t
			}
			if !t.reading.CompareAndSwap(false, true) {
				continue
			}
			m.tell(ctx, event{from: t.from}) // of all before the first line: it waits for older ones of the others
			fresh = append(fresh, func() {
				defer t.reading.Store(false)
				err := m.read(ctx, s, t.from, t.last, func(e entry) {
					if t.told = ""; e.at.After(t.last) {
						t.last = e.at
					}
				})
				if ctx.Err() != nil || err == nil {
					return
				}
				if text := fault.Message(err); text != t.told {
					t.told = text
					m.tell(ctx, event{failed: func() { m.failed(s, err) }})
				}
				if !begun && !passes(err) && hopeless.Add(1) == first {
					cancel(err)
				}
			})
		}
		for _, read := range fresh {
			reading.Go(read)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(lookEvery):
		}
		if found, err := look(ctx); err == nil { // else those that there were: the next look may succeed
			sources = found
		}
	}
}

// passes reports a failure after which the log may come by itself: its pod is gone, or its container does not
// run yet.
func passes(err error) bool {
	k := fault.Of(err)
	return k == control.NotFound || k != nil && k.Class == fault.Transient || apierrors.IsBadRequest(err)
}

func (m merger) tell(ctx context.Context, n event) {
	select {
	case m.in <- n:
	case <-ctx.Done():
	}
}

// read reads a source. Of one that was read before, the lines after that time count: those that say when they were
// written, and what follows or precedes them without a time, as the text of a crash does.
func (m merger) read(ctx context.Context, s source, from int, after time.Time, each func(entry)) error {
	defer m.tell(ctx, event{from: from, ends: true})
	last, known := after, false
	return s.read(ctx, m.options, func(line []byte) {
		e := parseLine(line, s, last)
		last, e.from = e.at, from
		if e.timed {
			known = !after.IsZero() && !e.at.After(after)
		}
		if known {
			return
		}
		each(e)
		m.tell(ctx, event{from: from, line: &e})
	})
}

// merge emits all lines when all sources have ended: a source is not quite in order itself, since an agent
// passes the messages of its engine on a little later. With follow it emits the oldest line as soon as all
// sources have one, and at the latest mergeHold after it came, until ctx ends.
func (m merger) merge(ctx context.Context, open int) error {
	var held entries
	waiting, done := map[int]int{}, map[int]bool{} // by source
	follow := m.options.follow
	hold := time.NewTimer(mergeHold)
	defer hold.Stop()
	seq := 0
	full := func() bool { // each open source has a line
		n := 0
		for from, lines := range waiting {
			if lines > 0 && !done[from] {
				n++
			}
		}
		return n == open
	}
	release := func(all bool, until time.Time) error {
		for len(held) > 0 && (all || !held[0].at.After(until) || follow && full()) {
			e := heap.Pop(&held).(entry)
			waiting[e.from]--
			if err := m.emit(e); err != nil {
				return err
			}
		}
		return nil
	}
	for follow || open > 0 {
		until := time.Time{} // lines up to this time have waited long enough
		select {
		case n := <-m.in:
			switch {
			case n.line != nil:
				if len(held) == 0 {
					hold.Reset(mergeHold)
				}
				seq++
				n.line.seq, n.line.arrived = seq, time.Now()
				heap.Push(&held, *n.line)
				waiting[n.from]++
			case n.failed != nil:
				n.failed()
			case n.ends:
				open--
				done[n.from] = true
			default:
				open++
				done[n.from] = false
			}
		case <-hold.C:
			if follow {
				until = held.cameBefore(time.Now().Add(-mergeHold))
			}
			hold.Reset(mergeHold / 3)
		case <-ctx.Done():
			return release(true, until)
		}
		if err := release(false, until); err != nil {
			return err
		}
	}
	return release(true, time.Time{})
}

// cameBefore is the newest time of the lines that came up to then.
func (h entries) cameBefore(then time.Time) (newest time.Time) {
	for _, e := range h {
		if !e.arrived.After(then) && e.at.After(newest) {
			newest = e.at
		}
	}
	return newest
}
