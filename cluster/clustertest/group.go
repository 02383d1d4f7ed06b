package clustertest

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/memory"
)

// Group is a provider with a number of healthy clusters of ten VMs. It computes
// its VMs on each call and counts calls.
type Group struct {
	cluster.Provider
	Clusters, Size int
	Lists, Gets    atomic.Int64
	Stopped        func(c, vm int) bool // stopped on the list
	Foreign        int                  // foreign VMs; the first is in the network of a cluster
}

// Capabilities implements cluster.Provider.
func (h *Group) Capabilities() cluster.Capabilities {
	return cluster.Capabilities{Kinds: []cluster.Kind{cluster.VM}, Tags: true}
}

func (h *Group) vm(i int) cluster.Resource {
	c := h.cluster(i / h.Size)
	r := cluster.Resource{Kind: cluster.VM, ID: vmID(i), Name: cluster.NodeName(&c, cluster.Worker, i%h.Size+1), Zone: "z", Identity: "i" + vmID(i), Power: cluster.PoweredOn, State: "Running",
		Tags: map[string]string{cluster.TagInstallation: "inst", cluster.TagCluster: c.UUID, cluster.TagKey: vmID(i)}}
	if h.Stopped != nil && h.Stopped(i/h.Size, i%h.Size) {
		r.Power, r.State = cluster.PoweredOff, "Stopped"
	}
	return r
}

// NewGroupStore returns a store of the clusters of a group.
func NewGroupStore(h *Group) *GroupStore { return &GroupStore{Store: memory.New(), h: h} }

func vmID(i int) string { return fmt.Sprintf("vm-%08d", i) }

func (h *Group) cluster(i int) cluster.Cluster {
	return cluster.Cluster{UUID: fmt.Sprintf("%08x-0000-4000-8000-000000000000", i+1), Name: fmt.Sprint("c", i), Provider: "herd", Zone: cluster.Entity{ID: "z"}, Network: cluster.Entity{ID: fmt.Sprint("net-", i)},
		State: cluster.Running, Desired: cluster.WantRunning, NodeCount: h.Size, Started: true, GC: true, Created: time.Unix(1, 0), StateSince: time.Unix(1, 0)}
}

// List implements cluster.Provider.
func (h *Group) List(_ context.Context, f cluster.Filter, at cluster.Cursor) (cluster.Page, error) {
	h.Lists.Add(1)
	first, size := 0, 500
	_, _ = fmt.Sscan(string(at), &first)
	var page cluster.Page
	end := h.Clusters * h.Size
	if f.Foreign {
		end += h.Foreign
	}
	for i := first; i < min(first+size, end); i++ {
		if i < h.Clusters*h.Size {
			page.Items = append(page.Items, h.vm(i))
			continue
		}
		page.Items = append(page.Items, cluster.Resource{Kind: cluster.VM, ID: fmt.Sprint("other-", i), Zone: "z", Power: cluster.PoweredOn, Spec: cluster.Spec{Network: map[bool]string{true: "net-0"}[i == h.Clusters*h.Size]}})
	}
	if first+size < end {
		page.Next = cluster.Cursor(fmt.Sprint(first + size))
	}
	return page, nil
}

// Get implements cluster.Provider.
func (h *Group) Get(_ context.Context, ref cluster.Ref) (cluster.Resource, error) {
	h.Gets.Add(1)
	var i int
	_, err := fmt.Sscanf(ref.ID, "vm-%d", &i)
	return h.vm(i), err
}

// GroupStore is a Store that computes its records on each read and counts writes.
type GroupStore struct {
	cluster.Store
	h      *Group
	Writes atomic.Int64
}

// Scan implements cluster.Store.
func (s *GroupStore) Scan(_ context.Context, _ cluster.ScanQuery, visit func(*cluster.Record) error) error {
	for i := range s.h.Clusters {
		b := &cluster.Record{Cluster: s.h.cluster(i)}
		for n := range s.h.Size {
			r := s.h.vm(i*s.h.Size + n)
			b.Nodes = append(b.Nodes, cluster.Node{Name: r.Name, Key: r.ID, VMID: r.ID, Role: cluster.Worker, Ordinal: n + 1})
			b.Journal = append(b.Journal, cluster.JournalRow{Kind: cluster.VM, Key: r.ID, Name: r.Name, ProviderID: r.ID, Identity: r.Identity, Phase: cluster.Present, Origin: cluster.OriginCreated})
		}
		if err := visit(b); err != nil {
			return err
		}
	}
	return nil
}

// Commit implements cluster.Store.
func (s *GroupStore) Commit(context.Context, *cluster.Change) error { s.Writes.Add(1); return nil }
