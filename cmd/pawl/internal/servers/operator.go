package servers

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	crlog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/operate"
	"github.com/pawl-dev/pawl/kube/controller"
	kuberuns "github.com/pawl-dev/pawl/kube/runstore"
	"github.com/pawl-dev/pawl/operator/rollout"
	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/operator/sharedstorage/kube"
	"github.com/pawl-dev/pawl/secretfile"
)

// operatorFlags are the flags of pawl operator beside the options of the process.
type operatorFlags struct{ kubeconfig, context, tokenFile, logFormat, runs string }

// defaultImage is the image of this version of pawl.
func defaultImage(v string) string {
	if strings.HasPrefix(v, "v") {
		return "ghcr.io/pawl-dev/pawl:" + v
	}
	return "ghcr.io/pawl-dev/pawl:latest"
}

func (a verbs) operatorCommand() *cobra.Command {
	var flags operatorFlags
	var o operate.Options
	cmd := &cobra.Command{
		Use: "operator", Short: "Run the Kubernetes controllers",
		Long: `Serves the kinds that are installed, now or later, or those of --operators:
` + operate.About() + `
Runs are kept in the cluster, as Run objects or ConfigMaps. Of several processes one
works, the leader; the others take over when its lease ends.
/healthz, /readyz and /metrics are served at --listen. SIGTERM drains.

Hooks of Rollouts may name the flows of --flows, which are read at the start. Webhooks,
metrics and http steps reach public addresses, and those of --http-allow.

Outside of a pod it uses $KUBECONFIG or ~/.kube/config.`,
		Example: "  pawl operator --image ghcr.io/pawl-dev/pawl:v0.9.0\n  pawl operator --namespaces databases --engine-image 15=postgres:15.18 --listen 127.0.0.1:7296\n  pawl operator --operators rollout --flows /etc/pawl/flows --http-allow 10.0.0.0/8 --rollout-exec",
		Args:    cobra.NoArgs,
		RunE: a.Verb(func(ctx context.Context, _ *cobra.Command, _ []string) error {
			return a.operate(ctx, flags, o)
		}),
	}
	f := cmd.Flags()
	f.StringVar(&o.Listen, "listen", "", "`host:port` of health and metrics (default: :7296 in a pod, else 127.0.0.1:7296)")
	f.StringVar(&flags.tokenFile, "metrics-token-file", "", "`file` with the token that metrics need off loopback; only its owner may read it")
	f.StringVar(&flags.kubeconfig, "kubeconfig", "", "`file` with the way to the cluster (default: the pod's account, $KUBECONFIG, ~/.kube/config)")
	f.StringVar(&flags.context, "context", "", "`context` of that file")
	f.StringSliceVar(&o.Operators, "operators", nil, "`names` of the operators that are served, or with a - before them left out (default: those whose kinds are installed)")
	f.StringSliceVar(&o.Namespaces, "namespaces", nil, "`namespaces` that are served (default: all)")
	f.StringVar(&o.LeaseNamespace, "operator-namespace", "", "`namespace` of the leader's lease and of flow definitions (default: that of the pod, else default)")
	f.BoolVar(&o.Alone, "no-leader-election", false, "work without a lease: only where no other operator can be")
	f.DurationVar(&o.Lease, "lease", 15*time.Second, "how long a silent operator is waited for before others take over, as leader and of its runs")
	f.StringVar(&flags.runs, "runs", string(kuberuns.Run), "what runs are kept as: Run or ConfigMap")
	f.StringVar(&o.SharedStorage.Name, "operator-name", "", "serve the objects whose spec.operatorName is this (default: all)")
	f.StringVar(&o.RolloutGuard, "rollout-guard", rollout.DefaultGuard, "`name` of the admission rule that keeps the hold of Rollouts")
	f.BoolVar(&o.RolloutExec, "rollout-exec", false, "let probes and handovers of Rollouts run commands in pods")
	f.StringVar(&o.SharedStorage.Image, "image", defaultImage(a.VersionText()), "`image` of pawl, for cluster managers and beside engines")
	f.StringVar(&o.SharedStorage.Tool, "image-entrypoint", "/usr/local/bin/pawl", "`path` of pawl in that image")
	f.StringToStringVar(&o.SharedStorage.Images, "engine-image", map[string]string{"15": "postgres:15"}, "`version=image` of engines, for clusters that name none")
	f.StringVar(&o.SharedStorage.PoolerImage, "pooler-image", kube.DefaultPoolerImage, "`image` that has pgbouncer, for clusters that name none in spec.pooler")
	f.StringVar(&o.SharedStorage.Version, "engine-version", "", "`version` of engines, for clusters that name none (default: the newest of --engine-image)")
	f.Int64Var(&o.SharedStorage.User, "engine-user", 999, "user `id` that engines run as")
	f.StringVar(&o.SharedStorage.StorageClass, "storage-class", "", "`class` of new claims (default: the default one)")
	f.DurationVar(&o.SharedStorage.WriterLease, "writer-lease", 7*time.Second, "how long a writer may write without renewing its lease")
	f.DurationVar(&o.SharedStorage.FailoverAfter, "failover-after", 5*time.Second, "how long a writer must be silent until its cluster manager fails over")
	o.FoundationDB.AddFlags(f)
	f.IntVar(&o.Attempts, "attempts", sharedstorage.Attempts, "attempts of steps at once")
	f.IntVar(&o.Workers, "workers", controller.DefaultWorkers, "objects worked on at once")
	f.DurationVar(&o.Drain, "drain", 25*time.Second, "what open attempts get when the operator is stopped")
	f.StringVar(&flags.logFormat, "log-format", "text", "text or json")
	if err := cmd.RegisterFlagCompletionFunc("operators", cobra.FixedCompletions(operate.Names(), cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag stands above
	}
	return cmd
}

func (a verbs) operate(ctx context.Context, flags operatorFlags, o operate.Options) error {
	logger, err := serverLog(a.Err, flags.logFormat, a.Flags.LogLevel)
	if err != nil {
		return err
	}
	crlog.SetLogger(logr.FromSlogHandler(logger.Handler()))
	if err := operate.Check(o.Operators); err != nil {
		return cli.Usage.Errorf("--operators: %w", err)
	}
	if flags.tokenFile != "" {
		if o.MetricsToken, err = secretfile.Secret(flags.tokenFile); err != nil {
			return err
		}
	}
	if o.Config, err = cli.KubeConfig(flags.kubeconfig, flags.context); err != nil {
		return err
	}
	if o.Lease < 2*time.Second {
		return cli.Usage.Errorf("--lease %s: it is 2s at least", o.Lease)
	}
	if o.SharedStorage.FailoverAfter < time.Second {
		return cli.Usage.Errorf("--failover-after %s: it is 1s at least", o.SharedStorage.FailoverAfter)
	}
	o.Listen = cmp.Or(o.Listen, defaultListen(controller.PodNamespace() != ""))
	o.LeaseNamespace = cmp.Or(o.LeaseNamespace, controller.PodNamespace(), metav1.NamespaceDefault)
	o.Runs, o.Log = kuberuns.Kind(flags.runs), logger
	o.Flows, o.Actions, o.HTTPAllow, o.Secrets = a.Flags.Flows, a.Flags.Actions, a.Flags.HTTPAllow, a.Secrets()
	p, err := operate.New(ctx, o)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.Out, "pawl operator serves %s, health and metrics at %s\n", orAll(o.Namespaces), p.Manager.Addr())
	return p.Run(ctx)
}

// defaultListen returns where health and metrics are served. A machine may have the pods of a
// dev-cluster beside this operator, each at an address of its own.
func defaultListen(inPod bool) string {
	if inPod {
		return ":7296" // the kubelet and Services reach the pod
	}
	return "127.0.0.1:7296"
}

func orAll(namespaces []string) string {
	if len(namespaces) == 0 {
		return "all namespaces"
	}
	return "namespaces " + strings.Join(namespaces, ", ")
}
