package backend

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/discovery"
	discoverycache "k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/library"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/kube/controller"
	kuberuns "github.com/pawl-dev/pawl/kube/runstore"
	"github.com/pawl-dev/pawl/machine/driver"
	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/action"
	"github.com/pawl-dev/pawl/workflow/flowfile"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// KubeOptions name a cluster and its namespaces.
type KubeOptions struct {
	Config    *rest.Config
	Namespace string        // of runs and objects that name none; empty: all
	Runs      kuberuns.Kind // what runs are kept as; empty: Run objects where the cluster knows them, else ConfigMaps
	Flows     []string      // files and folders, beside what this program brings
	Machines  []string
	Kinds     []driver.ServedKind // of operators beside those that this program brings, with their plans
	Logger    *slog.Logger
}

// Kube is a Kubernetes cluster: runs are Run objects or ConfigMaps, and objects
// are custom resources. Operators work on them; requests reach a run as they do
// from a server, by the store.
type Kube struct {
	options   KubeOptions
	library   library.Library
	brought   brought
	kinds     []driver.ServedKind // whose objects have plans
	actions   []workflow.Action
	config    *rest.Config
	client    dynamic.Interface
	reader    client.Client // nil: not needed yet
	discovery discovery.CachedDiscoveryInterface
	mapper    *restmapper.DeferredDiscoveryRESTMapper
	notifier  control.Notifier
	watches   watches
	clock     clock // of the API server

	ctx  context.Context // of background work
	stop context.CancelFunc
	all  sync.WaitGroup

	mu     sync.Mutex
	stores map[string]*kubeRuns // by namespace; "": all
}

var _ Backend = (*Kube)(nil)

// kubeRuns are the runs of a namespace, or of all.
type kubeRuns struct {
	store  *kuberuns.Store
	engine *workflow.Engine
}

// OpenKube returns the backend of a cluster without connecting to it.
func OpenKube(_ context.Context, o KubeOptions) (*Kube, error) {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	k := &Kube{options: o, stores: map[string]*kubeRuns{}}
	k.kinds = append([]driver.ServedKind{{Kind: sharedstorage.Kind, Plan: k.planShared}}, o.Kinds...)
	var err error
	if k.actions, err = action.Standard(action.Options{StateDir: StateDir()}); err != nil {
		return nil, err
	}
	if k.brought, err = load(); err != nil {
		return nil, err
	}
	k.actions = append(k.actions, k.brought.actions...)
	if k.library, err = library.Load(o.Flows, o.Machines, flowfile.Options{Actions: k.actions, AnyAction: true}); err != nil {
		return nil, err
	}
	config := rest.CopyConfig(o.Config)
	config.QPS, config.Burst = -1, 0 // priority and fairness are the server's
	config.Wrap(k.clock.wrap)
	k.config = config
	if k.client, err = dynamic.NewForConfig(config); err != nil {
		return nil, runtype.InputInvalid.Errorf("the way to the Kubernetes cluster: %w", err)
	}
	asked, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, runtype.InputInvalid.Errorf("the way to the Kubernetes cluster: %w", err)
	}
	k.ctx, k.stop = context.WithCancel(context.Background())
	k.discovery = discoverycache.NewMemCacheClient(asked)
	k.mapper = restmapper.NewDeferredDiscoveryRESTMapper(k.discovery)
	return k, nil
}

// Close implements Backend.
func (k *Kube) Close() error {
	k.stop()
	k.all.Wait()
	k.mu.Lock()
	defer k.mu.Unlock()
	var errs []error
	for _, r := range k.stores {
		errs = append(errs, r.store.Close())
	}
	clear(k.stores)
	return errors.Join(errs...)
}

// openWithin limits the first read of a namespace's runs.
const openWithin = time.Minute

// runs opens the runs of a namespace.
func (k *Kube) runs(ctx context.Context, namespace string) (*kubeRuns, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if all := k.stores[""]; all != nil {
		return all, nil
	}
	if r := k.stores[namespace]; r != nil {
		return r, nil
	}
	opening, cancel := context.WithTimeout(ctx, openWithin)
	defer cancel()
	o := kuberuns.Options{Config: k.options.Config, Kind: k.options.Runs, Namespace: namespace, SingleNamespace: namespace != "", Client: true, Logger: k.options.Logger}
	if o.Kind == "" {
		if o.Kind = kuberuns.Run; !k.served(kuberuns.Run) {
			o.Kind = kuberuns.ConfigMap
		}
	}
	store, err := kuberuns.Open(opening, o)
	if err != nil {
		return nil, openError(err)
	}
	engine, err := workflow.New(store, slices.Concat(k.library.Flows, k.brought.flows), workflow.Options{
		Actions: library.WithStubs(k.library.Flows, k.actions), Healers: k.library.Healers, Logger: k.options.Logger, Compile: k.compile,
	})
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	k.stores[namespace] = &kubeRuns{store, engine}
	k.all.Go(func() { k.hear(store.Wake()) })
	return k.stores[namespace], nil
}

// openError translates an error of the store into one of the cluster.
func openError(err error) error {
	switch {
	case apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err):
		return controller.Forbidden.Errorf("%s", fault.Message(err))
	case fault.Of(err) == runstore.StoreUnavailable:
		return fault.APIUnavailable.Errorf("%s", fault.Message(err))
	}
	return err
}

func (k *Kube) compile(source []byte) (workflow.Flow, error) {
	return flowfile.FromSource(source, flowfile.Options{Actions: k.actions, AnyAction: true})
}

// runNamespace is the namespace of a subject's runs.
func (k *Kube) runNamespace(subject string) string {
	if parts := strings.Split(subject, "/"); len(parts) > 2 && k.options.Namespace != "" {
		return parts[1]
	}
	return k.options.Namespace
}

// Alone implements Runs: operators work on the runs.
func (k *Kube) Alone() bool { return false }

// Work implements Runs.
func (k *Kube) Work(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// Advance implements Runs.
func (k *Kube) Advance(context.Context, string) error { return nil }

// find searches a run in the namespace, and in those that were read before.
func (k *Kube) find(ctx context.Context, id string) (*kubeRuns, *runtype.Run, error) {
	first, err := k.runs(ctx, k.options.Namespace)
	if err != nil {
		return nil, nil, err
	}
	k.mu.Lock()
	all := []*kubeRuns{first}
	for _, r := range k.stores {
		if r != first {
			all = append(all, r)
		}
	}
	k.mu.Unlock()
	for _, from := range all {
		r, err := from.engine.Get(ctx, id)
		if err == nil {
			return from, r, nil
		}
		if fault.Of(err) != workflow.RunNotFound || strings.HasPrefix(fault.Message(err), "more than one") {
			return nil, nil, err
		}
	}
	if k.options.Namespace != "" {
		return nil, nil, workflow.RunNotFound.Errorf("no run of namespace %s has the id %s; -n NAMESPACE looks elsewhere, -A everywhere", k.options.Namespace, id)
	}
	return nil, nil, workflow.RunNotFound.Errorf("no run has the id %s", id)
}

// Run implements Runs.
func (k *Kube) Run(ctx context.Context, id string) (view.Run, error) {
	from, r, err := k.find(ctx, id)
	if err != nil {
		return view.Run{}, err
	}
	v := view.OfRun(r, k.flowOf(ctx, from, r)).Newest(view.StepPage)
	if v.Phase == runtype.Queued {
		v.Behind = behind(ctx, from.store, r.Subject)
	}
	return v, nil
}

// Steps implements Runs.
func (k *Kube) Steps(ctx context.Context, id string, after int) (view.Steps, error) {
	from, r, err := k.find(ctx, id)
	if err != nil {
		return view.Steps{}, err
	}
	return view.OfSteps(r, k.flowOf(ctx, from, r), after, r.Len()), nil
}

// flowOf is the flow of a run: one that is known here, or the one it is pinned to.
func (k *Kube) flowOf(ctx context.Context, from *kubeRuns, r *runtype.Run) *workflow.Flow {
	if known := workflow.FlowFor(from.engine.Flows(), r.Flow, r.Subject); known != nil {
		return known
	}
	d, err := from.store.Definition(ctx, r.Hash)
	if err != nil {
		return nil // its steps are shown as the run records them
	}
	f, err := k.compile(d.Source)
	if err != nil {
		return nil
	}
	return &f
}

// List implements Runs.
func (k *Kube) List(ctx context.Context, q runstore.Query) (view.Runs, error) {
	from, err := k.runs(ctx, k.runNamespace(q.Subject))
	if err != nil {
		return view.Runs{}, err
	}
	runs, next, err := from.store.List(ctx, q)
	if err != nil {
		return view.Runs{}, err
	}
	page := view.OfRuns(runs, next, from.engine.Flows())
	view.Queue(page.Items)
	return page, nil
}

// History implements Runs.
func (k *Kube) History(ctx context.Context, id string, after int64, limit int) ([]view.Event, error) {
	from, r, err := k.find(ctx, id)
	if err != nil {
		return nil, err
	}
	events, err := from.store.History(ctx, r.ID, after, limit)
	return view.OfEvents(events), err
}

// Logs implements Runs: objects of a cluster are no place for lines.
func (k *Kube) Logs(ctx context.Context, id string, _ LogsOf, _ func([]view.LogLine) error) error {
	_, r, err := k.find(ctx, id)
	if err != nil {
		return err
	}
	return runstore.LogsNotKept.Errorf("run %s is an object of a Kubernetes cluster", r.ID)
}

// Request implements Runs: the request is kept in the run's object, where its worker finds it.
func (k *Kube) Request(ctx context.Context, id string, verb runtype.Verb, ask workflow.RunRequest) error {
	from, r, err := k.find(ctx, id)
	if err != nil {
		return err
	}
	if ask.Revision != 0 && ask.Revision != r.Revision {
		return fault.WriteConflict.Errorf("the run has revision %d, the request expects %d", r.Revision, ask.Revision)
	}
	return engineRequest(ctx, from.engine, r.ID, verb, ask)
}

// Send implements Runs.
func (k *Kube) Send(ctx context.Context, id string, s runtype.Signal) error {
	from, r, err := k.find(ctx, id)
	if err != nil {
		return err
	}
	return from.engine.Send(ctx, r.ID, s)
}

// Objects implements Backend.
func (k *Kube) Objects() (control.Objects, error) { return kubeObjects{k}, nil }

// engineRequest converts a request for an engine.
func engineRequest(ctx context.Context, engine *workflow.Engine, id string, verb runtype.Verb, ask workflow.RunRequest) error {
	switch verb {
	case runtype.VerbPause:
		return engine.Pause(ctx, id, ask.Actor)
	case runtype.VerbResume:
		return engine.Resume(ctx, id, ask.From, ask.Definition, ask.Actor)
	case runtype.VerbCancel:
		return engine.Cancel(ctx, id, ask.Mode, ask.GiveUp, ask.Actor)
	case runtype.VerbSkip:
		var output any
		if ask.Output != nil {
			output = ask.Output
		}
		return engine.Skip(ctx, id, ask.Step, output, ask.Force, ask.Actor)
	case runtype.VerbProgress:
		return engine.Report(ctx, id, ask.Step, *ask.Progress)
	}
	return fmt.Errorf("there is no request %q", verb)
}

// behind is the run that a queued one waits for.
func behind(ctx context.Context, store runstore.Lister, subject string) string {
	ahead, _, err := store.List(ctx, runstore.Query{Subject: subject, Active: true, OldestFirst: true})
	if err != nil {
		return "" // only informative
	}
	found := ""
	for _, other := range ahead {
		if other.Parent == "" && other.Phase != runtype.Queued {
			found = other.ID
		}
	}
	return found
}
