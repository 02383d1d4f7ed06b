package sync

import (
	"io"
	"log/slog"
	"runtime"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/cluster/clustertest"
	"github.com/pawl-dev/pawl/cluster/notices"
	"github.com/pawl-dev/pawl/cluster/providers"
	"github.com/pawl-dev/pawl/cluster/settings"
)

type silence struct{}

func (silence) ProviderCall(string, string, string, time.Duration) {}
func (silence) SyncPass(string, time.Duration, int)                {}

func groupService(tb testing.TB, clusters int) (*Synchronizer, *clustertest.Group, *clustertest.GroupStore) {
	h := &clustertest.Group{Clusters: clusters, Size: 10}
	records := clustertest.NewGroupStore(h)
	set, err := providers.New([]providers.Named{{Name: "herd", Provider: h}}, 100, time.Minute, silence{})
	if err != nil {
		tb.Fatal(err)
	}
	logger := slog.New(slog.NewTextHandler(io.Discard, nil))
	s := New(Options{
		Store: records, Providers: set, Notices: notices.New(notices.Options{Store: records, Logger: logger, Now: time.Now}), Notify: func(string) {},
		Installation: "inst", Settings: settings.Settings{}.OrDefault(), Metrics: silence{}, Logger: logger, Now: func() time.Time { return time.Now().UTC() },
	})
	return s, h, records
}

// A pass makes one call for each page and one for each suspect, and writes only
// changed clusters.
func TestCallsOfAPass(t *testing.T) {
	s, h, records := groupService(t, 1000)
	if err := s.pass(t.Context(), "herd"); err != nil {
		t.Fatal(err)
	}
	if h.Lists.Load() != 20 || h.Gets.Load() != 0 || records.Writes.Load() != 0 {
		t.Errorf("all is well: %d lists, %d gets, %d writes", h.Lists.Load(), h.Gets.Load(), records.Writes.Load())
	}
	h.Stopped = func(c, vm int) bool { return c%100 == 7 && vm < 3 }
	if err := s.pass(t.Context(), "herd"); err != nil {
		t.Fatal(err)
	}
	if h.Lists.Load() != 40 || h.Gets.Load() != 30 || records.Writes.Load() != 10 {
		t.Errorf("30 suspicions in 10 clusters: %d lists, %d gets, %d writes", h.Lists.Load()-20, h.Gets.Load(), records.Writes.Load())
	}
}

// 10,000 clusters of ten VMs: less than 10 s and 500 MiB.
func BenchmarkSyncPass(b *testing.B) {
	s, h, _ := groupService(b, 10_000)
	var most uint64
	for b.Loop() {
		done, watched := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(watched)
			for {
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				most = max(most, m.HeapInuse)
				select {
				case <-done:
					return
				case <-time.After(20 * time.Millisecond):
				}
			}
		}()
		if err := s.pass(b.Context(), "herd"); err != nil {
			b.Fatal(err)
		}
		close(done)
		<-watched
	}
	b.ReportMetric(float64(most)/(1<<20), "MiB")
	b.ReportMetric(float64(h.Lists.Load()+h.Gets.Load())/float64(b.N), "calls/op")
}
