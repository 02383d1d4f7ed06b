package serve

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/account"
	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/providers"
	"github.com/pawl-dev/pawl/cluster/service"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/backend"
	"github.com/pawl-dev/pawl/provider/cloudstack"
	"github.com/pawl-dev/pawl/provider/local"
	"github.com/pawl-dev/pawl/provider/sim"
	"github.com/pawl-dev/pawl/secretfile"
	"github.com/pawl-dev/pawl/server/auth"
	queryapi "github.com/pawl-dev/pawl/server/cloudstack"
	"github.com/pawl-dev/pawl/telemetry"
	"github.com/pawl-dev/pawl/workflow"
)

// clusters are the parts of the container cluster service.
type clusters struct {
	config   *Clusters
	accounts *account.Service
	service  *service.Service      // nil: this server runs none
	sims     map[string]*sim.Cloud // by the name of the provider
	metrics  *telemetry.Clusters
}

// makeClusters creates the account service and, if it is configured, the cluster service.
func (p *parts) makeClusters(ctx context.Context) error {
	p.clusters.accounts, p.clusters.sims = &account.Service{Store: account.NewCachedStore(p.store.Accounts())}, map[string]*sim.Cloud{}
	config := p.options.Clusters
	if config == nil {
		return nil
	}
	if err := p.store.CheckEncryption(ctx); err != nil {
		return err
	}
	store := p.store.Clusters()
	if config.Installation == "" {
		id, err := p.store.Installation(ctx)
		if err != nil {
			return err
		}
		config.Installation = id
	}
	o := service.Options{
		Records: store, Directory: auth.Directory{Store: p.clusters.accounts.Store}, Worker: workerName(),
		Installation: config.Installation, HomeURL: p.heartbeatURL(config, p.options.Listen), Versions: config.versions(), Settings: config.settings(), Probe: p.probe,
		OnEvent: func(cluster.Event) { p.notifier.Notify() }, Logger: p.log,
	}
	if p.options.Store.Shared() { // else nobody is beside us, and a lock that our predecessor died with would hold us up
		o.Locks = p.store.Locks()
	}
	p.clusters.metrics = telemetry.NewClusters(p.metrics)
	o.Metrics = p.clusters.metrics
	for _, file := range []struct {
		path string
		into *string
	}{{config.HomeCAFile, &o.HomeCA}, {config.Bootstrap, &o.Bootstrap}} {
		if file.path == "" {
			continue
		}
		data, err := os.ReadFile(file.path)
		if err != nil {
			return ClustersInvalid.Errorf("%w", err)
		}
		*file.into = string(data)
	}
	for _, one := range config.Providers {
		if kept, ok := store.(settings); ok {
			if err := recordTenancy(ctx, kept, store, one); err != nil {
				return err
			}
		}
		created, err := p.provider(one, config.Installation)
		if err != nil {
			return ClustersInvalid.Errorf("provider %s: %w", one.Name, err)
		}
		o.Providers = append(o.Providers, providers.Named{Name: one.Name, Provider: created})
	}
	created, err := service.New(o)
	if err != nil {
		return err
	}
	p.clusters.config, p.clusters.service = config, created
	p.clusters.metrics.Watch(p.metrics, created.Count, countsEvery)
	return nil
}

const countsEvery = 15 * time.Second

// heartbeat receives the heartbeats of simulated nodes.
func (p *parts) heartbeat(ctx context.Context, token string, h cluster.Heartbeat) (cluster.HeartbeatAnswer, error) {
	return p.clusters.service.Heartbeat(ctx, token, h)
}

// setPort passes the port that the system has chosen to the clusters.
func (p *parts) setPort(addr net.Addr) {
	host, port, err := net.SplitHostPort(p.options.Listen)
	_, chosen, wrong := net.SplitHostPort(addr.String())
	if p.clusters.service == nil || err != nil || wrong != nil || port != "0" {
		return
	}
	p.clusters.service.SetHomeURL(p.heartbeatURL(p.clusters.config, net.JoinHostPort(host, chosen)))
}

// heartbeatURL is the URL for heartbeats of nodes: the configured one, or the server's own.
func (p *parts) heartbeatURL(config *Clusters, listen string) string {
	if config.Home != "" {
		return strings.TrimSuffix(config.Home, "/")
	}
	scheme := "http"
	if p.options.CertFile != "" {
		scheme = "https"
	}
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return ""
	}
	if host == "" || host == "0.0.0.0" || host == "::" {
		if name, err := os.Hostname(); err == nil {
			host = name
		}
	}
	return fmt.Sprintf("%s://%s", scheme, net.JoinHostPort(host, port))
}

func (p *parts) provider(c Provider, installation string) (cluster.Provider, error) {
	switch c.Type {
	case "local":
		dir := c.Dir
		if dir == "" {
			dir = filepath.Join(backend.StateDir(), "vms", c.Name)
		}
		dir, err := filepath.Abs(dir)
		if err != nil {
			return nil, err
		}
		return local.New(local.Options{Dir: dir, Installation: installation, MaxVMs: c.MaxVMs, Cores: c.Cores, MemoryMB: c.MemoryMB})
	case "sim":
		cloud, err := sim.New(sim.Options{Installation: installation, File: c.Dir, Templates: simTemplates, Times: sim.Times{Boot: 2 * time.Second}, Home: p.heartbeat})
		if err == nil {
			p.clusters.sims[c.Name] = cloud
		}
		return cloud, err
	default:
		secret, err := secretfile.Secret(c.SecretFile)
		if err != nil {
			return nil, err
		}
		return cloudstack.New(cloudstack.Options{
			URL: c.URL, APIKey: c.APIKey, Secret: cluster.Secret(secret), Installation: installation,
			NetworkOffering: c.NetworkOffering, DefaultTemplate: c.Template,
			Zones: c.Zones, PageSize: c.PageSize, Rate: c.Rate, Parallel: c.Parallel, Account: c.accountOf(),
		})
	}
}

// simTemplates are those of the local provider, so that one list of versions serves both.
var simTemplates = []cluster.Entry{{ID: "node-1.0", Name: "node-1.0", Default: true}, {ID: "node-1.1", Name: "node-1.1"}}

func workerName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s/%d", host, os.Getpid())
}

// flows are those of the loaded files, of container clusters and of clusters on shared storage.
func (p *parts) flows(loaded []workflow.Flow) []workflow.Flow {
	all := slices.Concat(loaded, p.shared.flows)
	if p.clusters.service != nil {
		all = append(all, p.clusters.service.Flows()...)
	}
	return all
}

// queryHandler is the handler of /client/api.
func (p *parts) queryHandler() map[string]http.Handler {
	if p.clusters.service == nil {
		return nil
	}
	q := p.clusters.config.Query
	return map[string]http.Handler{queryapi.Path: queryapi.New(queryapi.Options{
		Clusters: p.clusters.service, Accounts: p.clusters.accounts, EnforcePostAndExpiry: q.EnforcePostAndExpiry, PageMax: q.PageMaximum,
		Rate: q.RatePerSecond, Burst: q.Burst, Logger: p.log,
		Observe: func(command string, code int, took time.Duration) {
			p.metrics.Request("", "/client/api "+command, code, took, 0)
		},
	})}
}
