// Command classic is an operator in the style of the PolarDB Stack workflow
// library, which runs on Pawl after a change of its imports. See README.md.
package main

import (
	"context"
	"flag"
	"log/slog"
	"os"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/pawl-dev/pawl/compat/wfengine"
	"github.com/pawl-dev/pawl/examples/classic/dbcluster"
)

func main() {
	namespace := flag.String("namespace", "default", "of the clusters")
	elect := flag.Bool("leader-elect", false, "work only as the leader")
	flag.StringVar(&dbcluster.FlowDir, "flows", dbcluster.FlowDir, "folder of the flows")
	flag.Parse()
	slog.SetDefault(slog.New(slog.NewJSONHandler(os.Stdout, nil)))
	ctrl.SetLogger(logr.FromSlogHandler(slog.Default().Handler()))
	if err := run(ctrl.SetupSignalHandler(), *namespace, *elect); err != nil {
		slog.Error("the operator ends", "error", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, namespace string, elect bool) error {
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Cache:          cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}},
		Metrics:        server.Options{BindAddress: "0"},
		LeaderElection: elect, LeaderElectionID: "classic-dbcluster", LeaderElectionNamespace: namespace,
	})
	if err != nil {
		return err
	}
	dbcluster.GetManager() // panics now, and not in a pass, if a flow file is wrong
	dbcluster.GetMachine()
	defer wfengine.Close()
	cluster := predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetLabels()[dbcluster.Label] == o.GetName() })
	err = ctrl.NewControllerManagedBy(mgr).Named(dbcluster.ResourceType).
		For(&corev1.ConfigMap{}, builder.WithPredicates(cluster)).
		Owns(&corev1.Pod{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: 26}).
		Complete(reconcile.Func(pass))
	if err != nil {
		return err
	}
	return mgr.Start(ctx)
}

func pass(_ context.Context, req reconcile.Request) (reconcile.Result, error) {
	found, err := dbcluster.ByName(req.Name, req.Namespace)
	if apierrors.IsNotFound(err) {
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{}, dbcluster.Pass(found)
}
