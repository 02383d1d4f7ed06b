package operate

import (
	"errors"
	"log/slog"
	"strings"

	"github.com/pawl-dev/pawl/kube/controller"
	"github.com/pawl-dev/pawl/operator/foundationdb/backups"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters"
	fdbkube "github.com/pawl-dev/pawl/operator/foundationdb/kube"
	"github.com/pawl-dev/pawl/operator/foundationdb/restores"
	"github.com/pawl-dev/pawl/operator/foundationdb/tool"
)

// databaseOperator is the FoundationDB operator, for its three kinds.
type databaseOperator struct {
	controllers fdbkube.Controllers
	tools       *tool.Database
}

func newDatabaseOperator(m *controller.Manager, o Options) (*databaseOperator, error) {
	f := o.FoundationDB
	objects, err := fdbkube.NewObjects(m, fdbkube.ObjectsOptions{Selector: f.Selector, Log: o.Log})
	if err != nil {
		return nil, err
	}
	tools, err := tool.New(tool.Options{Folder: f.Tools, Timeout: f.CLITimeout, MaxTimeout: f.MaxCLITimeout, Log: o.Log})
	if err != nil {
		return nil, err
	}
	sidecars := fdbkube.NewSidecars(fdbkube.SidecarOptions{GetTimeout: f.GetTimeout, PostTimeout: f.PostTimeout, TLS: fdbkube.TLSFromEnvironment(), Wrap: m.Fence})
	metrics, err := fdbkube.NewMetrics(m.Metrics())
	if err != nil {
		return nil, errors.Join(err, tools.Close())
	}
	options := clusters.Options{
		Limits: f.Limits, Templates: f.Templates, ReplaceOnSecurityContext: f.ReplaceOnSecurityContextChange,
		KeepIncompatible: f.KeepIncompatibleProcesses, AdoptAtOnce: f.AdoptAtOnce, NoStatusCache: f.NoStatusCache, Links: metrics.Link,
	}
	if f.FixCoordinatorIPs {
		options.WriteClusterFile = fdbkube.NewShell(m.GetConfig(), f.PostTimeout).WriteClusterFile
	}
	return &databaseOperator{tools: tools, controllers: fdbkube.Controllers{
		Manager: m, Objects: objects, Look: f.Look, Workers: o.Workers,
		Clusters: clusters.New(objects, tools, sidecars, options),
		Backups:  backups.New(objects, tools, backups.Options{Limits: f.Limits, TemplateLimits: f.Templates, Look: f.Look}),
		Restores: restores.New(objects, tools, restores.Options{Look: f.Look}),
	}}, nil
}

// setup adds the controllers, and tells which versions there are tools for.
func (d *databaseOperator) setup(log *slog.Logger) func() error {
	return func() error {
		log.Info("FoundationDB: tools", "versions", strings.Join(d.tools.Versions(), " "))
		return d.controllers.Setup()
	}
}
