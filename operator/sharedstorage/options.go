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
	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/operator/sharedstorage/cache"
	"github.com/pawl-dev/pawl/operator/sharedstorage/declared"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Kind is the kind of the objects in Options.Store. Runs name it in their subject.
const Kind = "SharedStorageCluster"

// Attempts is the default of workflow.Options.Attempts, also in pawl operator. A hanging step
// holds one attempt until Options.CallTimeout; with this number a thousand clusters keep their
// deadlines while a tenth of them hangs.
const Attempts = 64

// Options of an operator. Ports and one of Store and Stores are required.
type Options struct {
	Store  ClusterStore            // clusters of Kind
	Stores map[string]ClusterStore // clusters of other kinds, by kind, such as MPDCluster
	Ports  port.Ports

	// Secrets reads the secrets of repositories. nil: those with a secret cannot be used.
	Secrets func(ctx context.Context, namespace string, from v1alpha1.SecretSource) (string, error)
	// Credentials keeps the passwords of users that name none. nil: such users get no password.
	Credentials declared.Credentials
	// Certificates keeps the certificates of the instances. nil: they have none.
	Certificates Certificates
	// Backups has the SharedStorageBackups. nil: there are none, and no schedule is kept.
	Backups BackupStore

	Name string // serve the clusters with this spec.operatorName; empty: all clusters
	// Version is the engine version of a cluster whose spec names none; empty: the adapter's
	// default.
	Version string

	IdleInterval  time.Duration // between passes over a cluster at rest; default 1 m
	RunInterval   time.Duration // between passes over a cluster with a run; default 10 s
	RetryInterval time.Duration // before the first look at a user, database, publication or subscription that has a problem; it doubles, up to 20 times of it; default 15 s
	CallTimeout   time.Duration // limit for one call of a port; default 5 s
	HAOffFor      time.Duration // failover comes back after this time unless the run extends it; default 1 m
	FailedAfter   time.Duration // how long an instance must have failed before it is rebuilt; default 1 m
	ParallelCalls int           // concurrent status calls to the engines of one cluster; default 8
	Moved         func(control.Ref, machine.Move)
	Event         func(*Cluster, Event) // receives what becomes a Kubernetes Event; nil: the operator only logs it
	// ClassifyRunError judges why the run of a deletion could not be started. nil:
	// RunStoreAvailable, so the start is retried.
	ClassifyRunError func(error) RunStoreState
	Now              func() time.Time // default time.Now
	Logger           *slog.Logger     // default slog.Default()
	Metrics          Metrics          // nil: none
}

// Event is a message about a cluster for people.
type Event struct {
	Warning         bool
	Reason, Message string // Reason is CamelCase
}

// Metrics receives the counts of the operator.
type Metrics interface {
	Request(kind, state string)
	Pass(took time.Duration)
}

// Operator reconciles clusters. Its methods are safe for concurrent use.
type Operator struct {
	options Options
	stores  map[string]ClusterStore
	machine *machine.Machine[*Cluster]
	engine  Flows

	mu          sync.Mutex
	last        int
	subscribers map[int]func(control.Ref)
	orders      map[string]order // by run id

	managerMoves      cache.Cache[struct{}] // that the manager was moved off the writer's node
	managerConverted  cache.Cache[struct{}] // that the manager was given its certificate
	certificatesFound cache.Cache[*certificateFact]
	certificateLocks  certificateLocks
	declared          *declared.Reconciler

	watches managerWatches
}

// Flows is the part of *workflow.Engine that the operator uses.
type Flows interface {
	machine.Flows
	Flows() []workflow.Flow
}

// New returns an operator. It works once Engine or Bind has given it an engine.
func New(o Options) (*Operator, error) {
	if o.Store == nil && len(o.Stores) == 0 {
		return nil, errors.New("sharedstorage: Options.Store is not set")
	}
	if o.Ports.Storage == nil || o.Ports.Instances == nil || o.Ports.Engine == nil || o.Ports.Manager == nil {
		return nil, errors.New("sharedstorage: a port of Options.Ports is not set")
	}
	o.IdleInterval, o.RunInterval, o.CallTimeout = cmp.Or(o.IdleInterval, time.Minute), cmp.Or(o.RunInterval, 10*time.Second), cmp.Or(o.CallTimeout, 5*time.Second)
	o.HAOffFor, o.FailedAfter, o.ParallelCalls = cmp.Or(o.HAOffFor, time.Minute), cmp.Or(o.FailedAfter, time.Minute), cmp.Or(o.ParallelCalls, 8)
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
	objects := declared.New(declared.Options{Engine: o.Ports.Engine, Secrets: o.Secrets, Credentials: o.Credentials,
		Timeout: o.CallTimeout, Interval: o.IdleInterval, WaitInterval: o.RunInterval, RetryInterval: o.RetryInterval, Logger: o.Logger})
	return &Operator{options: o, stores: stores, subscribers: map[int]func(control.Ref){}, orders: map[string]order{}, declared: objects}, nil
}

// Key returns the reference of a cluster of Kind.
func (o *Operator) Key(namespace, name string) control.Ref {
	return control.Ref{Kind: Kind, Namespace: namespace, Name: name}
}

// Engine returns an engine with the operator's flows, actions, healers and hook besides those in
// options, and binds the operator to it.
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

// Bind makes the operator use an engine that has its Flows, Actions, Healers and Hook.
// MACHINE_INVALID if a flow is missing.
func (o *Operator) Bind(engine Flows) error {
	m, err := machine.New(o.Table(), machine.Options[*Cluster]{Objects: objects{o}, Flows: engine, Now: o.options.Now, Logger: o.options.Logger})
	if err != nil {
		return err
	}
	o.machine, o.engine = m, engine
	return nil
}

// Hook requests a pass over a cluster when one of its runs starts, pauses, resumes or ends. Engine
// adds it to the engine; a caller of Bind adds it himself.
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

// Listen calls notify with each cluster that needs a pass, until the context ends.
func (o *Operator) Listen(ctx context.Context, notify func(control.Ref)) {
	o.mu.Lock()
	o.last++
	id := o.last
	o.subscribers[id] = notify
	o.mu.Unlock()
	defer o.watches.serve(ctx)()
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
