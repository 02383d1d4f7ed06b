package service_test

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

	"go.uber.org/goleak"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/service"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/provider/sim"
	"github.com/pawl-dev/pawl/workflow"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const installation = "test"

var pausing = workflow.Actor{Name: "somebody", Reason: "lunch"}

var (
	me  = cluster.Owner{AccountID: "a1", DomainID: "d1"}
	all = cluster.Scope{All: true}
)

// counted is a Store that counts reads and writes. before may fail the nth write.
type counted struct {
	*cluster.Memory
	mu      sync.Mutex
	commits int
	reads   int // of records: single reads and scans
	before  func(n int, c *cluster.Change) error
}

func (b *counted) Record(ctx context.Context, uuid string) (*cluster.Record, error) {
	b.read()
	return b.Memory.Record(ctx, uuid)
}

func (b *counted) Scan(ctx context.Context, q cluster.ScanQuery, visit func(*cluster.Record) error) error {
	b.read()
	return b.Memory.Scan(ctx, q, visit)
}

func (b *counted) read() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reads++
}

func (b *counted) readCount() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.reads
}

func (b *counted) Commit(ctx context.Context, c *cluster.Change) error {
	b.mu.Lock()
	b.commits++
	n, before := b.commits, b.before
	b.mu.Unlock()
	if before != nil {
		if err := before(n, c); err != nil {
			return err
		}
	}
	return b.Memory.Commit(ctx, c)
}

func (b *counted) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.commits
}

// saves is a workflow store that counts reads and writes.
type saves struct {
	*workflow.Memory
	mu    sync.Mutex
	n     int
	reads int // of runs: single reads and lists
}

func (s *saves) Load(ctx context.Context, id string) (*workflow.Run, []workflow.Signal, error) {
	s.read()
	return s.Memory.Load(ctx, id)
}

func (s *saves) List(ctx context.Context, q workflow.Query) ([]*workflow.Run, string, error) {
	s.read()
	return s.Memory.List(ctx, q)
}

func (s *saves) read() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
}

func (s *saves) readCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reads
}

func (s *saves) Save(ctx context.Context, w *workflow.Save) error {
	s.mu.Lock()
	s.n++
	s.mu.Unlock()
	return s.Memory.Save(ctx, w)
}

func (s *saves) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n
}

// world is a test environment with one process: a service with its engine and a
// simulated cloud in a synctest bubble. lab is for tests with several processes or
// with deaths.
type world struct {
	t          *testing.T
	records    *counted
	runs       *saves
	cloud      *sim.Cloud
	acquires   bool // clusters acquire an address, because new networks have none
	service    *service.Service
	engine     *workflow.Engine
	options    service.Options
	stop       func() // ends this process
	closeCloud func() // ends the cloud
	events     []cluster.Event
	mu         sync.Mutex
}

// setup configures a world or a lab.
type setup struct {
	sim      sim.Options
	settings service.Settings
	silent   bool // nodes send no heartbeats
}

// cloud starts a cloud whose nodes send heartbeats with heartbeat. end stops it.
func (s setup) cloud(t *testing.T, heartbeat func(context.Context, string, cluster.Heartbeat) (cluster.HeartbeatAnswer, error)) (cloud *sim.Cloud, end func()) {
	t.Helper()
	if s.sim.Installation = installation; !s.silent {
		s.sim.Home = heartbeat
	}
	cloud, err := sim.New(s.sim)
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
func (s setup) options(cloud *sim.Cloud) service.Options {
	o := service.Options{Installation: installation, HomeURL: "https://home.example", Settings: s.settings, Logger: slog.New(slog.DiscardHandler)}
	if !s.silent {
		o.Probe = func(ctx context.Context, c *cluster.Cluster, _ *cluster.Details) error {
			return cloud.Probe(ctx, c.Endpoint)
		}
	}
	return o
}

// inWorld runs a test with a running service on two clouds: networks of the first
// have a source NAT from the beginning, networks of the second use their first
// address as source NAT.
func inWorld(t *testing.T, s setup, test func(t *testing.T, w *world)) {
	t.Helper()
	inBubble(t, s, test)
	if s.sim.LateSourceNAT || t.Failed() {
		return
	}
	s.sim.LateSourceNAT = true
	t.Run("late source NAT", func(t *testing.T) { inBubble(t, s, test) })
}

func inBubble(t *testing.T, s setup, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, records: &counted{Memory: cluster.NewMemory()}, runs: &saves{Memory: workflow.NewMemory()}, acquires: s.sim.LateSourceNAT}
		w.cloud, w.closeCloud = s.cloud(t, func(ctx context.Context, token string, h cluster.Heartbeat) (cluster.HeartbeatAnswer, error) {
			w.mu.Lock()
			to := w.service
			w.mu.Unlock()
			return to.Heartbeat(ctx, token, h)
		})
		w.options = s.options(w.cloud)
		w.options.Providers = []service.NamedProvider{{Name: "sim", Provider: w.cloud.As(installation)}}
		w.options.OnEvent = func(e cluster.Event) { w.mu.Lock(); defer w.mu.Unlock(); w.events = append(w.events, e) }
		w.begin()
		defer w.end()
		test(t, w)
	})
}

// begin starts the process: the service and its engine.
func (w *world) begin() {
	options := w.options
	w.mu.Lock()
	options.Records = w.records
	w.mu.Unlock()
	s, err := service.New(options)
	if err != nil {
		w.t.Fatal(err)
	}
	engine, err := workflow.New(w.runs, s.Flows(), workflow.Options{Hooks: []workflow.Hook{s.Hook()}, Logger: w.options.Logger})
	if err != nil {
		w.t.Fatal(err)
	}
	if err := s.Bind(engine); err != nil {
		w.t.Fatal(err)
	}
	w.mu.Lock()
	w.service, w.engine = s, engine
	w.mu.Unlock()
	ctx, end := context.WithCancel(w.t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = engine.Serve(ctx) })
	wg.Go(func() { _ = s.Serve(ctx) })
	w.stop = func() { end(); wg.Wait() }
}

func (w *world) end() {
	w.stop()
	w.closeCloud()
}

// create stores a cluster as Service.Create does.
func (w *world) create(name string, workers int, edit ...func(*cluster.Cluster)) string {
	c := &cluster.Cluster{
		UUID: "8f3b2c10-" + name, Name: name, Owner: me, Provider: "sim", Zone: cluster.Entity{ID: "zone-1"}, Offering: cluster.Entity{ID: "small"},
		Template: cluster.Entity{ID: "node-image"}, Desired: cluster.WantRunning, NodeCount: workers, ControlCount: 1,
		State: cluster.Created, Created: time.Now(), StateSince: time.Now(), GC: true, OnFailure: cluster.Rollback,
	}
	for _, e := range edit {
		e(c)
	}
	c.Request = &cluster.Request{Kind: cluster.RequestStart, Job: "create-" + name}
	job := &cluster.Job{ID: "create-" + name, Kind: "create", Owner: me, Created: time.Now()}
	d := &cluster.Details{Username: "admin", Password: "geheim", NetworkCleanup: c.Network.ID == ""}
	if err := w.records.Commit(w.t.Context(), &cluster.Change{Cluster: c, Jobs: []*cluster.Job{job}, Details: d}); err != nil {
		w.t.Fatal(err)
	}
	w.service.Notify(c.UUID)
	return c.UUID
}

// ask stores a request as Service.Change does, and returns the id of its job.
func (w *world) ask(uuid string, kind cluster.RequestKind, edit func(c *cluster.Cluster, a *cluster.Request)) string {
	w.t.Helper()
	for {
		record := w.record(uuid)
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
		job := &cluster.Job{ID: id, Kind: string(kind), Owner: me, Created: time.Now()}
		if w.records.Commit(w.t.Context(), &cluster.Change{Cluster: c, Jobs: []*cluster.Job{job}}) == nil {
			w.service.Notify(uuid)
			return id
		}
	}
}

func (w *world) record(uuid string) *cluster.Record {
	w.t.Helper()
	b, err := w.records.Record(context.WithoutCancel(w.t.Context()), uuid)
	if err != nil {
		w.t.Fatal(err)
	}
	return b
}

func (w *world) cluster(uuid string) *cluster.Cluster { return &w.record(uuid).Cluster }

func (w *world) job(id string) *cluster.Job {
	w.t.Helper()
	j, err := w.records.Job(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return j
}

// until waits for one of these states.
func (w *world) until(uuid string, limit time.Duration, states ...machine.State) *cluster.Cluster {
	w.t.Helper()
	end := time.Now().Add(limit)
	for {
		synctest.Wait()
		c := w.cluster(uuid)
		if slices.Contains(states, c.State) && c.Position.Ending == nil {
			return c
		}
		if time.Now().After(end) {
			w.t.Fatalf("after %s the cluster is %s, want %v\n%s", limit, c.State, states, w.story(uuid))
		}
		time.Sleep(time.Second)
	}
}

// story describes a cluster for a failed test.
func (w *world) story(uuid string) string {
	return story(w.records.Memory, w.runs.Memory, w.cloud, uuid)
}

// vms returns the VMs of the cloud by name.
func (w *world) vms() map[string]cluster.Resource {
	found := map[string]cluster.Resource{}
	for _, r := range w.cloud.All(cluster.VM) {
		found[r.Name] = r
	}
	return found
}

// checkJournal checks that the journal and the cloud agree.
func (w *world) checkJournal(uuid string) {
	w.t.Helper()
	record := w.record(uuid)
	known := map[string]bool{}
	for _, r := range record.Journal {
		if r.Phase.Open() && r.ProviderID != "" {
			known[r.ProviderID] = true
		}
	}
	names := map[string]bool{}
	for _, r := range w.cloud.All() {
		if r.Tags[cluster.TagCluster] != uuid {
			continue
		}
		if !known[r.ID] {
			w.t.Errorf("%s %s (%s) has no open row\n%s", r.Kind, r.Name, r.ID, w.story(uuid))
		}
		if names[string(r.Kind)+r.Name] {
			w.t.Errorf("two resources are named %s", r.Name)
		}
		names[string(r.Kind)+r.Name] = true
	}
}

// theirs reports an address that was acquired in a given network and became its
// source NAT. It stays as long as the network.
func theirs(cloud *sim.Cloud, r cluster.Resource) bool {
	network, there := cloud.Lookup(cluster.Network, r.Spec.Network)
	return r.SourceNAT && there && network.Tags[cluster.TagInstallation] != installation
}

// checkEmpty checks that no resource of the installation is left in the cloud.
func (w *world) checkEmpty() {
	w.t.Helper()
	for _, r := range w.cloud.All() {
		if r.Tags[cluster.TagInstallation] == installation && !theirs(w.cloud, r) {
			w.t.Errorf("%s %s is left", r.Kind, r.Name)
		}
	}
}

// path returns the states of a cluster in order, from its history.
func (w *world) path(uuid string) string {
	events, err := w.records.Events(w.t.Context(), cluster.EventQuery{Scope: all, Cluster: uuid, Types: []string{"cluster"}})
	if err != nil {
		w.t.Fatal(err)
	}
	var states []string
	for _, e := range events {
		states = append(states, e.State)
	}
	return strings.Join(states, " ")
}

// calls counts calls that the cloud has received.
func (w *world) calls(call, pattern string) int {
	n := 0
	for _, e := range w.cloud.Calls() {
		if ok, _ := path.Match(pattern, e.Name); ok && string(e.Call) == call {
			n++
		}
	}
	return n
}

func (w *world) alerts() map[string]string {
	w.t.Helper()
	found, err := w.service.ProviderAlerts(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return found
}
