package sqlstore

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/cluster"
)

// recentKept is how long is believed what another process may have changed.
const recentTTL = time.Second

// recentMost bounds how much of a kind is kept: it is forgotten all together.
const maxRecent = 2_000

// recent keeps what was found out about lists a moment ago, so that not each
// page of one finds it out anew. A change of this process forgets it.
type recentCache[V any] struct {
	mu      sync.Mutex
	number  int64 // of changes
	entries map[string]cacheEntry[V]
}

type cacheEntry[V any] struct {
	value V
	at    time.Time
}

// get gives a value, the zero one if none is known, and the number of changes
// so far, which is for put.
func (t *recentCache[V]) get(key string) (value V, changes int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if k, known := t.entries[key]; known && time.Since(k.at) < recentTTL {
		value = k.value
	}
	return value, t.number
}

// put keeps a value unless something has changed since get.
func (t *recentCache[V]) put(key string, value V, changes int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.number != changes {
		return
	}
	if t.entries == nil || len(t.entries) >= maxRecent {
		t.entries = map[string]cacheEntry[V]{}
	}
	t.entries[key] = cacheEntry[V]{value, time.Now()}
}

// forget is called when a change may have become visible, before its maker is told.
func (t *recentCache[V]) invalidate() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.number++
	clear(t.entries)
}

// lists is what is known of lists of clusters. Whether a cluster is in a steady
// one its making and its end decide, and nothing between them.
type lists struct{ steady, others list }

// list is what is known: totals, and the last clusters of former pages, by the
// offsets of the next ones.
type list struct {
	totals recentCache[int]
	starts recentCache[listPosition]
}

// of gives what is known of the list that a query asks for.
func (l *lists) of(q cluster.ClusterQuery) *list {
	if !q.WithDestroyed && q.State == "" && q.Name+q.Keyword+q.Network == "" {
		return &l.steady
	}
	return &l.others
}

// changed is called as forget is. came: clusters may have come or gone.
func (l *lists) changed(came bool) {
	if came {
		l.steady.invalidate()
	}
	l.others.invalidate()
}

func (l *list) invalidate() {
	l.totals.invalidate()
	l.starts.invalidate()
}

// start gives the last cluster before the page of a query, if it is known, and
// what ended needs.
func (l *list) start(key string, q cluster.ClusterQuery) (listPosition, int64) {
	if q.AfterID != 0 || q.Offset <= 0 {
		_, changes := l.starts.get("")
		return listPosition{}, changes
	}
	return l.starts.get(startKey(key, q))
}

// ended keeps where the next page begins.
func (l *list) rememberNext(key string, q cluster.ClusterQuery, page []cluster.Cluster, changes int64) {
	if q.AfterID != 0 || q.Limit <= 0 || len(page) < q.Limit {
		return
	}
	last := &page[len(page)-1]
	q.Offset = max(0, q.Offset) + len(page)
	l.starts.put(startKey(key, q), listPosition{nanos(last.Created), last.ID}, changes)
}

// listPlace is a cluster's place in a list. The zero value is before the first.
type listPosition struct{ created, id int64 }

// startKey names an offset in a list.
func startKey(key string, q cluster.ClusterQuery) string {
	return fmt.Sprintf("%s %v %d", key, q.NewestFirst, q.Offset)
}

// listKey names the list that a statement selects.
func listKey(sql string, args []any) string {
	var b strings.Builder
	b.WriteString(sql)
	for _, arg := range args {
		text := fmt.Sprint(arg)
		fmt.Fprintf(&b, " %d:%s", len(text), text) // the length keeps one from looking like two
	}
	return b.String()
}
