package clusters

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/store/sql/db"
)

// recentTTL is how long a cached value is used that another process may have changed.
const recentTTL = time.Second

// maxRecent is the number of entries at which the whole cache is cleared.
const maxRecent = 2_000

// recentCache caches facts about lists, so that the pages of one list do not compute
// them again. A change of this process clears it.
type recentCache[V any] struct {
	mu      sync.Mutex
	number  int64 // counts the changes of this process
	entries map[string]cacheEntry[V]
}

type cacheEntry[V any] struct {
	value V
	at    time.Time
}

// get returns a cached value, or the zero value, and the number of changes so far, which
// put needs.
func (t *recentCache[V]) get(key string) (value V, changes int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if k, known := t.entries[key]; known && time.Since(k.at) < recentTTL {
		value = k.value
	}
	return value, t.number
}

// put stores a value unless a change has come since get.
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

// invalidate clears the cache. Call it when a change may have become visible, before
// Commit returns.
func (t *recentCache[V]) invalidate() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.number++
	clear(t.entries)
}

// lists caches facts about lists of clusters. steady is for lists that only the creation
// and removal of clusters change.
type lists struct{ steady, others list }

// list caches totals, and the last cluster of each earlier page by the offset of the
// next page.
type list struct {
	totals recentCache[int]
	starts recentCache[listPosition]
}

// of returns the cache for the list of a query.
func (l *lists) of(q cluster.ClusterQuery) *list {
	if !q.WithDestroyed && q.State == "" && q.Name+q.Keyword+q.Network == "" {
		return &l.steady
	}
	return &l.others
}

// changed invalidates the caches. came: the change may have added or removed clusters.
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

// start returns the last cluster before the page of a query, if it is known, and the
// number of changes, which rememberNext needs.
func (l *list) start(key string, q cluster.ClusterQuery) (listPosition, int64) {
	if q.AfterID != 0 || q.Offset <= 0 {
		_, changes := l.starts.get("")
		return listPosition{}, changes
	}
	return l.starts.get(startKey(key, q))
}

// rememberNext stores where the next page begins.
func (l *list) rememberNext(key string, q cluster.ClusterQuery, page []cluster.Cluster, changes int64) {
	if q.AfterID != 0 || q.Limit <= 0 || len(page) < q.Limit {
		return
	}
	last := &page[len(page)-1]
	q.Offset = max(0, q.Offset) + len(page)
	l.starts.put(startKey(key, q), listPosition{db.Nanos(last.Created), last.ID}, changes)
}

// listPosition is the position of a cluster in a list. The zero value is before the
// first.
type listPosition struct{ created, id int64 }

// startKey is the cache key of an offset in a list.
func startKey(key string, q cluster.ClusterQuery) string {
	return fmt.Sprintf("%s %v %d", key, q.NewestFirst, q.Offset)
}

// listKey is the cache key of the list that a statement selects.
func listKey(sql string, args []any) string {
	var b strings.Builder
	b.WriteString(sql)
	for _, arg := range args {
		text := fmt.Sprint(arg)
		fmt.Fprintf(&b, " %d:%s", len(text), text) // with the length, two different lists of arguments have different keys
	}
	return b.String()
}
