package servicetest

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
	"github.com/pawl-dev/pawl/cluster/api"
	"github.com/pawl-dev/pawl/cluster/memory"
	"github.com/pawl-dev/pawl/cluster/providers"

	"github.com/pawl-dev/pawl/cluster/service"
	"github.com/pawl-dev/pawl/cluster/settings"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/lock"
	"github.com/pawl-dev/pawl/provider/sim"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

// Lab is a test environment that outlives its processes: records, runs, locks and
// a cloud. Each process is a service with its engine and all periodic tasks, and
// can die at any write and at any call to the provider.
type Lab struct {
	T       *testing.T
	records *memory.Store
	runs    *runstore.Memory
	locks   *lock.Memory
	Cloud   *sim.Cloud
	options service.Options

	inFlight   sync.WaitGroup // calls of dead processes that have not arrived yet
	mu         sync.Mutex
	processes  []*Process
	nextPoints []int    // points at which later processes die; 0: the process does not die
	violations []string // violations
	reported   map[string]bool
	heartbeats bool          // nodes send heartbeats
	Blind      bool          // the check of capacity finds no limits
	Frozen     chan struct{} // closed when a process freezes
	Skew       time.Duration // of the clock of every second process
	ends       []func()
}

// InLab runs play in a synctest bubble and returns the violations.
func InLab(t *testing.T, s Setup, play func(l *Lab)) (wrong []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, s)
		defer func() { wrong = l.violations }()
		defer l.close()
		play(l)
	})
	return wrong
}

func newLab(t *testing.T, s Setup) *Lab {
	l := &Lab{T: t, records: memory.New(), runs: runstore.NewMemory(), locks: &lock.Memory{}, reported: map[string]bool{}, heartbeats: !s.Silent}
	cloud, end := s.cloud(t, func(ctx context.Context, token string, h cluster.Heartbeat) (cluster.HeartbeatAnswer, error) {
		p := l.Current()
		if p == nil {
			return cluster.HeartbeatAnswer{}, cluster.ProviderUnreachable.Errorf("connection refused")
		}
		return l.sendHeartbeat(ctx, p, token, h)
	})
	l.Cloud, l.ends, l.options = cloud, []func(){end}, s.options(cloud)
	l.options.Versions = settings.Versions{
		{ID: "v1", Name: "v1", Semantic: "1.0.0", Template: cluster.Entity{ID: "node-image"}},
		{ID: "v2", Name: "v2", Semantic: "1.1.0", Template: cluster.Entity{ID: "node-image"}},
	}
	l.Begin()
	return l
}

// sendHeartbeat sends a heartbeat of a node and gives up after 10 s.
func (l *Lab) sendHeartbeat(ctx context.Context, p *Process, token string, h cluster.Heartbeat) (cluster.HeartbeatAnswer, error) {
	type reply struct {
		answer cluster.HeartbeatAnswer
		err    error
	}
	done := make(chan reply, 1)
	l.inFlight.Go(func() {
		answer, err := p.Service.Heartbeat(context.WithoutCancel(ctx), token, h)
		done <- reply{answer, err}
	})
	select {
	case r := <-done:
		return r.answer, r.err
	case <-time.After(10 * time.Second):
		return cluster.HeartbeatAnswer{}, cluster.ProviderUnreachable.Errorf("timeout")
	}
}

// Violated records a violation.
func (l *Lab) Violated(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.reported[text] {
		l.reported[text] = true
		l.violations = append(l.violations, text)
	}
}

// Current returns the newest process; nil if it is dead.
func (l *Lab) Current() *Process {
	l.mu.Lock()
	p := l.processes[len(l.processes)-1]
	l.mu.Unlock()
	if p.IsDead() {
		return nil
	}
	return p
}

// close ends all processes and the cloud, and waits for their goroutines.
func (l *Lab) close() {
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

// Begin starts a process. It shares with the former one only the written data and
// calls to the provider that have not arrived yet.
func (l *Lab) Begin() {
	l.mu.Lock()
	p := &Process{lab: l, died: make(chan struct{}), FirstPoints: map[string]int{}}
	if len(l.nextPoints) > 0 {
		p.dieAt, l.nextPoints = l.nextPoints[0], l.nextPoints[1:]
	}
	options := l.options
	options.Worker = fmt.Sprintf("process-%d", len(l.processes)+1)
	if skew := l.Skew; len(l.processes)%2 == 1 {
		options.Now = func() time.Time { return time.Now().UTC().Add(skew) }
	}
	l.mu.Unlock()
	options.Records, options.Locks = &recordsOf{l.records, p}, locksOf{l.locks, p}
	options.Providers = []providers.Named{{Name: "sim", Provider: providerOf{l.Cloud.As(Installation), p}}}
	var ctx context.Context
	ctx, p.end = context.WithCancel(context.Background())
	s, err := service.New(options)
	if err != nil {
		l.T.Fatal(err)
	}
	engine, err := workflow.New(&runsOf{l.runs, p}, s.Flows(), workflow.Options{Hooks: []workflow.Hook{s.Hook()}, Logger: options.Logger, Worker: options.Worker, Drain: time.Second})
	if err != nil {
		l.T.Fatal(err)
	}
	if err := s.Bind(engine); err != nil {
		l.T.Fatal(err)
	}
	p.Service, p.engine = s, engine
	l.mu.Lock()
	l.processes = append(l.processes, p)
	l.mu.Unlock()
	p.wg.Go(func() { _ = engine.Serve(ctx) })
	p.wg.Go(func() { _ = s.Serve(ctx) })
}

// Kill ends the process as kill -9 does, and starts another.
func (l *Lab) Kill() {
	if p := l.Current(); p != nil {
		p.Die()
	}
	l.Begin()
}

// Revive starts another process if the newest one is dead.
func (l *Lab) Revive() {
	if l.Current() == nil {
		l.Begin()
	}
}

// Wait lets time pass. It starts another process for each that dies.
func (l *Lab) Wait(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		l.mu.Lock()
		p := l.processes[len(l.processes)-1]
		l.mu.Unlock()
		timer := time.NewTimer(time.Until(end))
		select {
		case <-p.died:
			timer.Stop()
			time.Sleep(time.Second)
			l.Revive()
		case <-timer.C:
		}
	}
	synctest.Wait()
	l.Revive()
}

// Process is one process of a lab.
type Process struct {
	lab     *Lab
	Service *service.Service
	engine  *workflow.Engine
	wg      sync.WaitGroup
	end     context.CancelFunc

	Mu          sync.Mutex
	dieAt       int // dies at this point; 0: it does not
	points      int
	dead        bool
	diedAt      string // the label of the point at which it died
	died        chan struct{}
	thawed      chan struct{}  // closed when the process continues; nil: it is not frozen
	FreezeAt    int            // freezes at this point; 0: it does not
	FirstPoints map[string]int // the first point of each label
}

// IsDead reports whether the process was killed.
func (p *Process) IsDead() bool {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	return p.dead
}

func (p *Process) isFrozen() bool {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	return p.thawed != nil
}

// Thaw lets a frozen process continue.
func (p *Process) Thaw() {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	if p.FreezeAt = 0; p.thawed != nil {
		close(p.thawed)
	}
}

// point is a point at which the process may die. After its death nothing it does
// has an effect.
func (p *Process) point(label string) error { return p.reach(label, true) }

// reach is point with a choice for a frozen process: with hold it blocks, without
// hold it fails, for calls on which other processes wait.
func (p *Process) reach(label string, hold bool) error {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	if p.dead {
		return errDead
	}
	p.points++
	if p.FreezeAt != 0 && p.points == p.FreezeAt {
		p.thawed = make(chan struct{})
		close(p.lab.Frozen)
	}
	if p.thawed != nil && !hold {
		return runstore.StoreUnavailable.Errorf("no answer")
	}
	for p.thawed != nil { // blocked until thaw
		ice := p.thawed
		p.Mu.Unlock()
		<-ice
		p.Mu.Lock()
		if p.thawed == ice {
			p.thawed = nil
		}
	}
	if p.dead {
		return errDead
	}
	if p.FirstPoints[label] == 0 {
		p.FirstPoints[label] = p.points
	}
	if p.dieAt == 0 || p.points != p.dieAt {
		return nil
	}
	p.diedAt = label
	p.kill()
	return errDead
}

func (p *Process) kill() {
	if !p.dead {
		p.dead = true
		close(p.died)
		p.end()
	}
}

// Die kills the process: it writes and calls nothing more.
func (p *Process) Die() {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	p.kill()
}

// Arm lets the process die at the first of these points, counted from now on, and
// each later process at the next one.
func (l *Lab) Arm(at ...int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.processes[len(l.processes)-1]
	p.Mu.Lock()
	defer p.Mu.Unlock()
	p.points, p.dieAt, p.FirstPoints = 0, 0, map[string]int{}
	if len(at) > 0 {
		p.dieAt, l.nextPoints = at[0], at[1:]
	}
}

// Disarm removes the points at which processes die.
func (l *Lab) Disarm() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.nextPoints = nil
	for _, p := range l.processes {
		p.Mu.Lock()
		p.dieAt = 0
		p.Mu.Unlock()
	}
}

// deaths returns the points at which processes have died.
func (l *Lab) deaths() string {
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

// Root is the caller in these tests.
var Root = cluster.Caller{User: "somebody", Owner: Me, Scope: All, Operator: true}

// Create requests a cluster and repeats the request with the same job id until it
// is answered. It returns the cluster's id.
func (l *Lab) Create(r api.CreateRequest) string {
	r.Zone, r.Offering = "zone-1", "small"
	if r.JobID == "" {
		r.JobID = "create-" + r.Name
	}
	for range 20 {
		l.Revive()
		c, _, err := l.Current().Service.Create(context.Background(), Root, r)
		if err == nil {
			return c.UUID
		}
		if !l.MayRepeat(err) {
			l.Violated("create of %s: %v", r.Name, err)
			return ""
		}
	}
	l.Violated("create of %s never came through", r.Name)
	return ""
}

// MayRepeat waits and reports whether a request may be repeated: it may or may not
// have had an effect.
func (l *Lab) MayRepeat(err error) bool {
	time.Sleep(time.Second)
	kind := fault.Of(err)
	return l.Current() == nil || kind.Class == fault.Transient || kind == fault.WriteConflict || kind == cluster.JobReused || kind == fault.Unknown
}

// Change requests a change in the same way. It returns the id of the job, or the
// refusal.
func (l *Lab) Change(uuid string, r api.ChangeRequest) (string, error) {
	if r.JobID == "" {
		r.JobID = fmt.Sprintf("%s-%s-%d", r.Kind, uuid, time.Now().UnixNano())
	}
	var err error
	for range 20 {
		l.Revive()
		if _, _, err = l.Current().Service.Change(context.Background(), Root, uuid, r); err == nil {
			return r.JobID, nil
		}
		if !l.MayRepeat(err) {
			return "", err
		}
	}
	return "", err
}

// Must is change; a refusal is a violation.
func (l *Lab) Must(uuid string, r api.ChangeRequest) string {
	job, err := l.Change(uuid, r)
	if err != nil {
		l.Violated("%s: %v", r.Kind, err)
	}
	return job
}

// Record reads the record of a cluster.
func (l *Lab) Record(uuid string) *cluster.Record {
	b, err := l.records.Record(context.Background(), uuid)
	if err != nil {
		l.T.Fatalf("record of %q: %v; wrong so far: %v", uuid, err, l.violations)
	}
	return b
}

// VMs returns the VMs of a cluster in the cloud.
func (l *Lab) VMs(uuid string) []cluster.Resource {
	return slices.DeleteFunc(l.Cloud.All(cluster.VM), func(r cluster.Resource) bool { return r.Tags[cluster.TagCluster] != uuid })
}

// Worker returns the VM of a worker.
func (l *Lab) Worker(uuid string) string {
	for _, n := range l.Record(uuid).Nodes {
		if n.Role == cluster.Worker && n.VMID != "" {
			return n.VMID
		}
	}
	l.Violated("there is no worker")
	return ""
}

// Story describes a cluster with its history and the deaths of processes.
func (l *Lab) Story(uuid string) string {
	return story(l.records, l.runs, l.Cloud, uuid) + "  deaths at " + l.deaths() + "\n"
}
