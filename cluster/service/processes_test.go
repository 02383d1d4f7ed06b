package service_test

import (
	"context"
	"fmt"
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

// lab is a test environment that outlives its processes: records, runs, locks and
// a cloud. Each process is a service with its engine and all periodic tasks, and
// can die at any write and at any call to the provider.
type lab struct {
	t       *testing.T
	records *cluster.Memory
	runs    *workflow.Memory
	locks   *lock.Memory
	cloud   *sim.Cloud
	options service.Options

	inFlight   sync.WaitGroup // calls of dead processes that have not arrived yet
	mu         sync.Mutex
	processes  []*testProcess
	nextPoints []int    // points at which later processes die; 0: the process does not die
	violations []string // violations
	reported   map[string]bool
	heartbeats bool          // nodes send heartbeats
	blind      bool          // the check of capacity finds no limits
	frozen     chan struct{} // closed when a process freezes
	skew       time.Duration // of the clock of every second process
	ends       []func()
}

// inLab runs play in a synctest bubble and returns the violations.
func inLab(t *testing.T, s setup, play func(l *lab)) (wrong []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, s)
		defer func() { wrong = l.violations }()
		defer l.close()
		play(l)
	})
	return wrong
}

func newLab(t *testing.T, s setup) *lab {
	l := &lab{t: t, records: cluster.NewMemory(), runs: workflow.NewMemory(), locks: &lock.Memory{}, reported: map[string]bool{}, heartbeats: !s.silent}
	cloud, end := s.cloud(t, func(ctx context.Context, token string, h cluster.Heartbeat) (cluster.HeartbeatAnswer, error) {
		p := l.current()
		if p == nil {
			return cluster.HeartbeatAnswer{}, cluster.ProviderUnreachable.Errorf("connection refused")
		}
		return l.sendHeartbeat(ctx, p, token, h)
	})
	l.cloud, l.ends, l.options = cloud, []func(){end}, s.options(cloud)
	l.options.Versions = []service.Version{
		{ID: "v1", Name: "v1", Semantic: "1.0.0", Template: cluster.Entity{ID: "node-image"}},
		{ID: "v2", Name: "v2", Semantic: "1.1.0", Template: cluster.Entity{ID: "node-image"}},
	}
	l.begin()
	return l
}

// sendHeartbeat sends a heartbeat of a node and gives up after 10 s.
func (l *lab) sendHeartbeat(ctx context.Context, p *testProcess, token string, h cluster.Heartbeat) (cluster.HeartbeatAnswer, error) {
	type reply struct {
		answer cluster.HeartbeatAnswer
		err    error
	}
	done := make(chan reply, 1)
	l.inFlight.Go(func() {
		answer, err := p.service.Heartbeat(context.WithoutCancel(ctx), token, h)
		done <- reply{answer, err}
	})
	select {
	case r := <-done:
		return r.answer, r.err
	case <-time.After(10 * time.Second):
		return cluster.HeartbeatAnswer{}, cluster.ProviderUnreachable.Errorf("timeout")
	}
}

// violated records a violation.
func (l *lab) violated(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.reported[text] {
		l.reported[text] = true
		l.violations = append(l.violations, text)
	}
}

// current returns the newest process; nil if it is dead.
func (l *lab) current() *testProcess {
	l.mu.Lock()
	p := l.processes[len(l.processes)-1]
	l.mu.Unlock()
	if p.isDead() {
		return nil
	}
	return p
}

// close ends all processes and the cloud, and waits for their goroutines.
func (l *lab) close() {
	l.mu.Lock()
	lives := slices.Clone(l.processes)
	l.mu.Unlock()
	for _, p := range lives {
		p.end()
		p.wg.Wait()
	}
	l.inFlight.Wait()
	for _, end := range l.ends {
		end()
	}
}

// begin starts a process. It shares with the former one only the written data and
// calls to the provider that have not arrived yet.
func (l *lab) begin() {
	l.mu.Lock()
	p := &testProcess{lab: l, died: make(chan struct{}), firstPoints: map[string]int{}}
	if len(l.nextPoints) > 0 {
		p.dieAt, l.nextPoints = l.nextPoints[0], l.nextPoints[1:]
	}
	options := l.options
	options.Worker = fmt.Sprintf("process-%d", len(l.processes)+1)
	if skew := l.skew; len(l.processes)%2 == 1 {
		options.Now = func() time.Time { return time.Now().UTC().Add(skew) }
	}
	l.mu.Unlock()
	options.Records, options.Locks = &recordsOf{l.records, p}, locksOf{l.locks, p}
	options.Providers = []service.NamedProvider{{Name: "sim", Provider: providerOf{l.cloud.As(installation), p}}}
	var ctx context.Context
	ctx, p.end = context.WithCancel(context.Background())
	s, err := service.New(options)
	if err != nil {
		l.t.Fatal(err)
	}
	engine, err := workflow.New(&runsOf{l.runs, p}, s.Flows(), workflow.Options{Hooks: []workflow.Hook{s.Hook()}, Logger: options.Logger, Worker: options.Worker, Drain: time.Second})
	if err != nil {
		l.t.Fatal(err)
	}
	if err := s.Bind(engine); err != nil {
		l.t.Fatal(err)
	}
	p.service, p.engine = s, engine
	l.mu.Lock()
	l.processes = append(l.processes, p)
	l.mu.Unlock()
	p.wg.Go(func() { _ = engine.Serve(ctx) })
	p.wg.Go(func() { _ = s.Serve(ctx) })
}

// kill ends the process as kill -9 does, and starts another.
func (l *lab) kill() {
	if p := l.current(); p != nil {
		p.die()
	}
	l.begin()
}

// revive starts another process if the newest one is dead.
func (l *lab) revive() {
	if l.current() == nil {
		l.begin()
	}
}

// wait lets time pass. It starts another process for each that dies.
func (l *lab) wait(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		l.mu.Lock()
		p := l.processes[len(l.processes)-1]
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

// testProcess is one process of a lab.
type testProcess struct {
	lab     *lab
	service *service.Service
	engine  *workflow.Engine
	wg      sync.WaitGroup
	end     context.CancelFunc

	mu          sync.Mutex
	dieAt       int // dies at this point; 0: it does not
	points      int
	dead        bool
	diedAt      string // the label of the point at which it died
	died        chan struct{}
	thawed      chan struct{}  // closed when the process continues; nil: it is not frozen
	freezeAt    int            // freezes at this point; 0: it does not
	firstPoints map[string]int // the first point of each label
}

func (p *testProcess) isDead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead
}

func (p *testProcess) isFrozen() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.thawed != nil
}

// thaw lets a frozen process continue.
func (p *testProcess) thaw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.freezeAt = 0; p.thawed != nil {
		close(p.thawed)
	}
}

// point is a point at which the process may die. After its death nothing it does
// has an effect.
func (p *testProcess) point(label string) error { return p.reach(label, true) }

// reach is point with a choice for a frozen process: with hold it blocks, without
// hold it fails, for calls on which other processes wait.
func (p *testProcess) reach(label string, hold bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead {
		return errDead
	}
	p.points++
	if p.freezeAt != 0 && p.points == p.freezeAt {
		p.thawed = make(chan struct{})
		close(p.lab.frozen)
	}
	if p.thawed != nil && !hold {
		return workflow.StoreUnavailable.Errorf("no answer")
	}
	for p.thawed != nil { // blocked until thaw
		ice := p.thawed
		p.mu.Unlock()
		<-ice
		p.mu.Lock()
		if p.thawed == ice {
			p.thawed = nil
		}
	}
	if p.dead {
		return errDead
	}
	if p.firstPoints[label] == 0 {
		p.firstPoints[label] = p.points
	}
	if p.dieAt == 0 || p.points != p.dieAt {
		return nil
	}
	p.diedAt = label
	p.kill()
	return errDead
}

func (p *testProcess) kill() {
	if !p.dead {
		p.dead = true
		close(p.died)
		p.end()
	}
}

func (p *testProcess) die() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kill()
}

// arm lets the process die at the first of these points, counted from now on, and
// each later process at the next one.
func (l *lab) arm(at ...int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.processes[len(l.processes)-1]
	p.mu.Lock()
	defer p.mu.Unlock()
	p.points, p.dieAt, p.firstPoints = 0, 0, map[string]int{}
	if len(at) > 0 {
		p.dieAt, l.nextPoints = at[0], at[1:]
	}
}

// disarm removes the points at which processes die.
func (l *lab) disarm() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.nextPoints = nil
	for _, p := range l.processes {
		p.mu.Lock()
		p.dieAt = 0
		p.mu.Unlock()
	}
}

// deaths returns the points at which processes have died.
func (l *lab) deaths() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []string
	for _, p := range l.processes {
		if p.diedAt != "" {
			all = append(all, fmt.Sprintf("%d (%s)", p.dieAt, p.diedAt))
		}
	}
	return strings.Join(all, ", then ")
}

// root is the caller in these tests.
var root = cluster.Caller{User: "somebody", Owner: me, Scope: all, Operator: true}

// create requests a cluster and repeats the request with the same job id until it
// is answered. It returns the cluster's id.
func (l *lab) create(r service.CreateRequest) string {
	r.Zone, r.Offering = "zone-1", "small"
	if r.JobID == "" {
		r.JobID = "create-" + r.Name
	}
	for range 20 {
		l.revive()
		c, _, err := l.current().service.Create(context.Background(), root, r)
		if err == nil {
			return c.UUID
		}
		if !l.mayRepeat(err) {
			l.violated("create of %s: %v", r.Name, err)
			return ""
		}
	}
	l.violated("create of %s never came through", r.Name)
	return ""
}

// mayRepeat waits and reports whether a request may be repeated: it may or may not
// have had an effect.
func (l *lab) mayRepeat(err error) bool {
	time.Sleep(time.Second)
	kind := fault.Of(err)
	return l.current() == nil || kind.Class == fault.Transient || kind == fault.WriteConflict || kind == cluster.JobReused || kind == fault.Unknown
}

// change requests a change in the same way. It returns the id of the job, or the
// refusal.
func (l *lab) change(uuid string, r service.ChangeRequest) (string, error) {
	if r.JobID == "" {
		r.JobID = fmt.Sprintf("%s-%s-%d", r.Kind, uuid, time.Now().UnixNano())
	}
	var err error
	for range 20 {
		l.revive()
		if _, _, err = l.current().service.Change(context.Background(), root, uuid, r); err == nil {
			return r.JobID, nil
		}
		if !l.mayRepeat(err) {
			return "", err
		}
	}
	return "", err
}

// must is change; a refusal is a violation.
func (l *lab) must(uuid string, r service.ChangeRequest) string {
	job, err := l.change(uuid, r)
	if err != nil {
		l.violated("%s: %v", r.Kind, err)
	}
	return job
}

func (l *lab) record(uuid string) *cluster.Record {
	b, err := l.records.Record(context.Background(), uuid)
	if err != nil {
		l.t.Fatalf("record of %q: %v; wrong so far: %v", uuid, err, l.violations)
	}
	return b
}

// vms returns the VMs of a cluster in the cloud.
func (l *lab) vms(uuid string) []cluster.Resource {
	return slices.DeleteFunc(l.cloud.All(cluster.VM), func(r cluster.Resource) bool { return r.Tags[cluster.TagCluster] != uuid })
}

// worker returns the VM of a worker.
func (l *lab) worker(uuid string) string {
	for _, n := range l.record(uuid).Nodes {
		if n.Role == cluster.Worker && n.VMID != "" {
			return n.VMID
		}
	}
	l.violated("there is no worker")
	return ""
}

// story describes a cluster with its history and the deaths of processes.
func (l *lab) story(uuid string) string {
	return story(l.records, l.runs, l.cloud, uuid) + "  deaths at " + l.deaths() + "\n"
}
