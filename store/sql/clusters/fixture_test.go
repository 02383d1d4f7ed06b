package clusters_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/providers"
	"github.com/pawl-dev/pawl/cluster/service"
	"github.com/pawl-dev/pawl/cluster/settings"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/lock"
	"github.com/pawl-dev/pawl/provider/sim"
	"github.com/pawl-dev/pawl/workflow/runstore"

	"github.com/pawl-dev/pawl/store/sql"
	"github.com/pawl-dev/pawl/workflow"
)

// fixture is a server of container clusters on a real database and a simulated cloud,
// with times short enough for real clocks.
type fixture struct {
	service *service.Service
	stop    func()
}

const testInstallation = "shop"

var (
	testOwner  = cluster.Owner{AccountID: "a1", DomainID: "d1"}
	testCaller = cluster.Caller{User: "somebody", Owner: testOwner, Scope: cluster.Scope{All: true}, Operator: true}
)

func cloudOptions() sim.Options {
	return sim.Options{
		Installation: testInstallation, HeartbeatInterval: 100 * time.Millisecond, Visible: 20 * time.Millisecond,
		Times: sim.Times{Create: 60 * time.Millisecond, Destroy: 40 * time.Millisecond, Start: 40 * time.Millisecond, Stop: 40 * time.Millisecond, Network: 20 * time.Millisecond, Rule: 10 * time.Millisecond, Boot: 30 * time.Millisecond},
	}
}

type fixtureOptions struct {
	name     string
	records  cluster.Store
	runs     runstore.Store
	locks    lock.Backend
	provider cluster.Provider
	now      func() time.Time
}

func newFixture(o fixtureOptions) (*fixture, error) {
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	s, err := service.New(service.Options{
		Records: o.records, Providers: []providers.Named{{Name: "sim", Provider: o.provider}}, Locks: o.locks, Worker: o.name, Installation: testInstallation,
		HomeURL: "https://home.example", Logger: quiet, Now: o.now,
		Settings: settings.Settings{
			SyncEvery: 500 * time.Millisecond, CollectEvery: time.Second, GCFirst: time.Second, GCLongest: 2 * time.Second, OrphanGrace: 5 * time.Second,
			Settle: 3 * time.Second, CallTimeout: time.Second, PollFirst: 20 * time.Millisecond, PollLongest: 200 * time.Millisecond, ResyncEvery: 100 * time.Millisecond,
		},
	})
	if err != nil {
		return nil, err
	}
	engine, err := workflow.New(o.runs, s.Flows(), workflow.Options{Worker: o.name, Lease: 600 * time.Millisecond, PollInterval: 200 * time.Millisecond, Drain: 10 * time.Millisecond, Hooks: []workflow.Hook{s.Hook()}, Logger: quiet})
	if err != nil {
		return nil, err
	}
	if err := s.Bind(engine); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var served sync.WaitGroup
	served.Go(func() { _ = engine.Serve(ctx) })
	served.Go(func() { _ = s.Serve(ctx) })
	return &fixture{s, func() { cancel(); served.Wait() }}, nil
}

// waitForJob sends a request, again under the same id until it is accepted, and waits
// for the end of its job.
func waitForJob(ctx context.Context, records cluster.Store, id string, ask func() error) (*cluster.Job, error) {
	var err error
	for requested := false; ctx.Err() == nil; {
		job, jobErr := records.Job(ctx, id)
		switch {
		case jobErr == nil && job.Status != cluster.JobOpen:
			return job, nil
		case !requested:
			if err = ask(); err == nil {
				requested = true
			} else if kind := fault.Of(err); kind.Class == fault.Invalid && kind != cluster.JobReused {
				return nil, err
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil, fmt.Errorf("order %s: %w; last %w", id, context.Cause(ctx), errors.Join(err))
}

// checkRecorded checks that every resource of ours in the cloud is recorded.
func checkRecorded(t *testing.T, records cluster.Store, cloud *sim.Cloud) {
	t.Helper()
	names := map[string]bool{}
	for _, r := range cloud.All() {
		uuid := r.Tags[cluster.TagCluster]
		if uuid == "" {
			continue
		}
		b, err := records.Record(t.Context(), uuid)
		if err != nil || !b.Contains(r) {
			t.Errorf("%s %s is not recorded (%v)", r.Kind, r.Name, err)
		}
		if name := string(r.Kind) + " " + r.Name; names[name] {
			t.Errorf("two resources are named %s", name)
		} else {
			names[name] = true
		}
	}
}

// checkRunning checks a running cluster: it has as many VMs as nodes, and all of them
// are recorded.
func checkRunning(t *testing.T, records cluster.Store, cloud *sim.Cloud, uuid string, workers int) {
	t.Helper()
	b, err := records.Record(t.Context(), uuid)
	if err != nil {
		t.Fatal(err)
	}
	vms := cloud.All(cluster.VM)
	if b.Cluster.State != cluster.Running || len(b.Nodes) != workers+1 || len(vms) != workers+1 {
		t.Errorf("it is %s (%+v) with %d nodes and %d VMs, want %d", b.Cluster.State, b.Cluster.Reason, len(b.Nodes), len(vms), workers+1)
	}
	for _, n := range b.Nodes {
		if !slices.ContainsFunc(vms, func(r cluster.Resource) bool {
			return r.ID == n.VMID && r.Name == n.Name && r.Power == cluster.PoweredOn
		}) {
			t.Errorf("node %s has no running VM", n.Name)
		}
	}
	checkRecorded(t, records, cloud)
}

var _ sql.Store = (*sql.SQLite)(nil)
