package service_test

import (
	"context"
	"fmt"
	"io"
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

// counted is a ledger that counts its writes, and fails at the nth on demand.
type counted struct {
	*cluster.Memory
	mu      sync.Mutex
	commits int
	before  func(n int, c *cluster.Change) error
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

// saves counts what the engine writes.
type saves struct {
	*workflow.Memory
	w  *world
	mu sync.Mutex
	n  int
}

func (s *saves) Save(ctx context.Context, w *workflow.Save) error {
	s.mu.Lock()
	s.n++
	s.mu.Unlock()
	if err := s.w.point(); err != nil {
		return err
	}
	if err := s.Memory.Save(ctx, w); err != nil {
		return err
	}
	return s.w.point()
}

func (s *saves) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n
}

// Release is what a dead process does not do: its lease ends by itself.
func (s *saves) Release(ctx context.Context, worker string) error {
	s.w.mu.Lock()
	dead := s.w.dead
	s.w.mu.Unlock()
	if dead {
		return errDead
	}
	return s.Memory.Release(ctx, worker)
}

// world is a service with its engine, over a simulated cloud, inside a bubble.
type world struct {
	t       *testing.T
	books   *counted
	runs    *saves
	cloud   *sim.Cloud
	service *service.Service
	engine  *workflow.Engine
	options service.Options
	stop    func() // ends this process
	out     func() // and the cloud
	heard   []cluster.Event
	mu      sync.Mutex

	births int // processes begun
	armed  int // points until the process dies; 0: it lives
	dead   bool
	died   chan struct{}
}

// arm lets the process die at its nth write or call from now on; 0: not at all.
func (w *world) arm(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.armed, w.dead, w.died = n, false, make(chan struct{})
}

// struck reports that the process has died since it was armed.
func (w *world) struck() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.armed <= 0
}

// point is a moment at which a process may die. What comes after fails.
func (w *world) point() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.dead:
		return errDead
	case w.armed <= 0:
		return nil
	}
	if w.armed--; w.armed > 0 {
		return nil
	}
	w.dead = true
	close(w.died)
	return errDead
}

func (w *world) alive(birth int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dead || birth != w.births {
		return errDead
	}
	return nil
}

// restartWhenDead begins another process when this one has died, or goes on
// after a while if it does not die.
func (w *world) restartWhenDead(limit time.Duration) {
	w.mu.Lock()
	died := w.died
	w.mu.Unlock()
	select {
	case <-died:
	case <-time.After(limit):
		return
	}
	w.stop()
	w.mu.Lock()
	w.dead = false
	w.mu.Unlock()
	w.begin()
}

type setup struct {
	sim      sim.Options
	settings service.Settings
	silent   bool // nodes do not call home
}

// inWorld runs a test in a bubble with a running service.
func inWorld(t *testing.T, s setup, test func(t *testing.T, w *world)) {
	t.Helper()
	inWorldOf(t, s, func(*world) {}, test)
}

func inWorldOf(t *testing.T, s setup, made func(*world), test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, books: &counted{Memory: cluster.NewMemory()}}
		w.runs = &saves{Memory: workflow.NewMemory(), w: w}
		made(w)
		w.build(s)
		defer w.end()
		test(t, w)
	})
}

// build makes the cloud and the first process.
func (w *world) build(s setup) {
	t := w.t
	s.sim.Installation = installation
	if !s.silent {
		s.sim.Home = func(ctx context.Context, token string, h cluster.Hello) (cluster.HelloAnswer, error) {
			w.mu.Lock()
			to := w.service
			w.mu.Unlock()
			return to.Hello(ctx, token, h)
		}
	}
	cloud, err := sim.New(s.sim)
	if err != nil {
		t.Fatal(err)
	}
	w.cloud = cloud
	ctx, end := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = cloud.Serve(ctx) }()
	w.out = func() { end(); <-done }
	w.options = service.Options{
		Books: w.books, Providers: []service.Named{{Name: "sim", Provider: cloud.As(installation)}}, Installation: installation,
		HomeURL: "https://home.example", Settings: s.settings, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Heard: func(e cluster.Event) { w.mu.Lock(); defer w.mu.Unlock(); w.heard = append(w.heard, e) },
	}
	if !s.silent {
		w.options.Probe = func(ctx context.Context, c *cluster.Cluster, _ *cluster.Details) error {
			return cloud.Probe(ctx, c.Endpoint)
		}
	}
	w.begin()
}

// begin starts the process: service, engine, and their work.
func (w *world) begin() {
	w.mu.Lock()
	w.births++
	options := w.options
	options.Books = mortal{w.books, w, w.births}
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
	w.out()
	_ = w.cloud.Close()
}

// create writes a cluster as the create operation does.
func (w *world) create(name string, workers int, edit ...func(*cluster.Cluster)) string {
	c := &cluster.Cluster{
		UUID: "8f3b2c10-" + name, Name: name, Owner: me, Provider: "sim", Zone: cluster.Entity{ID: "zone-1"}, Offering: cluster.Entity{ID: "small"},
		Template: cluster.Entity{ID: "node-image"}, Desired: cluster.WantRunning, NodeCount: workers, ControlCount: 1,
		State: cluster.Created, Created: time.Now(), StateSince: time.Now(), GC: true, OnFailure: cluster.Rollback,
	}
	for _, e := range edit {
		e(c)
	}
	c.Ask = &cluster.Ask{Kind: cluster.AskStart, Job: "create-" + name}
	job := &cluster.Job{ID: "create-" + name, Kind: "create", Owner: me, Created: time.Now()}
	d := &cluster.Details{Username: "admin", Password: "geheim", NetworkCleanup: c.Network.ID == ""}
	if err := w.books.Commit(w.t.Context(), &cluster.Change{Cluster: c, Jobs: []*cluster.Job{job}, Details: d}); err != nil {
		w.t.Fatal(err)
	}
	w.service.Ring(c.UUID)
	return c.UUID
}

// ask writes a wish as an operation does, and gives the id of its job.
func (w *world) ask(uuid string, kind cluster.AskKind, edit func(c *cluster.Cluster, a *cluster.Ask)) string {
	w.t.Helper()
	for {
		book := w.book(uuid)
		c := &book.Cluster
		id := fmt.Sprintf("%s-%d", kind, c.Revision)
		a := &cluster.Ask{Kind: kind, Job: id, Before: c.NodeCount}
		switch kind {
		case cluster.AskStop:
			c.Desired = cluster.WantStopped
		case cluster.AskDelete:
			c.Desired = cluster.WantDestroyed
		default:
			c.Desired = cluster.WantRunning
		}
		if edit != nil {
			edit(c, a)
		}
		c.Ask = a
		job := &cluster.Job{ID: id, Kind: string(kind), Owner: me, Created: time.Now()}
		if w.books.Commit(w.t.Context(), &cluster.Change{Cluster: c, Jobs: []*cluster.Job{job}}) == nil {
			w.service.Ring(uuid)
			return id
		}
	}
}

func (w *world) book(uuid string) *cluster.Book {
	w.t.Helper()
	b, err := w.books.Book(context.WithoutCancel(w.t.Context()), uuid)
	if err != nil {
		w.t.Fatal(err)
	}
	return b
}

func (w *world) cluster(uuid string) *cluster.Cluster { return &w.book(uuid).Cluster }

func (w *world) job(id string) *cluster.Job {
	w.t.Helper()
	j, err := w.books.Job(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return j
}

// until waits, in bubble time, for a state.
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

// story tells what happened, for a test that failed.
func (w *world) story(uuid string) string {
	var b strings.Builder
	book := w.book(uuid)
	c := book.Cluster
	fmt.Fprintf(&b, "cluster %s desired %s run %s ask %+v reason %+v position %+v\n", c.State, c.Desired, c.RunID, c.Ask, c.Reason, c.Position)
	for _, n := range book.Nodes {
		fmt.Fprintf(&b, "  node %s vm=%s ready=%s notready=%q version=%s\n", n.Name, n.VMID, n.ReadyAt.Format(time.TimeOnly), n.NotReady, n.Version)
	}
	for _, r := range book.Journal {
		fmt.Fprintf(&b, "  row %s %s %s %s try %d/%d job=%s %s %s\n", r.Kind, r.Name, r.Phase, r.Origin, r.Attempt, r.Attempts, r.JobID, r.LastCode, r.LastError)
	}
	events, _ := w.books.Events(w.t.Context(), cluster.EventQuery{Scope: all, Cluster: uuid})
	for _, e := range events {
		fmt.Fprintf(&b, "  %s %s %s→%s %s %+v\n", e.At.Format(time.TimeOnly), e.Event, e.From, e.State, e.RunID, e.Reason)
	}
	runs, _, _ := w.runs.List(w.t.Context(), workflow.Query{Subject: cluster.Subject(uuid), Oldest: true})
	for _, r := range runs {
		full, _, err := w.runs.Load(w.t.Context(), r.ID)
		if err != nil {
			continue
		}
		fmt.Fprintf(&b, "  run %s %s %s fault %+v\n", full.ID, full.Flow, full.Phase, full.Fault)
		for s := range full.Steps() {
			fmt.Fprintf(&b, "    %s %s attempt %d wait %+v fault %+v\n", s.Name, s.Phase, s.Attempt, s.Wait, s.Fault)
		}
	}
	return b.String()
}

// vms are the living VMs of the cloud by name.
func (w *world) vms() map[string]cluster.Resource {
	found := map[string]cluster.Resource{}
	for _, r := range w.cloud.All(cluster.VM) {
		found[r.Name] = r
	}
	return found
}

// balanced checks that the books and the cloud tell the same.
func (w *world) balanced(uuid string) {
	w.t.Helper()
	book := w.book(uuid)
	known := map[string]bool{}
	for _, r := range book.Journal {
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
			w.t.Errorf("two things are named %s", r.Name)
		}
		names[string(r.Kind)+r.Name] = true
	}
}

// empty checks that nothing of ours is left in the cloud.
func (w *world) empty() {
	w.t.Helper()
	for _, r := range w.cloud.All() {
		if r.Tags[cluster.TagInstallation] == installation {
			w.t.Errorf("%s %s is left", r.Kind, r.Name)
		}
	}
}

// path is the way a cluster has come, as its history tells.
func (w *world) path(uuid string) string {
	events, err := w.books.Events(w.t.Context(), cluster.EventQuery{Scope: all, Cluster: uuid, Types: []string{"cluster"}})
	if err != nil {
		w.t.Fatal(err)
	}
	var states []string
	for _, e := range events {
		states = append(states, e.State)
	}
	return strings.Join(states, " ")
}

// calls counts calls of a kind that the cloud has heard.
func (w *world) calls(call, pattern string) int {
	n := 0
	for _, e := range w.cloud.Calls() {
		if ok, _ := path.Match(pattern, e.Name); ok && string(e.Call) == call {
			n++
		}
	}
	return n
}

func (w *world) banners() map[string]string {
	w.t.Helper()
	found, err := w.service.Banners(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return found
}
