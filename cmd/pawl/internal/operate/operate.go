// Package operate is what `pawl operator` runs: one manager with one election, one engine, and
// the requested operators, each with a cache of its own.
package operate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/pawl-dev/pawl/kube/controller"
	kuberuns "github.com/pawl-dev/pawl/kube/runstore"
	"github.com/pawl-dev/pawl/operator/application"
	fdbkube "github.com/pawl-dev/pawl/operator/foundationdb/kube"
	"github.com/pawl-dev/pawl/operator/rollout"
	"github.com/pawl-dev/pawl/operator/sharedstorage/kube"
	"github.com/pawl-dev/pawl/telemetry"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/action/egress"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Options of the process.
type Options struct {
	Config         *rest.Config
	Operators      []string // names of operators to serve, or to leave out (-mpd); no name to serve: those whose kinds are installed, now or later
	Namespaces     []string // that are served; empty: all
	LeaseNamespace string   // of the leader's Lease and of flow definitions
	Alone          bool     // no election
	Lease          time.Duration
	Listen         string
	MetricsToken   string
	Runs           kuberuns.Kind
	Attempts       int // of steps at once
	Workers        int // objects worked on at once, of one kind
	Drain          time.Duration
	Log            *slog.Logger

	// RolloutGuard is the name of the admission rule that protects held workloads.
	RolloutGuard string
	// RolloutExec lets probes and handovers of Rollouts run commands in pods.
	RolloutExec bool
	// Flows are files and folders of flows that hooks of Rollouts may name, Actions those that these
	// may use (nil: all but exec), and Secrets what their steps read.
	Flows, Actions []string
	Secrets        workflow.Secrets
	// HTTPAllow are addresses beside the public ones that webhooks, metrics and http steps may reach.
	HTTPAllow     []string
	SharedStorage SharedStorage
	FoundationDB  fdbkube.Options
}

// Process holds the controllers, and the engine of the leader.
type Process struct {
	Manager *controller.Manager
	store   *kuberuns.Store
	engine  *workflow.Engine
	closers []func() error
}

// opening is how long the store of runs may take to be opened.
const opening = 30 * time.Second

// New makes the process. KIND_MISSING if a kind of Options.Operators is not installed, or none
// of any operator.
func New(ctx context.Context, o Options) (*Process, error) {
	scheme, err := kube.Scheme()
	if err == nil {
		err = errors.Join(rollout.AddToScheme(scheme), fdbkube.AddToScheme(scheme))
	}
	if err != nil {
		return nil, err
	}
	counted := telemetry.NewMetrics()
	m, err := controller.NewManager(o.Config, controller.Options{
		Scheme: scheme, Namespaces: o.Namespaces, Listen: o.Listen, MetricsToken: o.MetricsToken,
		LeaseNamespace: o.LeaseNamespace, NoLeaderElection: o.Alone, Drain: o.Drain, Metrics: counted.Registry(), Log: o.Log,
		LeaseDuration: o.Lease, RenewDeadline: o.Lease * 2 / 3, RetryPeriod: o.Lease * 2 / 15,
	})
	if err != nil {
		return nil, err
	}
	storage, err := newStorageOperator(m, o)
	if err != nil {
		return nil, err
	}
	hooks, err := loadHookFlows(o)
	if err != nil {
		return nil, err
	}
	reachable, err := egress.NewPolicy(o.HTTPAllow)
	if err != nil {
		return nil, runtype.InputInvalid.Errorf("--http-allow: %w", err)
	}
	rollouts := once(func() (*rollout.Operator, error) { return newRolloutOperator(m, o, reachable, hooks) })
	applications := once(func() (*application.Operator, error) {
		return application.New(application.Options{Manager: m, Name: o.SharedStorage.Name, Workers: o.Workers})
	})
	databases := &databaseOperator{manager: m, options: o}
	p := &Process{Manager: m, closers: []func() error{databases.close}}
	if p.store, err = openStore(ctx, m, o); err != nil {
		return nil, err
	}
	options := workflow.Options{
		Attempts: o.Attempts, Lease: o.Lease, Drain: o.Drain, Object: storage.operator.Object, Healers: kube.Healers(), Hooks: []workflow.Hook{counted.Hook()},
		Secrets: o.Secrets, Logger: o.Log,
	}
	hooks.complete(&options, storage.operator.Compile)
	if p.engine, err = storage.engine(p.store, options); err == nil {
		err = hooks.bind(p.engine)
	}
	if err != nil {
		return nil, errors.Join(err, p.store.Close())
	}
	counted.Watch(telemetry.Sources{
		Engine: p.engine, Runs: telemetry.CountActive(p.store, 10*time.Second),
		Stats: func() map[string]float64 { return map[string]float64{"requests": float64(p.store.Requests())} },
	})
	err = errors.Join(
		serve(m, append(storage.parts(p.engine, o.Workers), part{"rollout", rollouts}, part{"application", applications}, part{"foundationdb", databases.setup}), o.Operators),
		m.Add(leaderRunnable{p.engine.Serve}),
		m.Add(leaderRunnable{func(ctx context.Context) error { return p.store.ServeRequests(ctx, p.engine) }}),
	)
	if err != nil {
		return nil, errors.Join(err, p.store.Close())
	}
	return p, nil
}

func newRolloutOperator(m *controller.Manager, o Options, reachable *egress.Policy, hooks *hookFlows) (*rollout.Operator, error) {
	options := rollout.Options{
		Manager: m, Name: o.SharedStorage.Name, Guard: o.RolloutGuard, Workers: o.Workers, Egress: reachable, Exec: o.RolloutExec, Log: o.Log,
	}
	if hooks != nil {
		options.Flows = hooks
	}
	return rollout.New(options)
}

// Run serves until the context ends.
func (p *Process) Run(ctx context.Context) error {
	err := errors.Join(p.Manager.Start(ctx), p.store.Close())
	for _, closes := range p.closers {
		err = errors.Join(err, closes())
	}
	return err
}

func openStore(ctx context.Context, m *controller.Manager, o Options) (*kuberuns.Store, error) {
	ctx, cancel := context.WithTimeout(ctx, opening)
	defer cancel()
	options := kuberuns.Options{
		Config: m.GetConfig(), Kind: o.Runs, Namespace: o.LeaseNamespace, Namespaces: o.Namespaces,
		Serves: kuberuns.Kinds(kinds()...), Operator: o.SharedStorage.Name, Owner: runOwner, Logger: o.Log,
	}
	if len(o.Namespaces) == 1 { // a role for that namespace is enough
		options.Namespace, options.SingleNamespace = o.Namespaces[0], true
	}
	return kuberuns.Open(ctx, options)
}

// runOwner lets the runs of an object go with it. A subject is kind/namespace/name/uid.
func runOwner(subject string) *metav1.OwnerReference {
	parts := strings.Split(subject, "/")
	if len(parts) != 4 {
		return nil
	}
	i := slices.IndexFunc(operators, func(o operator) bool {
		return o.kind.Kind == parts[0] || slices.ContainsFunc(o.also, func(k schema.GroupVersionKind) bool { return k.Kind == parts[0] })
	})
	if i < 0 {
		return nil
	}
	return &metav1.OwnerReference{APIVersion: operators[i].kind.GroupVersion().String(), Kind: parts[0], Name: parts[2], UID: types.UID(parts[3])}
}

// leaderRunnable runs while this process is the leader.
type leaderRunnable struct{ serve func(context.Context) error }

// Start implements manager.Runnable.
func (l leaderRunnable) Start(ctx context.Context) error { return l.serve(ctx) }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (leaderRunnable) NeedLeaderElection() bool { return true }

// Check reports names that are no operators.
func Check(names []string) error {
	for _, name := range names {
		if !slices.ContainsFunc(operators, func(o operator) bool { return o.name == strings.TrimPrefix(name, "-") }) {
			return fmt.Errorf("there is no operator %q: choose from %s", strings.TrimPrefix(name, "-"), strings.Join(Names(), ", "))
		}
	}
	return nil
}
