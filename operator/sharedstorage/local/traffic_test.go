package local

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// answered is one row whose commit was answered.
type answered struct {
	by         string // the instance that committed it
	n          int64
	began, end time.Time
}

// traffic is a client that writes without pause to every instance that accepts writes.
type traffic struct {
	b      *fixture
	cancel context.CancelFunc
	all    sync.WaitGroup

	mu   sync.Mutex
	rows []answered
}

func (b *fixture) write(names ...string) *traffic {
	b.t.Helper()
	b.exec(b.writer, "CREATE TABLE IF NOT EXISTS traffic (by text, n bigint, PRIMARY KEY (by, n))")
	ctx, cancel := context.WithCancel(b.t.Context())
	w := &traffic{b: b, cancel: cancel}
	b.t.Cleanup(w.stop)
	for _, name := range names {
		w.all.Go(func() { w.writeTo(ctx, name) })
	}
	return w
}

func (w *traffic) writeTo(ctx context.Context, name string) {
	var c *pgx.Conn
	for n := int64(1); ctx.Err() == nil; n++ {
		began := time.Now()
		err := func() (err error) {
			limited, cancel := context.WithTimeout(ctx, 20*time.Second)
			defer cancel()
			if c == nil || c.IsClosed() {
				if c, err = w.b.connect(name); err != nil {
					return err
				}
			}
			began = time.Now()
			_, err = c.Exec(limited, "INSERT INTO traffic VALUES ($1, $2)", name, n)
			return err
		}()
		if err == nil {
			w.mu.Lock()
			w.rows = append(w.rows, answered{name, n, began, time.Now()})
			w.mu.Unlock()
			continue
		}
		select {
		case <-ctx.Done():
		case <-time.After(2 * time.Millisecond):
		}
	}
	if c != nil {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = c.Close(closing) // the test is over
	}
}

func (w *traffic) stop() {
	w.cancel()
	w.all.Wait()
}

func (w *traffic) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.rows)
}

// more waits until n more rows were answered.
func (w *traffic) more(n int) {
	w.b.t.Helper()
	from := w.count()
	eventually(w.b.t, time.Minute, fmt.Sprintf("%d more rows", n), func() error {
		if got := w.count() - from; got < n {
			return fmt.Errorf("%d rows", got)
		}
		return nil
	})
}

// pause returns the longest time without an answer that includes or follows since.
func (w *traffic) pause(since time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	var ends []time.Time
	for _, r := range w.rows {
		ends = append(ends, r.end)
	}
	slices.SortFunc(ends, time.Time.Compare)
	var longest time.Duration
	for i := 1; i < len(ends); i++ {
		if ends[i].After(since) {
			longest = max(longest, ends[i].Sub(ends[i-1]))
		}
	}
	return longest
}

// check verifies that each answered row is in all these instances, and that there were never two
// writers: then the writers would have alternated more often than there were switches.
func (w *traffic) check(switches int, names ...string) {
	t := w.b.t
	t.Helper()
	w.stop()
	if len(w.rows) == 0 {
		t.Fatal("no row was answered")
	}
	for _, name := range names {
		w.lost(name)
	}
	// Sorted by begin: an answer may be late, if the writer was frozen after the commit.
	rows := slices.SortedFunc(slices.Values(w.rows), func(a, b answered) int { return a.began.Compare(b.began) })
	var turns []string
	for i, r := range rows {
		if i == 0 || r.by != rows[i-1].by {
			turns = append(turns, fmt.Sprintf("%s from %s", r.by, r.began.Format(time.StampMicro)))
		}
	}
	if len(turns) > switches+1 {
		t.Errorf("%d switches were made, and the writes were taken by %v: two took writes at once", switches, turns)
	}
}

func (w *traffic) lost(name string) {
	t := w.b.t
	t.Helper()
	var have map[answered]bool
	eventually(t, 30*time.Second, "all answered rows on "+name, func() error {
		c, err := w.b.connect(name)
		if err != nil {
			return err
		}
		defer c.Close(t.Context())
		rows, err := c.Query(t.Context(), "SELECT by, n FROM traffic")
		if err != nil {
			return err
		}
		have = map[answered]bool{}
		var r answered
		if _, err := pgx.ForEachRow(rows, []any{&r.by, &r.n}, func() error { have[r] = true; return nil }); err != nil {
			return err
		}
		var missing []answered
		for _, r := range w.rows {
			if !have[answered{by: r.by, n: r.n}] {
				missing = append(missing, r)
			}
		}
		if len(missing) > 0 {
			first := slices.MinFunc(missing, func(a, b answered) int { return cmp.Compare(a.end.UnixNano(), b.end.UnixNano()) })
			return fmt.Errorf("%d of %d answered rows are lost, the first is %d of %s, answered at %s", len(missing), len(w.rows), first.n, first.by, first.end.Format(time.StampMicro))
		}
		return nil
	})
}
