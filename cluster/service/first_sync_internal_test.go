package service

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/clustertest"
	"github.com/pawl-dev/pawl/cluster/providers"
	"github.com/pawl-dev/pawl/cluster/settings"
	"github.com/pawl-dev/pawl/lock"
)

// watched records when lists are read. Lists of the synchronization name a zone,
// those of the collector do not. Each page takes 3 s.
type watched struct {
	*clustertest.Group
	mu              sync.Mutex
	synced, collect []time.Duration // since the beginning
	began           time.Time
}

func (w *watched) List(ctx context.Context, f cluster.Filter, at cluster.Cursor) (cluster.Page, error) {
	w.mu.Lock()
	if since := time.Since(w.began); f.Zone != "" {
		w.synced = append(w.synced, since)
	} else {
		w.collect = append(w.collect, since)
	}
	w.mu.Unlock()
	time.Sleep(3 * time.Second)
	return w.Group.List(ctx, f, at)
}

// The collector begins after the first pass of the synchronization, so that both
// do not hold the lists of a large cloud in memory at once. If another process
// synchronizes, the collector waits for half of its interval.
func TestCollectorBeginsAfterSync(t *testing.T) {
	for name, c := range map[string]struct {
		elsewhere bool
		first     time.Duration // Settings.CollectFirst
		want      time.Duration
	}{
		"behind the first pass":          {false, 0, 6 * time.Second}, // two pages
		"another process synchronizes":   {true, 0, 150 * time.Second},
		"no longer than CollectFirst":    {true, 20 * time.Second, 20 * time.Second},
		"a pass that takes its time too": {false, time.Second, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := &clustertest.Group{Clusters: 100, Size: 10}
				w := &watched{Group: h, began: time.Now()}
				locks := &lock.Memory{}
				s, err := New(Options{Records: clustertest.NewGroupStore(h), Providers: []providers.Named{{Name: "herd", Provider: w}}, Installation: "inst", Locks: locks,
					Settings: settings.Settings{CollectFirst: c.first}, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
				if err != nil {
					t.Fatal(err)
				}
				if c.elsewhere {
					other := lock.Locker{Backend: locks, Owner: "another", Duration: time.Hour}
					if v, err := other.Take(t.Context(), "cluster/sync/herd"); err != nil || !v.Granted {
						t.Fatal(v, err)
					}
				}
				ctx, end := context.WithCancel(t.Context())
				var all sync.WaitGroup
				all.Go(func() { _ = s.sync.Run(ctx) })
				all.Go(func() { _ = s.collector.Run(ctx) })
				time.Sleep(4 * time.Minute)
				end()
				all.Wait()
				if len(w.collect) == 0 || w.collect[0] != c.want {
					t.Errorf("the collector has asked at %v, want %s first", w.collect, c.want)
				}
				if (len(w.synced) == 0) != c.elsewhere {
					t.Errorf("the synchronization has asked %d times", len(w.synced))
				}
			})
		})
	}
}
