package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	crlog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	mpd "github.com/pawl-dev/pawl/kube/api/mpd/v1"
	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/kube/controller"
	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/operator/sharedstorage/kube"
	"github.com/pawl-dev/pawl/secretfile"
	"github.com/pawl-dev/pawl/store/kubestore"
	"github.com/pawl-dev/pawl/telemetry"
	"github.com/pawl-dev/pawl/workflow"
)

// operatorOptions are the flags of pawl operator.
type operatorOptions struct {
	kubeconfig, context, listen, tokenFile, logFormat string
	namespaces                                        []string
	alone                                             bool
	leaseNamespace                                    string
	store                                             string
	name, image, tool, storageClass, version          string
	images                                            map[string]string
	user                                              int64
	writerLease, failoverAfter, lease                 time.Duration
	attempts, workers                                 int
	drain                                             time.Duration
}

// defaultImage is the image of this version of pawl.
func defaultImage() string {
	if v := versionText(); strings.HasPrefix(v, "v") {
		return "ghcr.io/pawl-dev/pawl:" + v
	}
	return "ghcr.io/pawl-dev/pawl:latest"
}

func (a *app) operatorCommand() *cobra.Command {
	var o operatorOptions
	cmd := &cobra.Command{
		Use: "operator", Short: "Run the Kubernetes controllers",
		Long: `Serves SharedStorageClusters: database clusters of one writer and any number of
readers; and MPDClusters, where their CRD is installed at the start. Runs are kept in the cluster, as Run objects or ConfigMaps. Of several
operators one works, the leader; the others take over when its lease ends.
/healthz, /readyz and /metrics are served at --listen. SIGTERM drains.

Outside of a pod it uses $KUBECONFIG or ~/.kube/config.`,
		Example: "  pawl operator --image ghcr.io/pawl-dev/pawl:v0.9.0\n  pawl operator --namespaces databases --engine-image 15=postgres:15.18 --listen 127.0.0.1:7296",
		Args:    cobra.NoArgs,
		RunE: a.verb(func(ctx context.Context, _ *cobra.Command, _ []string) error {
			return a.operate(ctx, o)
		}),
	}
	f := cmd.Flags()
	f.StringVar(&o.listen, "listen", ":7296", "`host:port` of health and metrics")
	f.StringVar(&o.tokenFile, "metrics-token-file", "", "`file` with the token that metrics need off loopback; only its owner may read it")
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "`file` with the way to the cluster (default: the pod's account, $KUBECONFIG, ~/.kube/config)")
	f.StringVar(&o.context, "context", "", "`context` of that file")
	f.StringSliceVar(&o.namespaces, "namespaces", nil, "`namespaces` that are served (default: all)")
	f.StringVar(&o.leaseNamespace, "operator-namespace", "", "`namespace` of the leader's lease and of flow definitions (default: that of the pod, else default)")
	f.BoolVar(&o.alone, "no-leader-election", false, "work without a lease: only where no other operator can be")
	f.DurationVar(&o.lease, "lease", 15*time.Second, "how long a silent operator is waited for before others take over, as leader and of its runs")
	f.StringVar(&o.store, "runs", string(kubestore.Run), "what runs are kept as: Run or ConfigMap")
	f.StringVar(&o.name, "operator-name", "", "serve the clusters whose spec.operatorName is this (default: all)")
	f.StringVar(&o.image, "image", defaultImage(), "`image` of pawl, for cluster managers and beside engines")
	f.StringVar(&o.tool, "image-entrypoint", "/usr/local/bin/pawl", "`path` of pawl in that image")
	f.StringToStringVar(&o.images, "engine-image", map[string]string{"15": "postgres:15"}, "`version=image` of engines, for clusters that name none")
	f.StringVar(&o.version, "engine-version", "", "`version` of engines, for clusters that name none (default: the newest of --engine-image)")
	f.Int64Var(&o.user, "engine-user", 999, "user `id` that engines run as")
	f.StringVar(&o.storageClass, "storage-class", "", "`class` of new claims (default: the default one)")
	f.DurationVar(&o.writerLease, "writer-lease", 10*time.Second, "how long a writer may write without renewing its lease")
	f.DurationVar(&o.failoverAfter, "failover-after", 5*time.Second, "how long a writer must be silent until its cluster manager fails over")
	f.IntVar(&o.attempts, "attempts", sharedstorage.Attempts, "attempts of steps at once")
	f.IntVar(&o.workers, "workers", controller.DefaultWorkers, "objects worked on at once")
	f.DurationVar(&o.drain, "drain", 25*time.Second, "what open attempts get when the operator is stopped")
	f.StringVar(&o.logFormat, "log-format", "text", "text or json")
	return cmd
}

func (a *app) operate(ctx context.Context, o operatorOptions) error {
	logger, err := serverLog(a.err, o.logFormat, a.flags.logLevel)
	if err != nil {
		return err
	}
	crlog.SetLogger(logr.FromSlogHandler(logger.Handler()))
	token := ""
	if o.tokenFile != "" {
		if token, err = secretfile.Secret(o.tokenFile); err != nil {
			return err
		}
	}
	config, err := kubeConfig(o.kubeconfig, o.context)
	if err != nil {
		return err
	}
	if o.lease < 2*time.Second {
		return Usage.Errorf("--lease %s: it is 2s at least", o.lease)
	}
	if o.failoverAfter < time.Second {
		return Usage.Errorf("--failover-after %s: it is 1s at least", o.failoverAfter)
	}
	o.leaseNamespace = cmp.Or(o.leaseNamespace, controller.PodNamespace(), metav1.NamespaceDefault)
	p, err := newOperator(ctx, config, o, token, logger)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.out, "pawl operator serves %s, health and metrics at %s\n", orAll(o.namespaces), p.manager.Addr())
	return errors.Join(p.manager.Start(ctx), p.store.Close())
}

func orAll(namespaces []string) string {
	if len(namespaces) == 0 {
		return "all namespaces"
	}
	return "namespaces " + strings.Join(namespaces, ", ")
}

// operatorProcess is what runs: controllers, and the engine of the leader.
type operatorProcess struct {
	manager *controller.Manager
	store   *kubestore.Store
	engine  *workflow.Engine
}

func newOperator(ctx context.Context, config *rest.Config, o operatorOptions, token string, logger *slog.Logger) (p *operatorProcess, err error) {
	scheme, err := kube.Scheme()
	if err != nil {
		return nil, err
	}
	cached, err := kube.Cache()
	if err != nil {
		return nil, err
	}
	counted := telemetry.NewMetrics()
	m, err := controller.NewManager(config, controller.Options{
		Scheme: scheme, Cache: cached, Namespaces: o.namespaces, Listen: o.listen, MetricsToken: token,
		LeaseNamespace: o.leaseNamespace, Alone: o.alone, Drain: o.drain, Metrics: counted.Registry(), Log: logger,
		LeaseDuration: o.lease, RenewDeadline: o.lease * 2 / 3, RetryPeriod: o.lease * 2 / 15,
	})
	if err != nil {
		return nil, err
	}
	site, err := kube.NewSite(kube.Options{
		Client: m.GetClient(), Live: m.Live(), Image: o.image, Tool: o.tool, Images: o.images, User: o.user,
		StorageClass: o.storageClass, Lease: o.writerLease, FailoverAfter: o.failoverAfter, Wrap: m.Fence, Log: logger,
	})
	if err != nil {
		return nil, err
	}
	if o.version == "" {
		o.version = slices.MaxFunc(slices.Collect(maps.Keys(o.images)), kube.CompareVersions)
	}
	var homes map[string]sharedstorage.ClusterStore
	home, legacy := kube.NewClusterStore(m.GetClient(), m.Live()), kube.NewMPDClusterStore(m.GetClient(), m.Live(), o.name)
	home.Site, legacy.Site = site, site
	withMPD, err := kube.MPDServed(m.GetRESTMapper())
	if err != nil {
		return nil, err
	}
	if withMPD {
		homes = map[string]sharedstorage.ClusterStore{kube.MPDKind: legacy}
	}
	served, err := sharedstorage.New(sharedstorage.Options{
		Homes: homes, Store: home, Ports: site.Ports(), Name: o.name, Version: o.version,
		Event: kube.Teller(m.Events("sharedstorage")), Place: kube.Place, Logger: logger,
	})
	if err != nil {
		return nil, err
	}
	opening, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	keep := kubestore.Options{
		Config: m.GetConfig(), Kind: kubestore.Kind(o.store), Namespace: o.leaseNamespace, Namespaces: o.namespaces,
		Serves: kubestore.Kinds(sharedstorage.Kind, kube.MPDKind), Owner: runOwner, Logger: logger,
	}
	if len(o.namespaces) == 1 { // a role for that namespace is enough
		keep.Namespace, keep.Only = o.namespaces[0], true
	}
	store, err := kubestore.Open(opening, keep)
	if err != nil {
		return nil, err
	}
	p = &operatorProcess{manager: m, store: store}
	p.engine, err = served.Engine(store, workflow.Options{
		Attempts: o.attempts, Lease: o.lease, Drain: o.drain, Object: served.Object, Healers: kube.Healers(), Hooks: []workflow.Hook{counted.Hook()}, Logger: logger,
	})
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	counted.Watch(telemetry.Sources{
		Engine: p.engine, Runs: telemetry.CountActive(store, 10*time.Second),
		Stats: func() map[string]float64 { return map[string]float64{"requests": float64(store.Requests())} },
	})
	if err := kube.Setup(m, served, o.name, site, p.engine, o.workers); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	if withMPD {
		if err := kube.SetupMPD(m, served, legacy, site, p.engine, o.workers); err != nil {
			return nil, errors.Join(err, store.Close())
		}
	}
	requests := func(ctx context.Context) error { return store.ServeRequests(ctx, p.engine) }
	return p, errors.Join(m.Add(leading{p.engine.Serve}), m.Add(leading{requests}))
}

// runOwner lets the runs of a cluster go with it. A subject is kind/namespace/name/uid.
func runOwner(subject string) *metav1.OwnerReference {
	parts := strings.Split(subject, "/")
	api := map[string]string{sharedstorage.Kind: v1alpha1.GroupVersion.String(), kube.MPDKind: mpd.GroupVersion.String()}[parts[0]]
	if len(parts) != 4 || api == "" {
		return nil
	}
	return &metav1.OwnerReference{APIVersion: api, Kind: parts[0], Name: parts[2], UID: types.UID(parts[3])}
}

// leading runs while this operator is the leader.
type leading struct{ serve func(context.Context) error }

var _ manager.LeaderElectionRunnable = leading{}

// Start implements manager.Runnable.
func (l leading) Start(ctx context.Context) error { return l.serve(ctx) }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (leading) NeedLeaderElection() bool { return true }
