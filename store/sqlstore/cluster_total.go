package sqlstore

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// totalKept is how long a total is believed that another process may have changed.
const totalKept = time.Second

// totalsMost bounds how many totals are kept: they are forgotten all together.
const totalsMost = 1_000

// totals keeps how many clusters there are of a kind, so that not each page of
// a list counts them. A change of this process forgets them all.
type totals struct {
	mu     sync.Mutex
	number int64 // of changes
	kept   map[string]keptTotal
}

type keptTotal struct {
	total int
	at    time.Time
}

// totalKey names what a statement counts.
func totalKey(sql string, args []any) string {
	var b strings.Builder
	b.WriteString(sql)
	for _, arg := range args {
		text := fmt.Sprint(arg)
		fmt.Fprintf(&b, " %d:%s", len(text), text) // the length keeps one from looking like two
	}
	return b.String()
}

// get gives a total, 0 if none is known, and the number of changes so far,
// which is for put.
func (t *totals) get(key string) (total int, changes int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if k, known := t.kept[key]; known && time.Since(k.at) < totalKept {
		total = k.total
	}
	return total, t.number
}

// put keeps a total unless something has changed since get.
func (t *totals) put(key string, total int, changes int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.number != changes {
		return
	}
	if t.kept == nil || len(t.kept) >= totalsMost {
		t.kept = map[string]keptTotal{}
	}
	t.kept[key] = keptTotal{total, time.Now()}
}

// forget is called when a change may have become visible, before its maker is told.
func (t *totals) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.number++
	clear(t.kept)
}
