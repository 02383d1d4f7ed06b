// Package servicetest has the environments for tests that need a whole service: a World
// with one process, and a Lab whose processes are killed. Their cloud is simulated.
package servicetest

import (
	"context"
	"fmt"
	"log/slog"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/memory"
	"github.com/pawl-dev/pawl/cluster/providers"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"

	"github.com/pawl-dev/pawl/cluster/service"
	"github.com/pawl-dev/pawl/cluster/settings"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/provider/sim"
	"github.com/pawl-dev/pawl/workflow"
)

// Installation is the id of the installation under test.
const Installation = "test"

// Pausing is the actor who pauses runs.
var Pausing = workflow.Actor{Name: "somebody", Reason: "lunch"}

// Me owns the clusters of a test.
var Me = cluster.Owner{AccountID: "a1", DomainID: "d1"}

// All is the scope of an operator.
var All = cluster.Scope{All: true}

// Counted is a Store that counts reads and writes. before may fail the nth write.
type Counted struct {
	*memory.Store
	mu      sync.Mutex
	commits int
	reads   int // of records: single reads and scans
	before  func(n int, c *cluster.Change) error
}

// Record implements cluster.Records.
func (b *Counted) Record(ctx context.Context, uuid string) (*cluster.Record, error) {
	b.read()
	return b.Store.Record(ctx, uuid)
}

// Scan implements cluster.Store.
func (b *Counted) Scan(ctx context.Context, q cluster.ScanQuery, visit func(*cluster.Record) error) error {
	b.read()
	return b.Store.Scan(ctx, q, visit)
}

func (b *Counted) read() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reads++
}

// ReadCount returns the number of reads of records.
func (b *Counted) ReadCount() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.reads
}

// Commit implements cluster.Records.
func (b *Counted) Commit(ctx context.Context, c *cluster.Change) error {
	b.mu.Lock()
	b.commits++
	n, before := b.commits, b.before
	b.mu.Unlock()
	if before != nil {
		if err := before(n, c); err != nil {
			return err
		}
	}
	return b.Store.Commit(ctx, c)
}

// Count returns the number of commits.
func (b *Counted) Count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.commits
}

// saves is a workflow store that counts reads and writes.
type saves struct {
	*runstore.Memory
	mu    sync.Mutex
	n     int
	reads int // of runs: single reads and lists
}

func (s *saves) Load(ctx context.Context, id string) (*runtype.Run, []runtype.Signal, error) {
	s.read()
	return s.Memory.Load(ctx, id)
}

func (s *saves) List(ctx context.Context, q runstore.Query) ([]*runtype.Run, string, error) {
	s.read()
	return s.Memory.List(ctx, q)
}

func (s *saves) read() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
}

func (s *saves) ReadCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reads
}

func (s *saves) Save(ctx context.Context, w *runstore.Save) error {
	s.mu.Lock()
	s.n++
	s.mu.Unlock()
	return s.Memory.Save(ctx, w)
}

func (s *saves) SaveCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n
}

// World is a test environment with one process: a service with its engine and a
// simulated cloud in a synctest bubble. lab is for tests with several processes or
// with deaths.
type World struct {
	T          *testing.T
	Records    *Counted
	Runs       *saves
	Cloud      *sim.Cloud
	Acquires   bool // clusters acquire an address, because new networks have none
	Service    *service.Service
	Engine     *workflow.Engine
	Options    service.Options
	Stop       func() // ends this process
	closeCloud func() // ends the cloud
	events     []cluster.Event
	Mu         sync.Mutex
}

// Setup configures a world or a lab.
type Setup struct {
	Sim      sim.Options
	Settings settings.Settings
	Silent   bool // nodes send no heartbeats
}

// cloud starts a cloud whose nodes send heartbeats with heartbeat. end stops it.
func (s Setup) cloud(t *testing.T, heartbeat func(context.Context, string, cluster.Heartbeat) (cluster.HeartbeatAnswer, error)) (cloud *sim.Cloud, end func()) {
	t.Helper()
	if s.Sim.Installation = Installation; !s.Silent {
		s.Sim.Home = heartbeat
	}
	cloud, err := sim.New(s.Sim)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() { _ = cloud.Serve(ctx) })
	return cloud, func() {
		stop()
		serving.Wait()
		_ = cloud.Close()
	}
}

// options returns the options of a service on a cloud, without records, locks and
// provider.
func (s Setup) options(cloud *sim.Cloud) service.Options {
	o := service.Options{Installation: Installation, HomeURL: "https://home.example", Settings: s.Settings, Logger: slog.New(slog.DiscardHandler)}
	if !s.Silent {
		o.Probe = func(ctx context.Context, c *cluster.Cluster, _ *cluster.Details) error {
			return cloud.Probe(ctx, c.Endpoint)
		}
	}
	return o
}

// InWorld runs a test with a running service on two clouds: networks of the first
// have a source NAT from the beginning, networks of the second use their first
// address as source NAT.
func InWorld(t *testing.T, s Setup, test func(t *testing.T, w *World)) {
	t.Helper()
	inBubble(t, s, test)
	if s.Sim.LateSourceNAT || t.Failed() {
		return
	}
	s.Sim.LateSourceNAT = true
	t.Run("late source NAT", func(t *testing.T) { inBubble(t, s, test) })
}

func inBubble(t *testing.T, s Setup, test func(t *testing.T, w *World)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &World{T: t, Records: &Counted{Store: memory.New()}, Runs: &saves{Memory: runstore.NewMemory()}, Acquires: s.Sim.LateSourceNAT}
		w.Cloud, w.closeCloud = s.cloud(t, func(ctx context.Context, token string, h cluster.Heartbeat) (cluster.HeartbeatAnswer, error) {
			w.Mu.Lock()
			to := w.Service
			w.Mu.Unlock()
			return to.Heartbeat(ctx, token, h)
		})
		w.Options = s.options(w.Cloud)
		w.Options.Providers = []providers.Named{{Name: "sim", Provider: w.Cloud.As(Installation)}}
		w.Options.OnEvent = func(e cluster.Event) { w.Mu.Lock(); defer w.Mu.Unlock(); w.events = append(w.events, e) }
		w.Begin()
		defer w.end()
		test(t, w)
	})
}

// Begin starts the process: the service and its engine.
func (w *World) Begin() {
	options := w.Options
	w.Mu.Lock()
	options.Records = w.Records
	w.Mu.Unlock()
	s, err := service.New(options)
	if err != nil {
		w.T.Fatal(err)
	}
	engine, err := workflow.New(w.Runs, s.Flows(), workflow.Options{Hooks: []workflow.Hook{s.Hook()}, Logger: w.Options.Logger})
	if err != nil {
		w.T.Fatal(err)
	}
	if err := s.Bind(engine); err != nil {
		w.T.Fatal(err)
	}
	w.Mu.Lock()
	w.Service, w.Engine = s, engine
	w.Mu.Unlock()
	ctx, end := context.WithCancel(w.T.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = engine.Serve(ctx) })
	wg.Go(func() { _ = s.Serve(ctx) })
	w.Stop = func() { end(); wg.Wait() }
}

func (w *World) end() {
	w.Stop()
	w.closeCloud()
}

// notify queues a cluster, as a run that has ended does.
func (w *World) notify(uuid string) {
	w.Service.Hook().OnEvent(workflow.RunInfo{Subject: cluster.Subject(uuid)}, runtype.Event{Kind: runtype.RunSucceeded})
}

// Create stores a cluster as Service.Create does.
func (w *World) Create(name string, workers int, edit ...func(*cluster.Cluster)) string {
	c := &cluster.Cluster{
		UUID: "8f3b2c10-" + name, Name: name, Owner: Me, Provider: "sim", Zone: cluster.Entity{ID: "zone-1"}, Offering: cluster.Entity{ID: "small"},
		Template: cluster.Entity{ID: "node-image"}, Desired: cluster.WantRunning, NodeCount: workers, ControlCount: 1,
		State: cluster.Created, Created: time.Now(), StateSince: time.Now(), GC: true, OnFailure: cluster.Rollback,
	}
	for _, e := range edit {
		e(c)
	}
	c.Request = &cluster.Request{Kind: cluster.RequestStart, Job: "create-" + name}
	job := &cluster.Job{ID: "create-" + name, Kind: "create", Owner: Me, Created: time.Now()}
	d := &cluster.Details{Username: "admin", Password: "geheim", NetworkCleanup: c.Network.ID == ""}
	if err := w.Records.Commit(w.T.Context(), &cluster.Change{Cluster: c, Jobs: []*cluster.Job{job}, Details: d}); err != nil {
		w.T.Fatal(err)
	}
	w.notify(c.UUID)
	return c.UUID
}

// Ask stores a request as Service.Change does, and returns the id of its job.
func (w *World) Ask(uuid string, kind cluster.RequestKind, edit func(c *cluster.Cluster, a *cluster.Request)) string {
	w.T.Helper()
	for {
		record := w.Record(uuid)
		c := &record.Cluster
		id := fmt.Sprintf("%s-%d", kind, c.Revision)
		a := &cluster.Request{Kind: kind, Job: id, PreviousCount: c.NodeCount}
		switch kind {
		case cluster.RequestStop:
			c.Desired = cluster.WantStopped
		case cluster.RequestDelete:
			c.Desired = cluster.WantDestroyed
		default:
			c.Desired = cluster.WantRunning
		}
		if edit != nil {
			edit(c, a)
		}
		c.Request = a
		job := &cluster.Job{ID: id, Kind: string(kind), Owner: Me, Created: time.Now()}
		if w.Records.Commit(w.T.Context(), &cluster.Change{Cluster: c, Jobs: []*cluster.Job{job}}) == nil {
			w.notify(uuid)
			return id
		}
	}
}

// Record reads the record of a cluster.
func (w *World) Record(uuid string) *cluster.Record {
	w.T.Helper()
	b, err := w.Records.Record(context.WithoutCancel(w.T.Context()), uuid)
	if err != nil {
		w.T.Fatal(err)
	}
	return b
}

// Cluster reads a cluster.
func (w *World) Cluster(uuid string) *cluster.Cluster { return &w.Record(uuid).Cluster }

// Job reads a job.
func (w *World) Job(id string) *cluster.Job {
	w.T.Helper()
	j, err := w.Records.Job(w.T.Context(), id)
	if err != nil {
		w.T.Fatal(err)
	}
	return j
}

// Until waits for one of these states.
func (w *World) Until(uuid string, limit time.Duration, states ...machine.State) *cluster.Cluster {
	w.T.Helper()
	end := time.Now().Add(limit)
	for {
		synctest.Wait()
		c := w.Cluster(uuid)
		if slices.Contains(states, c.State) && c.Position.Ending == nil {
			return c
		}
		if time.Now().After(end) {
			w.T.Fatalf("after %s the cluster is %s, want %v\n%s", limit, c.State, states, w.Story(uuid))
		}
		time.Sleep(time.Second)
	}
}

// Story describes a cluster for a failed test.
func (w *World) Story(uuid string) string {
	return story(w.Records.Store, w.Runs.Memory, w.Cloud, uuid)
}

// VMs returns the VMs of the cloud by name.
func (w *World) VMs() map[string]cluster.Resource {
	found := map[string]cluster.Resource{}
	for _, r := range w.Cloud.All(cluster.VM) {
		found[r.Name] = r
	}
	return found
}

// CheckJournal checks that the journal and the cloud agree.
func (w *World) CheckJournal(uuid string) {
	w.T.Helper()
	record := w.Record(uuid)
	known := map[string]bool{}
	for _, r := range record.Journal {
		if r.Phase.Open() && r.ProviderID != "" {
			known[r.ProviderID] = true
		}
	}
	names := map[string]bool{}
	for _, r := range w.Cloud.All() {
		if r.Tags[cluster.TagCluster] != uuid {
			continue
		}
		if !known[r.ID] {
			w.T.Errorf("%s %s (%s) has no open row\n%s", r.Kind, r.Name, r.ID, w.Story(uuid))
		}
		if names[string(r.Kind)+r.Name] {
			w.T.Errorf("two resources are named %s", r.Name)
		}
		names[string(r.Kind)+r.Name] = true
	}
}

// theirs reports an address that was acquired in a given network and became its
// source NAT. It stays as long as the network.
func theirs(cloud *sim.Cloud, r cluster.Resource) bool {
	network, there := cloud.Lookup(cluster.Network, r.Spec.Network)
	return r.SourceNAT && there && network.Tags[cluster.TagInstallation] != Installation
}

// CheckEmpty checks that no resource of the installation is left in the cloud.
func (w *World) CheckEmpty() {
	w.T.Helper()
	for _, r := range w.Cloud.All() {
		if r.Tags[cluster.TagInstallation] == Installation && !theirs(w.Cloud, r) {
			w.T.Errorf("%s %s is left", r.Kind, r.Name)
		}
	}
}

// Path returns the states of a cluster in order, from its history.
func (w *World) Path(uuid string) string {
	events, err := w.Records.Events(w.T.Context(), cluster.EventQuery{Scope: All, Cluster: uuid, Types: []string{"cluster"}})
	if err != nil {
		w.T.Fatal(err)
	}
	var states []string
	for _, e := range events {
		states = append(states, e.State)
	}
	return strings.Join(states, " ")
}

// Calls counts calls that the cloud has received.
func (w *World) Calls(call, pattern string) int {
	n := 0
	for _, e := range w.Cloud.Calls() {
		if ok, _ := path.Match(pattern, e.Name); ok && string(e.Call) == call {
			n++
		}
	}
	return n
}

// Alerts returns the alerts of providers.
func (w *World) Alerts() map[string]string {
	w.T.Helper()
	found, err := w.Service.ProviderAlerts(w.T.Context())
	if err != nil {
		w.T.Fatal(err)
	}
	return found
}
