package service

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/cluster"
)

// group is a provider with a number of healthy clusters of ten VMs. It computes
// its VMs on each call and counts calls.
type group struct {
	cluster.Provider
	clusters, size int
	lists, gets    atomic.Int64
	stopped        func(c, vm int) bool // stopped on the list
	foreign        int                  // foreign VMs; the first is in the network of a cluster
}

func (h *group) Capabilities() cluster.Capabilities {
	return cluster.Capabilities{Kinds: []cluster.Kind{cluster.VM}, Tags: true}
}

func (h *group) vm(i int) cluster.Resource {
	c := h.cluster(i / h.size)
	r := cluster.Resource{Kind: cluster.VM, ID: vmID(i), Name: cluster.NodeName(&c, cluster.Worker, i%h.size+1), Zone: "z", Identity: "i" + vmID(i), Power: cluster.PoweredOn, State: "Running",
		Tags: map[string]string{cluster.TagInstallation: "inst", cluster.TagCluster: c.UUID, cluster.TagKey: vmID(i)}}
	if h.stopped != nil && h.stopped(i/h.size, i%h.size) {
		r.Power, r.State = cluster.PoweredOff, "Stopped"
	}
	return r
}

func vmID(i int) string { return fmt.Sprintf("vm-%08d", i) }

func (h *group) cluster(i int) cluster.Cluster {
	return cluster.Cluster{UUID: fmt.Sprintf("%08x-0000-4000-8000-000000000000", i+1), Name: fmt.Sprint("c", i), Provider: "herd", Zone: cluster.Entity{ID: "z"}, Network: cluster.Entity{ID: fmt.Sprint("net-", i)},
		State: cluster.Running, Desired: cluster.WantRunning, NodeCount: h.size, Started: true, GC: true, Created: time.Unix(1, 0), StateSince: time.Unix(1, 0)}
}

func (h *group) List(_ context.Context, f cluster.Filter, at cluster.Cursor) (cluster.Page, error) {
	h.lists.Add(1)
	first, size := 0, 500
	_, _ = fmt.Sscan(string(at), &first)
	var page cluster.Page
	end := h.clusters * h.size
	if f.Foreign {
		end += h.foreign
	}
	for i := first; i < min(first+size, end); i++ {
		if i < h.clusters*h.size {
			page.Items = append(page.Items, h.vm(i))
			continue
		}
		page.Items = append(page.Items, cluster.Resource{Kind: cluster.VM, ID: fmt.Sprint("other-", i), Zone: "z", Power: cluster.PoweredOn, Spec: cluster.Spec{Network: map[bool]string{true: "net-0"}[i == h.clusters*h.size]}})
	}
	if first+size < end {
		page.Next = cluster.Cursor(fmt.Sprint(first + size))
	}
	return page, nil
}

func (h *group) Get(_ context.Context, ref cluster.Ref) (cluster.Resource, error) {
	h.gets.Add(1)
	var i int
	_, err := fmt.Sscanf(ref.ID, "vm-%d", &i)
	return h.vm(i), err
}

// scanned is a Store that computes its records on each read and counts writes.
type scanned struct {
	cluster.Store
	h      *group
	writes atomic.Int64
}

func (s *scanned) Scan(_ context.Context, _ cluster.ScanQuery, visit func(*cluster.Record) error) error {
	for i := range s.h.clusters {
		b := &cluster.Record{Cluster: s.h.cluster(i)}
		for n := range s.h.size {
			r := s.h.vm(i*s.h.size + n)
			b.Nodes = append(b.Nodes, cluster.Node{Name: r.Name, Key: r.ID, VMID: r.ID, Role: cluster.Worker, Ordinal: n + 1})
			b.Journal = append(b.Journal, cluster.JournalRow{Kind: cluster.VM, Key: r.ID, Name: r.Name, ProviderID: r.ID, Identity: r.Identity, Phase: cluster.Present, Origin: cluster.OriginCreated})
		}
		if err := visit(b); err != nil {
			return err
		}
	}
	return nil
}

func (s *scanned) Commit(context.Context, *cluster.Change) error { s.writes.Add(1); return nil }

func groupService(tb testing.TB, clusters int) (*Service, *group, *scanned) {
	h := &group{clusters: clusters, size: 10}
	records := &scanned{Store: cluster.NewMemory(), h: h}
	s, err := New(Options{Records: records, Providers: []NamedProvider{{Name: "herd", Provider: h}}, Installation: "inst", Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		tb.Fatal(err)
	}
	return s, h, records
}

// A pass makes one call for each page and one for each suspect, and writes only
// changed clusters.
func TestCallsOfAPass(t *testing.T) {
	s, h, records := groupService(t, 1000)
	if err := s.syncPass(t.Context(), "herd"); err != nil {
		t.Fatal(err)
	}
	if h.lists.Load() != 20 || h.gets.Load() != 0 || records.writes.Load() != 0 {
		t.Errorf("all is well: %d lists, %d gets, %d writes", h.lists.Load(), h.gets.Load(), records.writes.Load())
	}
	h.stopped = func(c, vm int) bool { return c%100 == 7 && vm < 3 }
	if err := s.syncPass(t.Context(), "herd"); err != nil {
		t.Fatal(err)
	}
	if h.lists.Load() != 40 || h.gets.Load() != 30 || records.writes.Load() != 10 {
		t.Errorf("30 suspicions in 10 clusters: %d lists, %d gets, %d writes", h.lists.Load()-20, h.gets.Load(), records.writes.Load())
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
		if err := s.syncPass(b.Context(), "herd"); err != nil {
			b.Fatal(err)
		}
		close(done)
		<-watched
	}
	b.ReportMetric(float64(most)/(1<<20), "MiB")
	b.ReportMetric(float64(h.lists.Load()+h.gets.Load())/float64(b.N), "calls/op")
}
