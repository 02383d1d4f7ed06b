package operate

import (
	"context"
	"errors"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/controller"
	"github.com/pawl-dev/pawl/operator/foundationdb/backups"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters"
	fdbkube "github.com/pawl-dev/pawl/operator/foundationdb/kube"
	"github.com/pawl-dev/pawl/operator/foundationdb/restores"
	"github.com/pawl-dev/pawl/operator/foundationdb/tool"
)

// databaseOperator is the FoundationDB operator, for its three kinds. It begins when they are served: its
// cache cannot be made before.
type databaseOperator struct {
	manager *controller.Manager
	options Options

	mu    sync.Mutex
	tools *tool.Database
}

// setup adds the controllers, and tells which versions there are tools for.
func (d *databaseOperator) setup() error {
	m, o := d.manager, d.options
	f := o.FoundationDB
	objects, err := fdbkube.NewObjects(m, fdbkube.ObjectsOptions{Selector: f.Selector, Log: o.Log})
	if err != nil {
		return err
	}
	tools, err := tool.New(tool.Options{Folder: f.Tools, Timeout: f.CLITimeout, MaxTimeout: f.MaxCLITimeout, Allowed: m.Leading, Log: o.Log})
	if err != nil {
		return err
	}
	sidecars := fdbkube.NewSidecars(fdbkube.SidecarOptions{GetTimeout: f.GetTimeout, PostTimeout: f.PostTimeout, TLS: fdbkube.TLSFromEnvironment(), Wrap: m.Fence})
	metrics, err := fdbkube.NewMetrics(m.Metrics())
	if err != nil {
		return errors.Join(err, tools.Close())
	}
	if _, err := fdbkube.NewClusterMetrics(m.Metrics(), objects); err != nil {
		return errors.Join(err, tools.Close())
	}
	options := clusters.Options{
		Limits: f.Limits, Templates: f.Templates, ReplaceOnSecurityContext: f.ReplaceOnSecurityContextChange,
		KeepIncompatible: f.KeepIncompatibleProcesses, AdoptAtOnce: f.AdoptAtOnce, NoStatusCache: f.NoStatusCache, Links: metrics.Link,
	}
	if f.FixCoordinatorIPs {
		shell := fdbkube.NewShell(m.GetConfig(), f.PostTimeout)
		options.WriteClusterFile = func(ctx context.Context, pod *corev1.Pod, c fdb.Connection) error {
			if err := m.Leading(); err != nil {
				return err
			}
			return shell.WriteClusterFile(ctx, pod, c)
		}
	}
	d.mu.Lock()
	d.tools = tools
	d.mu.Unlock()
	o.Log.Info("FoundationDB: tools", "versions", strings.Join(tools.Versions(), " "))
	return fdbkube.Controllers{
		Manager: m, Objects: objects, Look: f.Look, Workers: o.Workers,
		Clusters: clusters.New(objects, tools, sidecars, options),
		Backups:  backups.New(objects, tools, backups.Options{Limits: f.Limits, TemplateLimits: f.Templates, Look: f.Look}),
		Restores: restores.New(objects, tools, restores.Options{Look: f.Look}),
	}.Setup()
}

// close ends the tools that still run.
func (d *databaseOperator) close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.tools == nil {
		return nil
	}
	return d.tools.Close()
}
