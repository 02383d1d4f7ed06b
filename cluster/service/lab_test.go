package service_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/service"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/lock"
	"github.com/pawl-dev/pawl/provider/sim"
	"github.com/pawl-dev/pawl/workflow"
)

// lab is what outlives a process: books, runs, locks and the cloud. Processes
// come and go in it; each is a service with its engine and all its duties, and
// each can die at any write and any provider call.
type lab struct {
	t     *testing.T
	books *cluster.Memory
	runs  *workflow.Memory
	locks *lock.Memory
	cloud *sim.Cloud
	made  service.Options

	flights sync.WaitGroup // calls of dead processes that are still on their way
	mu      sync.Mutex
	lives   []*life
	next    []int    // of the lives to come: the point at which each dies; 0: it does not
	wrong   []string // what must not be
	heard   map[string]bool
	loud    bool          // nodes call home
	blind   bool          // whoever looks for room sees enough
	stiff   chan struct{} // closed when a process freezes
	skew    time.Duration // of the clock of every second process
	ends    []func()
}

type labSetup struct {
	sim      sim.Options
	settings service.Settings
	silent   bool
}

// inLab plays something in a bubble and gives what was wrong with it.
func inLab(t *testing.T, s labSetup, play func(l *lab)) (wrong []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, s)
		defer func() { wrong = l.wrong }()
		defer l.close()
		play(l)
	})
	return wrong
}

func newLab(t *testing.T, s labSetup) *lab {
	l := &lab{t: t, books: cluster.NewMemory(), runs: workflow.NewMemory(), locks: &lock.Memory{}, heard: map[string]bool{}, loud: !s.silent}
	s.sim.Installation = installation
	if l.loud {
		s.sim.Home = func(ctx context.Context, token string, h cluster.Hello) (cluster.HelloAnswer, error) {
			p := l.living()
			if p == nil {
				return cluster.HelloAnswer{}, cluster.ProviderUnreachable.Errorf("connection refused")
			}
			return l.patient(ctx, p, token, h)
		}
	}
	cloud, err := sim.New(s.sim)
	if err != nil {
		t.Fatal(err)
	}
	l.cloud = cloud
	ctx, end := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = cloud.Serve(ctx) }()
	l.ends = append(l.ends, func() { end(); <-done; _ = cloud.Close() })
	l.made = service.Options{
		Installation: installation, HomeURL: "https://home.example", Settings: s.settings, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Versions: []service.Version{
			{ID: "v1", Name: "v1", Semantic: "1.0.0", Template: cluster.Entity{ID: "node-image"}},
			{ID: "v2", Name: "v2", Semantic: "1.1.0", Template: cluster.Entity{ID: "node-image"}},
		},
	}
	if l.loud {
		l.made.Probe = func(ctx context.Context, c *cluster.Cluster, _ *cluster.Details) error {
			return cloud.Probe(ctx, c.Endpoint)
		}
	}
	l.begin()
	return l
}

// patient is a node's call home, which it gives up after a while.
func (l *lab) patient(ctx context.Context, p *life, token string, h cluster.Hello) (cluster.HelloAnswer, error) {
	type reply struct {
		answer cluster.HelloAnswer
		err    error
	}
	done := make(chan reply, 1)
	l.flights.Go(func() {
		answer, err := p.service.Hello(context.WithoutCancel(ctx), token, h)
		done <- reply{answer, err}
	})
	select {
	case r := <-done:
		return r.answer, r.err
	case <-time.After(10 * time.Second):
		return cluster.HelloAnswer{}, cluster.ProviderUnreachable.Errorf("timeout")
	}
}

// say notes what must not be.
func (l *lab) say(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.heard[text] {
		l.heard[text] = true
		l.wrong = append(l.wrong, text)
	}
}

// living is the newest process, nil if it is dead.
func (l *lab) living() *life {
	l.mu.Lock()
	p := l.lives[len(l.lives)-1]
	l.mu.Unlock()
	if p.gone() {
		return nil
	}
	return p
}

// close ends the process and the cloud, and waits for all that is left.
func (l *lab) close() {
	l.mu.Lock()
	lives := slices.Clone(l.lives)
	l.mu.Unlock()
	for _, p := range lives {
		p.end()
		p.over.Wait()
	}
	l.flights.Wait()
	for _, end := range l.ends {
		end()
	}
}

// begin starts a process. Nothing is left of the one before it but what it has
// written, and what it sent to the provider that has not arrived yet.
func (l *lab) begin() {
	l.mu.Lock()
	p := &life{lab: l, died: make(chan struct{}), labels: map[string]int{}}
	if len(l.next) > 0 {
		p.at, l.next = l.next[0], l.next[1:]
	}
	options := l.made
	options.Worker = fmt.Sprintf("process-%d", len(l.lives)+1)
	if skew := l.skew; len(l.lives)%2 == 1 {
		options.Now = func() time.Time { return time.Now().UTC().Add(skew) }
	}
	l.mu.Unlock()
	options.Books, options.Locks = &diary{l.books, p}, medium{l.locks, p}
	options.Providers = []service.Named{{Name: "sim", Provider: line{l.cloud.As(installation), p}}}
	var ctx context.Context
	ctx, p.end = context.WithCancel(context.Background())
	s, err := service.New(options)
	if err != nil {
		l.t.Fatal(err)
	}
	engine, err := workflow.New(&ledgerOfRuns{l.runs, p}, s.Flows(), workflow.Options{Hooks: []workflow.Hook{s.Hook()}, Logger: options.Logger, Worker: options.Worker, Drain: time.Second})
	if err != nil {
		l.t.Fatal(err)
	}
	if err := s.Bind(engine); err != nil {
		l.t.Fatal(err)
	}
	p.service, p.engine = s, engine
	l.mu.Lock()
	l.lives = append(l.lives, p)
	l.mu.Unlock()
	p.over.Go(func() { _ = engine.Serve(ctx) })
	p.over.Go(func() { _ = s.Serve(ctx) })
}

// kill ends the living process as kill -9 does, and begins another.
func (l *lab) kill() {
	if p := l.living(); p != nil {
		p.die()
	}
	l.begin()
}

// revive begins another process if the present one is dead.
func (l *lab) revive() {
	if l.living() == nil {
		l.begin()
	}
}

// wait lets time pass; whoever dies in it is followed by another.
func (l *lab) wait(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		l.mu.Lock()
		p := l.lives[len(l.lives)-1]
		l.mu.Unlock()
		timer := time.NewTimer(time.Until(end))
		select {
		case <-p.died:
			timer.Stop()
			time.Sleep(time.Second)
			l.revive()
		case <-timer.C:
		}
	}
	synctest.Wait()
	l.revive()
}

// life is one process, from its start to its death.
type life struct {
	lab     *lab
	service *service.Service
	engine  *workflow.Engine
	over    sync.WaitGroup
	end     context.CancelFunc

	mu     sync.Mutex
	at     int // dies at this point; 0: it does not
	points int
	dead   bool
	where  string // it died
	died   chan struct{}
	ice    chan struct{}  // closed when it thaws; nil: it is not frozen
	freeze int            // freezes itself at this point; 0: it does not
	labels map[string]int // of each kind of point: the first
}

func (p *life) gone() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead
}

func (p *life) stiff() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ice != nil
}

// thaw lets go on what was held back.
func (p *life) thaw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.freeze = 0; p.ice != nil {
		close(p.ice)
	}
}

// point is a moment at which the process may die: from then on nothing it does
// has any effect.
func (p *life) point(label string) error { return p.reach(label, true) }

// reach is point. What cannot be held back, since others wait for it, fails
// while the process is frozen.
func (p *life) reach(label string, hold bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead {
		return errDead
	}
	p.points++
	if p.freeze != 0 && p.points == p.freeze {
		p.ice = make(chan struct{})
		close(p.lab.stiff)
	}
	if p.ice != nil && !hold {
		return workflow.StoreUnavailable.Errorf("no answer")
	}
	for p.ice != nil { // held back, as is everything else it does
		ice := p.ice
		p.mu.Unlock()
		<-ice
		p.mu.Lock()
		if p.ice == ice {
			p.ice = nil
		}
	}
	if p.dead {
		return errDead
	}
	if p.labels[label] == 0 {
		p.labels[label] = p.points
	}
	if p.at == 0 || p.points != p.at {
		return nil
	}
	p.where = label
	p.kill()
	return errDead
}

func (p *life) kill() {
	if !p.dead {
		p.dead = true
		close(p.died)
		p.end()
	}
}

func (p *life) die() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kill()
}

// arm lets the process die at its nth point from now on, those that follow it
// at the next numbers of theirs.
func (l *lab) arm(at ...int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.lives[len(l.lives)-1]
	p.mu.Lock()
	defer p.mu.Unlock()
	p.points, p.at, p.labels = 0, 0, map[string]int{}
	if len(at) > 0 {
		p.at, l.next = at[0], at[1:]
	}
}

// disarm lets everybody live.
func (l *lab) disarm() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next = nil
	for _, p := range l.lives {
		p.mu.Lock()
		p.at = 0
		p.mu.Unlock()
	}
}

// deaths tells where processes have died.
func (l *lab) deaths() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []string
	for _, p := range l.lives {
		if p.where != "" {
			all = append(all, fmt.Sprintf("%d (%s)", p.at, p.where))
		}
	}
	return strings.Join(all, ", then ")
}

// write is a database write: the process may die before it and behind it.
func (p *life) write(label string, do func() error) error { return p.writes(label, true, do) }

func (p *life) writes(label string, hold bool, do func() error) error {
	if err := p.reach("before "+label, hold); err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	return p.reach("after "+label, hold)
}

// diary is the books in the hands of a process.
type diary struct {
	*cluster.Memory
	p *life
}

func (d *diary) Commit(ctx context.Context, c *cluster.Change) error {
	return d.p.write("commit"+nameOf(c), func() error { return d.Memory.Commit(ctx, c) })
}

// nameOf tells kinds of changes apart.
func nameOf(c *cluster.Change) string {
	var parts []string
	if c.Cluster != nil {
		parts = append(parts, string(c.Cluster.State))
	}
	for _, r := range c.Journal {
		parts = append(parts, string(r.Kind)+" "+string(r.Phase))
	}
	for _, j := range c.Jobs {
		parts = append(parts, fmt.Sprintf("job %s %d", j.Kind, j.Status))
	}
	for _, n := range c.Nodes {
		if !n.Removed.IsZero() {
			parts = append(parts, "removed")
		}
	}
	if c.Details != nil {
		parts = append(parts, "details")
	}
	slices.Sort(parts)
	return " " + strings.Join(slices.Compact(parts), ", ")
}

func (d *diary) Hellos(ctx context.Context, h []cluster.NodeHello) error {
	return d.p.write("hellos", func() error { return d.Memory.Hellos(ctx, h) })
}

func (d *diary) Prune(ctx context.Context, now time.Time, keep cluster.Keep) (n int, err error) {
	err = d.p.write("prune", func() error { n, err = d.Memory.Prune(ctx, now, keep); return err })
	return n, err
}

// medium is the locks in the hands of a process.
type medium struct {
	*lock.Memory
	p *life
}

func (m medium) Transact(ctx context.Context, name string, change func(time.Time, []byte) ([]byte, bool)) error {
	return m.p.write("lock", func() error { return m.Memory.Transact(ctx, name, change) })
}

// ledgerOfRuns is the store of the engine in the hands of a process.
type ledgerOfRuns struct {
	*workflow.Memory
	p *life
}

func (s *ledgerOfRuns) Create(ctx context.Context, r *workflow.Run, events []workflow.Event) (run *workflow.Run, err error) {
	err = s.p.writes("create run "+r.Flow, false, func() error { run, err = s.Memory.Create(ctx, r, events); return err })
	return run, err
}

func (s *ledgerOfRuns) Save(ctx context.Context, w *workflow.Save) error {
	label := "save " + w.Run.Flow + " " + string(w.Run.Phase)
	if step := w.Run.Current(); step != nil {
		label += " " + step.Name + " " + string(step.Phase)
	}
	return s.p.writes(label, false, func() error { return s.Memory.Save(ctx, w) })
}

func (s *ledgerOfRuns) Send(ctx context.Context, id string, w workflow.Signal) error {
	return s.p.writes("send "+w.Name, false, func() error { return s.Memory.Send(ctx, id, w) })
}

func (s *ledgerOfRuns) Claim(ctx context.Context, c workflow.Claim) (claimed workflow.Claimed, err error) {
	if s.p.gone() {
		return claimed, errDead
	}
	if s.p.stiff() {
		return claimed, workflow.StoreUnavailable.Errorf("no answer")
	}
	if claimed, err = s.Memory.Claim(ctx, c); err == nil && len(claimed.Runs) > 0 {
		err = s.p.reach("after claim", false)
	}
	return claimed, err
}

func (s *ledgerOfRuns) Take(ctx context.Context, worker, id string, lease time.Duration) (loaded workflow.Loaded, err error) {
	err = s.p.writes("take", false, func() error { loaded, err = s.Memory.Take(ctx, worker, id, lease); return err })
	return loaded, err
}

func (s *ledgerOfRuns) Rest(ctx context.Context, worker string, r *workflow.Run, next time.Time) error {
	return s.p.writes("rest", false, func() error { return s.Memory.Rest(ctx, worker, r, next) })
}

func (s *ledgerOfRuns) Renew(ctx context.Context, worker string, lease time.Duration) error {
	if s.p.gone() {
		return errDead
	}
	if s.p.stiff() {
		return s.p.writes("renew", false, func() error { return s.Memory.Renew(ctx, worker, lease) })
	}
	return s.Memory.Renew(ctx, worker, lease)
}

// Release is what a process that is killed does not do: its lease ends by itself.
func (s *ledgerOfRuns) Release(ctx context.Context, worker string) error {
	if s.p.gone() {
		return errDead
	}
	return s.Memory.Release(ctx, worker)
}

// line is the way of a process to the provider. Of a call that changes
// something it may die also while the call is on its way: it then arrives
// after the process that follows has begun.
type line struct {
	*sim.Client
	p *life
}

const flight = 45 * time.Second // less than a call's timeout

func ask[T any](ctx context.Context, p *life, label string, changes bool, do func(context.Context) (T, error)) (T, error) {
	var none T
	if err := p.point("before " + label); err != nil {
		return none, err
	}
	if changes {
		if err := p.point("during " + label); err != nil {
			p.lab.flights.Go(func() {
				time.Sleep(flight)
				_, _ = do(context.WithoutCancel(ctx))
				p.lab.arrived(label)
			})
			return none, err
		}
	}
	got, err := do(ctx)
	if dead := p.point("after " + label); dead != nil {
		return none, dead
	}
	return got, err
}

func (l line) Check(ctx context.Context, n cluster.Need) ([]cluster.Finding, error) {
	return ask(ctx, l.p, "check", false, func(ctx context.Context) ([]cluster.Finding, error) {
		found, err := l.Client.Check(ctx, n)
		if l.p.lab.blind {
			found = nil
		}
		return found, err
	})
}

func (l line) Catalog(ctx context.Context, o cluster.Owner, k cluster.Kind) ([]cluster.Entry, error) {
	return ask(ctx, l.p, "catalog "+string(k), false, func(ctx context.Context) ([]cluster.Entry, error) { return l.Client.Catalog(ctx, o, k) })
}

func (l line) Create(ctx context.Context, w cluster.Want) (cluster.Call, error) {
	l.p.lab.mayCreate(w)
	return ask(ctx, l.p, "create "+string(w.Kind), true, func(ctx context.Context) (cluster.Call, error) { return l.Client.Create(ctx, w) })
}

func (l line) Act(ctx context.Context, r cluster.Ref, a cluster.Action) (cluster.Call, error) {
	l.p.lab.mayAct(r, a)
	return ask(ctx, l.p, string(a)+" "+string(r.Kind), true, func(ctx context.Context) (cluster.Call, error) { return l.Client.Act(ctx, r, a) })
}

func (l line) Poll(ctx context.Context, c cluster.Call) (cluster.Progress, error) {
	return ask(ctx, l.p, "poll "+string(c.Ref.Kind), false, func(ctx context.Context) (cluster.Progress, error) { return l.Client.Poll(ctx, c) })
}

func (l line) Get(ctx context.Context, r cluster.Ref) (cluster.Resource, error) {
	return ask(ctx, l.p, "get "+string(r.Kind), false, func(ctx context.Context) (cluster.Resource, error) { return l.Client.Get(ctx, r) })
}

func (l line) Find(ctx context.Context, w cluster.Want) (cluster.Resource, error) {
	return ask(ctx, l.p, "find "+string(w.Kind), false, func(ctx context.Context) (cluster.Resource, error) { return l.Client.Find(ctx, w) })
}

func (l line) List(ctx context.Context, f cluster.Filter, at cluster.Cursor) (cluster.Page, error) {
	return ask(ctx, l.p, "list "+string(f.Kind), false, func(ctx context.Context) (cluster.Page, error) { return l.Client.List(ctx, f, at) })
}

// root is who asks in these tests.
var root = cluster.Caller{User: "somebody", Owner: me, Scope: all, Operator: true}

// create asks for a cluster, again under the same job id until it is answered,
// as a careful client does. It gives the cluster's id.
func (l *lab) create(r service.CreateRequest) string {
	r.Zone, r.Offering = "zone-1", "small"
	if r.JobID == "" {
		r.JobID = "create-" + r.Name
	}
	for range 20 {
		l.revive()
		c, _, err := l.living().service.Create(context.Background(), root, r)
		if err == nil {
			return c.UUID
		}
		if !l.again(err) {
			l.say("create of %s: %v", r.Name, err)
			return ""
		}
	}
	l.say("create of %s never came through", r.Name)
	return ""
}

// again reports a request that may be repeated: nobody knows whether it came through.
func (l *lab) again(err error) bool {
	time.Sleep(time.Second)
	kind := fault.Of(err)
	return l.living() == nil || kind.Class == fault.Transient || kind == fault.WriteConflict || kind == cluster.JobReused || kind == fault.Unknown
}

// change asks for a change in the same way. It gives the id of the job, or the refusal.
func (l *lab) change(uuid string, r service.ChangeRequest) (string, error) {
	if r.JobID == "" {
		r.JobID = fmt.Sprintf("%s-%s-%d", r.Kind, uuid, time.Now().UnixNano())
	}
	var err error
	for range 20 {
		l.revive()
		if _, _, err = l.living().service.Change(context.Background(), root, uuid, r); err == nil {
			return r.JobID, nil
		}
		if !l.again(err) {
			return "", err
		}
	}
	return "", err
}

// must is change that may not be refused.
func (l *lab) must(uuid string, r service.ChangeRequest) string {
	job, err := l.change(uuid, r)
	if err != nil {
		l.say("%s: %v", r.Kind, err)
	}
	return job
}

func (l *lab) book(uuid string) *cluster.Book {
	b, err := l.books.Book(context.Background(), uuid)
	if err != nil {
		l.t.Fatalf("book of %q: %v; wrong so far: %v", uuid, err, l.wrong)
	}
	return b
}

// vms are the VMs of a cluster, by what the cloud has.
func (l *lab) vms(uuid string) []cluster.Resource {
	return slices.DeleteFunc(l.cloud.All(cluster.VM), func(r cluster.Resource) bool { return r.Tags[cluster.TagCluster] != uuid })
}

// worker is a VM of a living worker.
func (l *lab) worker(uuid string) string {
	for _, n := range l.book(uuid).Nodes {
		if n.Role == cluster.Worker && n.VMID != "" {
			return n.VMID
		}
	}
	l.say("there is no worker")
	return ""
}
