package sharedstorage

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Kind is that of Options.Home, as runs name it in their subject.
const Kind = "SharedStorageCluster"

// Attempts is the default of workflow.Options.Attempts, and that of pawl operator.
// Steps that hang hold one each, until Options.Ask ends: a thousand clusters of
// which a tenth hangs meet their deadlines with it.
const Attempts = 64

// Options of an operator. Home and Ports are required.
type Options struct {
	Store  ClusterStore            // of clusters of Kind
	Stores map[string]ClusterStore // of other kinds that are served in the same way, such as MPDCluster
	Ports  port.Ports

	Name string // serves clusters whose spec.operatorName is this; empty: all clusters, named or not
	// Version of engines whose spec names none; empty: the adapter's.
	Version string

	IdleInterval  time.Duration // between looks at a cluster at rest; default 1 m
	RunInterval   time.Duration // between looks at one whose run is under way; default 10 s
	CallTimeout   time.Duration // longest wait for one answer of a port; default 5 s
	HAOffFor      time.Duration // for which failover is switched off, at most, without being extended; default 30 m
	FailedAfter   time.Duration // how long an instance must have failed before it is made anew; default 1 m
	ParallelCalls int           // questions to engines of one cluster at once; default 8
	Moved         func(control.Ref, machine.Move)
	Event         func(*Cluster, Event) // what people should hear, for Kubernetes Events; nil: the log only
	// ClassifyRunError judges why no run could be started for a cluster that is being deleted.
	// nil: Stays.
	ClassifyRunError func(error) RunStoreState
	Now              func() time.Time // default time.Now
	Logger           *slog.Logger     // default slog.Default()
	Metrics          Metrics          // nil: none
}

// Event is one thing that people should hear of a cluster.
type Event struct {
	Warning         bool
	Reason, Message string // Reason is CamelCase
}

// Metrics hears what the operator does.
type Metrics interface {
	Request(kind, state string)
	Pass(took time.Duration)
}

// Operator moves clusters. Its methods may be called from several goroutines.
type Operator struct {
	options Options
	stores  map[string]ClusterStore
	machine *machine.Machine[*Cluster]
	engine  Flows

	mu             sync.Mutex
	last           int
	subscribers    map[int]func(control.Ref)
	orders         map[string]order     // by run
	managerMovedAt map[string]time.Time // by cluster: when its manager was sent away from the writer's node last
}

// Flows is what the operator asks of the engine. A *workflow.Engine is one.
type Flows interface {
	machine.Flows
	Flows() []workflow.Flow
}

// New makes an operator. It works once Engine or Bind has given it an engine.
func New(o Options) (*Operator, error) {
	if o.Store == nil && len(o.Stores) == 0 {
		return nil, errors.New("sharedstorage: Options.Home is not set")
	}
	if o.Ports.Storage == nil || o.Ports.Instances == nil || o.Ports.Engine == nil || o.Ports.Manager == nil {
		return nil, errors.New("sharedstorage: a port of Options.Ports is not set")
	}
	o.IdleInterval, o.RunInterval, o.CallTimeout = cmp.Or(o.IdleInterval, time.Minute), cmp.Or(o.RunInterval, 10*time.Second), cmp.Or(o.CallTimeout, 5*time.Second)
	o.HAOffFor, o.FailedAfter, o.ParallelCalls = cmp.Or(o.HAOffFor, 30*time.Minute), cmp.Or(o.FailedAfter, time.Minute), cmp.Or(o.ParallelCalls, 8)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	stores := maps.Clone(o.Stores)
	if stores == nil {
		stores = map[string]ClusterStore{}
	}
	if o.Store != nil {
		stores[Kind] = o.Store
	}
	return &Operator{options: o, stores: stores, subscribers: map[int]func(control.Ref){}, managerMovedAt: map[string]time.Time{}, orders: map[string]order{}}, nil
}

// Key names a cluster of Kind.
func (o *Operator) Key(namespace, name string) control.Ref {
	return control.Ref{Kind: Kind, Namespace: namespace, Name: name}
}

// Engine makes an engine with everything the operator brings, beside what the
// options name, and binds the operator to it.
func (o *Operator) Engine(store runstore.Store, options workflow.Options) (*workflow.Engine, error) {
	flows, err := o.Flows()
	if err != nil {
		return nil, err
	}
	options.Actions = slices.Concat(options.Actions, o.Actions())
	options.Hooks = append(slices.Clone(options.Hooks), o.Hook())
	if options.Attempts == 0 {
		options.Attempts = Attempts
	}
	healers := maps.Clone(options.Healers)
	if healers == nil {
		healers = map[faultCode]workflow.Healer{}
	}
	maps.Copy(healers, o.Healers())
	options.Healers = healers
	if options.Compile == nil {
		options.Compile = o.Compile
	}
	if options.Logger == nil {
		options.Logger = o.options.Logger
	}
	engine, err := workflow.New(store, flows, options)
	if err != nil {
		return nil, err
	}
	return engine, o.Bind(engine)
}

// Bind lets the operator use an engine that was made with its Flows, Actions,
// Healers and Hook. MACHINE_INVALID if a flow is missing.
func (o *Operator) Bind(engine Flows) error {
	m, err := machine.New(o.Table(), machine.Options[*Cluster]{Objects: objects{o}, Flows: engine, Now: o.options.Now, Logger: o.options.Logger})
	if err != nil {
		return err
	}
	o.machine, o.engine = m, engine
	return nil
}

// Hook asks for a pass over a cluster when one of its runs begins, pauses, goes
// on or ends. It belongs into the hooks of the engine.
func (o *Operator) Hook() workflow.Hook {
	relevant := []runtype.EventKind{runtype.RunStarted, runtype.RunPaused, runtype.RunResumed, runtype.RunCancelling, runtype.RunCancelled, runtype.RunSucceeded}
	return workflow.Hook{Name: "sharedstorage", OnEvent: func(run workflow.RunInfo, e runtype.Event) {
		if !slices.Contains(relevant, e.Kind) {
			return
		}
		if ref, _, err := refOf(run.Subject); err == nil && o.stores[ref.Kind] != nil {
			o.notify(ref)
		}
	}}
}

// Listen hands the clusters that need a pass to ring, until the context ends.
func (o *Operator) Listen(ctx context.Context, notify func(control.Ref)) {
	o.mu.Lock()
	o.last++
	id := o.last
	o.subscribers[id] = notify
	o.mu.Unlock()
	<-ctx.Done()
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.subscribers, id)
}

func (o *Operator) notify(ref control.Ref) {
	o.mu.Lock()
	subscribers := slices.Collect(maps.Values(o.subscribers))
	o.mu.Unlock()
	for _, notify := range subscribers {
		notify(ref)
	}
}

func (o *Operator) now() time.Time { return o.options.Now().UTC() }
