package sharedstorage_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/sim"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

var errDead = errors.New("the process is dead")

// harness is an operator with simulated ports. Its process can crash at any save and any call, and
// another one goes on.
type harness struct {
	t        tester
	clusters *memoryStore
	sim      *sim.Simulation
	store    runstore.Store
	events   []string
	eventM   sync.Mutex

	mu      sync.Mutex
	op      *sharedstorage.Operator
	engine  *workflow.Engine
	stop    func()
	notify  func(string)
	moves   []string
	at      int // the point at which the process crashes; 0: never
	points  int
	dead    bool
	instead func() // what happens at that point instead of a crash
	workers int
	options func(o *sharedstorage.Options)
}

type setup struct {
	sim     sim.Options
	workers int
	options func(o *sharedstorage.Options)
}

// tester is the part of testing.TB that a harness needs.
type tester interface {
	Helper()
	Context() context.Context
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Error(args ...any)
	Fatal(args ...any)
}

// panicTester reports a failure as a panic, for rapid.
type panicTester struct{ *testing.T }

func (panicTester) Errorf(format string, args ...any) {
	panic(testFailure(fmt.Sprintf(format, args...)))
}
func (panicTester) Fatalf(format string, args ...any) {
	panic(testFailure(fmt.Sprintf(format, args...)))
}
func (panicTester) Error(args ...any) { panic(testFailure(fmt.Sprint(args...))) }
func (panicTester) Fatal(args ...any) { panic(testFailure(fmt.Sprint(args...))) }

type testFailure string

// times returns a simulation whose operations take realistic time.
func times() sim.Options {
	return sim.Options{Times: sim.Times{Volume: 2 * time.Second, Grow: 5 * time.Second, Clone: 10 * time.Second, Create: 4 * time.Second,
		Remove: 2 * time.Second, Install: 6 * time.Second, Start: 2 * time.Second, Promote: time.Second, CatchUp: 3 * time.Second, Manager: 2 * time.Second}}
}

// inHarness runs a test with virtual time.
func inHarness(t *testing.T, s setup, test func(l *harness)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := newHarness(t, s)
		l.start()
		defer func() { l.halt() }()
		test(l)
		if wrong := l.sim.Violations(); len(wrong) > 0 {
			t.Errorf("never: %s\n%s", strings.Join(wrong, "\n"), l.story())
		}
	})
}

func newHarness(t tester, s setup) *harness {
	l := &harness{t: t, clusters: newMemoryStore(), store: runstore.NewMemory(), workers: s.workers, options: s.options}
	around := s.sim.Around
	s.sim.Around = func(call sim.Call, when sim.When) error {
		if err := l.alive(); err != nil {
			return err
		}
		if around != nil {
			if err := around(call, when); err != nil {
				return err
			}
		}
		if call.Changes() {
			return l.point()
		}
		return nil
	}
	l.clusters.point = l.point
	l.clusters.notify = func(name string) {
		l.mu.Lock()
		notify := l.notify
		l.mu.Unlock()
		if notify != nil {
			notify(name)
		}
	}
	l.sim = sim.New(s.sim)
	return l
}

func (l *harness) alive() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead {
		return errDead
	}
	return nil
}

// point is called wherever the process can crash.
func (l *harness) point() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead {
		return errDead
	}
	l.points++
	if l.at > 0 && l.points == l.at && l.instead != nil {
		go l.instead() // the simulation may hold its lock here
	} else if l.at > 0 && l.points == l.at {
		l.dead = true
		return errDead
	}
	return nil
}

// crashingStore is a run store whose process can crash at each write.
type crashingStore struct {
	*runstore.Memory
	l *harness
}

func (m crashingStore) Create(ctx context.Context, r *runtype.Run, events []runtype.Event) (*runtype.Run, error) {
	if err := m.l.point(); err != nil {
		return nil, err
	}
	got, err := m.Memory.Create(ctx, r, events)
	if err == nil {
		err = m.l.point()
	}
	return got, err
}

func (m crashingStore) Save(ctx context.Context, save *runstore.Save) error {
	if err := m.l.point(); err != nil {
		return err
	}
	if err := m.Memory.Save(ctx, save); err != nil {
		return err
	}
	return m.l.point()
}

// start starts a process: an operator, its engine, and a controller.
func (l *harness) start() {
	options := sharedstorage.Options{Store: l.clusters, Ports: l.sim.Ports(), Logger: quiet,
		Moved: func(ref control.Ref, m machine.Move) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.moves = append(l.moves, fmt.Sprintf("%s %s>%s %s", ref.Name, m.From.State, m.To.State, m.Cause))
		},
		Event: func(c *sharedstorage.Cluster, e sharedstorage.Event) {
			l.eventM.Lock()
			defer l.eventM.Unlock()
			l.events = append(l.events, c.Ref.Name+" "+e.Reason+": "+e.Message)
		}}
	if l.options != nil {
		l.options(&options)
	}
	op, err := sharedstorage.New(options)
	if err != nil {
		l.t.Fatal(err)
	}
	store := l.store
	if memory, ok := l.store.(*runstore.Memory); ok {
		store = crashingStore{memory, l}
	}
	engine, err := op.Engine(store, workflow.Options{Logger: quiet, Lease: 15 * time.Second})
	if err != nil {
		l.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(l.t.Context())
	var work sync.WaitGroup
	add := newTurns(ctx, &work, max(l.workers, 4), func(name string) outcome.Outcome {
		if l.alive() != nil {
			return outcome.Done()
		}
		return op.Reconcile(ctx, op.Key("default", name))
	})
	work.Go(func() { op.Listen(ctx, func(ref control.Ref) { add(ref.Name, 0) }) })
	work.Go(func() { _ = engine.Serve(ctx) })
	l.mu.Lock()
	l.op, l.engine, l.dead, l.points = op, engine, false, 0
	l.notify = func(name string) { add(name, 0) }
	l.stop = func() { cancel(); work.Wait() }
	l.mu.Unlock()
	l.clusters.mu.Lock()
	names := slices.Collect(maps.Keys(l.clusters.clusters))
	l.clusters.mu.Unlock()
	for _, name := range names {
		add(name, 0)
	}
}

func (l *harness) halt() {
	l.mu.Lock()
	stop := l.stop
	l.stop, l.notify = nil, nil
	l.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// kill crashes the process and starts another one.
func (l *harness) kill() {
	l.mu.Lock()
	l.dead = true
	l.mu.Unlock()
	l.halt()
	l.mu.Lock()
	l.at = 0
	l.mu.Unlock()
	l.start()
}

// newTurns returns a work queue that runs a name at most once at a time, and again if it was
// queued meanwhile.
func newTurns(ctx context.Context, work *sync.WaitGroup, workers int, do func(name string) outcome.Outcome) func(name string, after time.Duration) {
	var mu sync.Mutex
	busy, again := map[string]bool{}, map[string]bool{}
	timers := map[string]*time.Timer{}
	slots := make(chan struct{}, workers)
	fails := map[string]int{}
	var add func(name string, after time.Duration)
	var run func(name string)
	run = func(name string) {
		mu.Lock()
		if busy[name] {
			again[name] = true
			mu.Unlock()
			return
		}
		busy[name] = true
		mu.Unlock()
		work.Go(func() {
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return
			}
			out := do(name)
			<-slots
			mu.Lock()
			busy[name] = false
			once := again[name]
			again[name] = false
			wait := out.After()
			if out.IsFail() {
				fails[name]++
				wait = min(time.Minute, time.Second<<min(fails[name], 6))
			} else {
				fails[name] = 0
			}
			mu.Unlock()
			switch {
			case ctx.Err() != nil:
			case once:
				run(name)
			case wait > 0:
				add(name, wait)
			}
		})
	}
	add = func(name string, after time.Duration) {
		if after == 0 {
			if ctx.Err() == nil {
				run(name)
			}
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if old := timers[name]; old != nil {
			old.Stop()
		}
		timers[name] = time.AfterFunc(after, func() {
			if ctx.Err() == nil {
				run(name)
			}
		})
	}
	work.Go(func() {
		<-ctx.Done()
		mu.Lock()
		defer mu.Unlock()
		for _, timer := range timers {
			timer.Stop()
		}
	})
	return add
}

func ref(name string) port.Ref { return port.Ref{Namespace: "default", Name: name} }

// create creates a cluster object.
func (l *harness) create(name string, edit func(s *v1alpha1.SharedStorageClusterSpec)) {
	readers, size := int32(2), resource.MustParse("10Gi")
	spec := v1alpha1.SharedStorageClusterSpec{Readers: &readers}
	spec.Storage.Size = &size
	spec.Engine.Version = "15.4"
	if edit != nil {
		edit(&spec)
	}
	raw, _ := json.Marshal(spec)
	l.clusters.mu.Lock()
	l.clusters.uids++
	l.clusters.clusters[name] = &storedCluster{ref: port.Ref{Namespace: "default", Name: name, UID: fmt.Sprintf("uid-%d", l.clusters.uids)}, generation: 1,
		created: time.Now(), spec: raw, annotations: map[string]string{}, version: 1}
	l.clusters.mu.Unlock()
	l.clusters.notify(name)
}

func (l *harness) edit(name string, edit func(s *v1alpha1.SharedStorageClusterSpec)) {
	l.clusters.user(name, func(k *storedCluster) {
		var spec v1alpha1.SharedStorageClusterSpec
		_ = json.Unmarshal(k.spec, &spec)
		edit(&spec)
		k.spec, _ = json.Marshal(spec)
		k.generation++
	})
}

func (l *harness) request(name, kind, value string) {
	l.clusters.user(name, func(k *storedCluster) { k.annotations[sharedstorage.Prefix+kind] = value })
}

func (l *harness) remove(name string) {
	l.clusters.user(name, func(k *storedCluster) { k.deleted = time.Now() })
}

// observe reads a cluster; nil if it is gone.
func (l *harness) observe(name string) *sharedstorage.Cluster {
	c, err := l.clusters.Load(l.t.Context(), ref(name))
	if errors.Is(err, control.NotFound) {
		return nil
	}
	if err != nil {
		l.t.Fatal(err)
	}
	return c
}

// until polls each second until a condition of a cluster holds.
func (l *harness) until(name, what string, most time.Duration, holds func(c *sharedstorage.Cluster) bool) *sharedstorage.Cluster {
	l.t.Helper()
	for end := time.Now().Add(most); ; {
		c := l.observe(name)
		if holds(c) {
			return c
		}
		if time.Now().After(end) {
			l.t.Fatalf("%s: not %s within %s\n%s", name, what, most, l.story())
		}
		time.Sleep(time.Second)
	}
}

// awaitRunning waits until a cluster is Running with nothing left to do.
func (l *harness) awaitRunning(name string, most time.Duration) *sharedstorage.Cluster {
	l.t.Helper()
	return l.until(name, "at rest", most, l.atRest)
}

func (l *harness) atRest(c *sharedstorage.Cluster) bool {
	if c == nil || c.Status.State != "Running" || c.Status.ObservedGeneration != c.Generation || len(c.Annotations) > 0 {
		return false
	}
	for _, r := range c.Status.Requests {
		if r.State == sharedstorage.Pending || r.State == sharedstorage.InWork {
			return false
		}
	}
	plan, err := l.op.Plan(l.t.Context(), l.op.Key("default", c.Ref.Name))
	return err == nil && plan.Act == machine.Rest
}

func (l *harness) state(name string, state machine.State, most time.Duration) *sharedstorage.Cluster {
	l.t.Helper()
	return l.until(name, string(state), most, func(c *sharedstorage.Cluster) bool { return c != nil && c.Status.State == string(state) })
}

func (l *harness) gone(name string, most time.Duration) {
	l.t.Helper()
	l.until(name, "gone", most, func(c *sharedstorage.Cluster) bool { return c == nil })
}

// story describes what happened, for the message of a failed test.
func (l *harness) story() string {
	var b strings.Builder
	l.mu.Lock()
	fmt.Fprintln(&b, "moves:", strings.Join(l.moves[max(0, len(l.moves)-30):], "; "))
	l.mu.Unlock()
	l.eventM.Lock()
	fmt.Fprintln(&b, "events:", strings.Join(l.events[max(0, len(l.events)-20):], "\n  "))
	l.eventM.Unlock()
	l.clusters.mu.Lock()
	names := slices.Sorted(maps.Keys(l.clusters.clusters))
	l.clusters.mu.Unlock()
	for _, name := range names[:min(len(names), 3)] {
		c := l.observe(name)
		if c == nil {
			continue
		}
		raw, _ := json.MarshalIndent(c.Status, "", " ")
		fmt.Fprintf(&b, "%s %s\n", name, raw)
		fmt.Fprintf(&b, "instances %+v\nwriter %s streaming %v volume %+v\ntopology %+v\n", l.sim.Instances(ref(name)), l.sim.Writer(ref(name)), l.sim.Streaming(ref(name)), l.sim.Volume(ref(name)), l.sim.Topology(ref(name)))
		if c.Status.Run != nil {
			if run, err := l.engine.Get(context.Background(), c.Status.Run.ID); err == nil {
				fmt.Fprintf(&b, "run %s %s %+v owner %q epoch %d next %s revision %d worker %q\n", run.Flow, run.Phase, run.Fault, run.Owner, run.Epoch, run.NextAt, run.Revision, l.engine.Worker())
				for s := range run.Steps() {
					fmt.Fprintf(&b, "  %s %s round %d attempt %d", s.Name, s.Phase, s.Round, s.Attempt)
					if s.Fault != nil {
						fmt.Fprintf(&b, " %s %s", s.Fault.Code, s.Fault.Message)
					}
					if s.Wait != nil {
						fmt.Fprintf(&b, " waits %s %s", s.Wait.Reason, s.Wait.Message)
					}
					fmt.Fprintf(&b, " %s\n", s.Output)
				}
			}
		}
	}
	calls := l.sim.Calls()
	n := 0
	for i := len(calls) - 1; i >= 0 && n < 25; i-- {
		if calls[i].Changes() {
			fmt.Fprintln(&b, calls[i].At.Format("15:04:05.000"), calls[i])
			n++
		}
	}
	return b.String()
}
