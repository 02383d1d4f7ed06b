package runstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/kube/runstore/client"
	"github.com/pawl-dev/pawl/kube/runstore/format"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// history reads and keeps the events of runs.
type history struct{ *shared }

// eventLog orders the events of all runs by the versions of the API server. The events
// themselves are in their runs.
type eventLog struct {
	groups    []eventGroup // by version
	newest    uint64       // highest known version
	watermark uint64       // the watch has reported everything up to this version
	removed   int
}

// eventGroup names the events of one write: their run and their numbers.
type eventGroup struct {
	version  uint64
	e        *entry
	from, to int64
}

// record adds the new events of an entry. If the watch has reported several writes as
// one change, each is filed under the version that the next write has replaced.
func (l *eventLog) record(e *entry) {
	if !e.Accepted() || e.trimmed || e.Status.Seq <= e.loggedSeq {
		return
	}
	l.newest = max(l.newest, e.Version)
	from := e.loggedSeq + 1
	for seq := from + 1; seq <= e.Status.Seq; seq++ {
		if event, present := e.Status.Events[format.Number(seq)]; present && event.After != "" {
			if after := format.ParseVersion(event.After); after > 0 {
				l.insert(eventGroup{after, e, from, seq - 1})
				from = seq
			}
		}
	}
	l.insert(eventGroup{e.Version, e, from, e.Status.Seq})
	e.loggedSeq = e.Status.Seq
}

func (l *eventLog) insert(g eventGroup) {
	at := len(l.groups)
	for at > 0 && l.groups[at-1].version > g.version {
		at--
	}
	l.groups = slices.Insert(l.groups, at, g)
}

func (l *eventLog) dropped(e *entry) {
	if e.loggedSeq == 0 {
		return
	}
	if l.removed++; l.removed > 1000 && l.removed > len(l.groups)/8 {
		l.groups = slices.DeleteFunc(l.groups, func(g eventGroup) bool { return g.e.removed })
		l.removed = 0
	}
}

// advanceWatermark notes that the watch has reported everything up to a version. s.mu is
// held.
func (s *history) advanceWatermark(version uint64) {
	s.cache.log.watermark = max(s.cache.log.watermark, version)
}

// position is a place in the log: all events up to number seq of the write version.
type position struct {
	version uint64
	seq     int64
}

func (p position) String() string { return fmt.Sprintf("%d.%d", p.version, p.seq) }

func parsePosition(cursor string) (position, error) {
	version, seq, ok := strings.Cut(cursor, ".")
	v, err := strconv.ParseUint(version, 10, 64)
	n, err2 := strconv.ParseInt(seq, 10, 64)
	if !ok || err != nil || err2 != nil {
		return position{}, runtype.InputInvalid.Errorf("cursor %q is not from an earlier answer", cursor)
	}
	return position{v, n}, nil
}

// Events returns the events of all runs. After a restart of this process the newest
// events of runs that were written meanwhile may be returned a second time; consumers
// recognize them by run and number. See runstore.Lister.
func (s *Store) Events(ctx context.Context, cursor string, limit int) ([]runtype.Event, string, error) {
	if err := ctx.Err(); err != nil {
		return nil, "", err
	}
	if limit <= 0 {
		limit = 1000
	}
	s.mu.Lock()
	log := &s.cache.log
	var after position
	switch cursor {
	case "":
	case "now":
		at := position{version: max(log.newest, log.watermark), seq: 1 << 62}
		s.mu.Unlock()
		return nil, at.String(), nil
	default:
		var err error
		if after, err = parsePosition(cursor); err != nil {
			s.mu.Unlock()
			return nil, "", err
		}
	}
	var wanted []eventRange
	count := 0
	first := sort.Search(len(log.groups), func(i int) bool { return log.groups[i].version >= after.version })
	next := after
	full := false
	for _, g := range log.groups[first:] {
		if g.version > log.watermark {
			full = true
			break
		}
		from := g.from
		if g.version == after.version {
			from = max(from, after.seq+1)
		}
		if g.e.removed || from > g.to {
			continue
		}
		to := min(g.to, from+int64(limit-count)-1)
		wanted = append(wanted, s.history.cachedEvents(g.e, from, to))
		count += int(to - from + 1)
		next = position{g.version, to}
		if count >= limit {
			full = true
			break
		}
	}
	if !full && log.watermark > next.version {
		next = position{version: log.watermark, seq: 1 << 62}
	}
	s.mu.Unlock()

	events := make([]runtype.Event, 0, count)
	for _, w := range wanted {
		part, err := s.history.fetch(ctx, w)
		if errors.Is(err, runstore.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, "", err
		}
		events = append(events, part...)
	}
	return events, next.String(), nil
}

// eventRange is a range of the events of a run: the events, or missing if they must be
// read.
type eventRange struct {
	o        *format.Object
	id       string
	from, to int64
	events   []runtype.Event
	missing  bool
}

// cachedEvents copies a range of events from the cache. s.mu is held.
func (s *history) cachedEvents(e *entry, from, to int64) eventRange {
	w := eventRange{o: &format.Object{Name: e.Name, Namespace: e.Namespace, RunID: e.RunID}, id: e.ID(), from: from, to: to}
	d := &format.Decoder{}
	for seq := from; seq <= to; seq++ {
		event, present := e.Status.Events[format.Number(seq)]
		if !present {
			w.missing = true
			return w
		}
		w.events = append(w.events, d.Event(w.id, seq, &event))
	}
	return w
}

// fetch returns the events of a range. If they are missing it reads the object, and its
// history objects if necessary.
func (s *history) fetch(ctx context.Context, w eventRange) ([]runtype.Event, error) {
	if !w.missing {
		return w.events, nil
	}
	o, err := s.read(ctx, w.o.Namespace, w.o.Name)
	if err != nil {
		return nil, err
	}
	var events []runtype.Event
	d := &format.Decoder{}
	first := o.Status.Seq + 1
	for key, event := range o.Status.Events {
		seq := d.Number(key)
		first = min(first, seq)
		events = append(events, d.Event(w.id, seq, &event))
	}
	if w.from < first {
		older, err := s.readHistory(ctx, o)
		if err != nil {
			return nil, err
		}
		for _, event := range older {
			if event.Seq < first {
				event.Run = w.id
				events = append(events, event)
			}
		}
	}
	if d.Err != nil {
		return nil, runstore.StoreCorrupt.Errorf("run %s: %w", w.id, d.Err)
	}
	events = slices.DeleteFunc(events, func(e runtype.Event) bool { return e.Seq < w.from || e.Seq > w.to })
	slices.SortFunc(events, func(a, b runtype.Event) int { return int(a.Seq - b.Seq) })
	return slices.CompactFunc(events, func(a, b runtype.Event) bool { return a.Seq == b.Seq }), nil
}

func (s *history) readHistory(ctx context.Context, o *format.Object) ([]runtype.Event, error) {
	group, resource := s.format.HistoryResource()
	list := s.format.NewHistoryList()
	err := s.client.List(ctx, client.Ref{Group: group, Resource: resource, Namespace: o.Namespace}, metav1.ListOptions{LabelSelector: format.LabelRun + "=" + format.LabelValue(o.Name)}, list)
	if err != nil {
		return nil, client.StoreError(ctx, "reading the history of run "+o.ID(), err)
	}
	return s.format.DecodeHistory(list)
}

// History returns the events of one run. See runstore.Lister.
func (s *Store) History(ctx context.Context, id string, after int64, limit int) ([]runtype.Event, error) {
	if limit <= 0 {
		limit = 1000
	}
	e, err := s.find(ctx, id)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	if e.removed {
		s.mu.Unlock()
		return nil, runstore.ErrNotFound
	}
	to := min(e.Status.Seq, after+int64(limit))
	w := s.history.cachedEvents(e, after+1, to)
	s.mu.Unlock()
	return s.history.fetch(ctx, w)
}
