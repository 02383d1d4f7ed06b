package serve

import (
	"fmt"
	"path/filepath"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/pawl-dev/pawl/cluster"
	clustersettings "github.com/pawl-dev/pawl/cluster/settings"
	"github.com/pawl-dev/pawl/fault"
)

// ClustersInvalid is the fault of a --clusters file.
var ClustersInvalid = fault.Declare(fault.Kind{
	Code: "CLUSTERS_CONFIG_INVALID", Class: fault.Invalid, Title: "the file of --clusters cannot be used",
	Remedy: "Correct what the message names; docs/guide/container-clusters.md lists all keys.", Guide: "container-clusters.md",
})

// Clusters is the configuration of container clusters: the file of --clusters.
// Zero fields mean the defaults.
type Clusters struct {
	Installation  string     `yaml:"installation,omitempty" json:"installation,omitempty"`   // in the tags of all created resources; default: generated once and kept in the store
	MasterKeyFile string     `yaml:"masterKeyFile,omitempty" json:"masterKeyFile,omitempty"` // encrypts secrets; default: a file beside the store, or PAWL_MASTER_KEY
	Home          string     `yaml:"home,omitempty" json:"home,omitempty"`                   // URL for heartbeats of nodes; default: where the server listens
	HomeCAFile    string     `yaml:"homeCAFile,omitempty" json:"homeCAFile,omitempty"`
	Bootstrap     string     `yaml:"bootstrapFile,omitempty" json:"bootstrapFile,omitempty"` // template of user data
	Providers     []Provider `yaml:"providers" json:"providers"`
	Versions      []Version  `yaml:"versions,omitempty" json:"versions,omitempty"`

	Recovery       string `yaml:"recovery,omitempty" json:"recovery,omitempty"`
	OnFailure      string `yaml:"onFailure,omitempty" json:"onFailure,omitempty"`
	OnScaleFailure string `yaml:"onScaleFailure,omitempty" json:"onScaleFailure,omitempty"` // keep, rollback
	ForceStop      *bool  `yaml:"forceStop,omitempty" json:"forceStop,omitempty"`
	DrainBlocks    bool   `yaml:"drainBlocks,omitempty" json:"drainBlocks,omitempty"`

	Limits struct {
		Workers        int `yaml:"workers,omitempty" json:"workers,omitempty"`
		PerCluster     int `yaml:"perCluster,omitempty" json:"perCluster,omitempty"`
		PerProvider    int `yaml:"perProvider,omitempty" json:"perProvider,omitempty"`
		MaxUnavailable int `yaml:"maxUnavailable,omitempty" json:"maxUnavailable,omitempty"`
	} `yaml:"limits,omitempty" json:"limits,omitzero"`
	Sync struct {
		Interval     Span `yaml:"interval,omitempty" json:"interval,omitempty"`
		Transitional Span `yaml:"transitional,omitempty" json:"transitional,omitempty"`
		Heartbeat    Span `yaml:"heartbeat,omitempty" json:"heartbeat,omitempty"`
		Passes       int  `yaml:"passes,omitempty" json:"passes,omitempty"`
	} `yaml:"sync,omitempty" json:"sync,omitzero"`
	GC struct {
		Interval    Span `yaml:"interval,omitempty" json:"interval,omitempty"`
		First       Span `yaml:"first,omitempty" json:"first,omitempty"`
		Longest     Span `yaml:"longest,omitempty" json:"longest,omitempty"`
		Grace       Span `yaml:"grace,omitempty" json:"grace,omitempty"`
		ReportAfter int  `yaml:"reportAfter,omitempty" json:"reportAfter,omitempty"`
	} `yaml:"gc,omitempty" json:"gc,omitzero"`
	Timeouts struct {
		Call     Span `yaml:"call,omitempty" json:"call,omitempty"`
		Settle   Span `yaml:"settle,omitempty" json:"settle,omitempty"`
		Endpoint Span `yaml:"endpoint,omitempty" json:"endpoint,omitempty"`
		Join     Span `yaml:"join,omitempty" json:"join,omitempty"`
	} `yaml:"timeouts,omitempty" json:"timeouts,omitzero"`
	Retention struct {
		Clusters Span `yaml:"clusters,omitempty" json:"clusters,omitempty"`
		Jobs     Span `yaml:"jobs,omitempty" json:"jobs,omitempty"`
		Events   Span `yaml:"events,omitempty" json:"events,omitempty"`
	} `yaml:"retention,omitempty" json:"retention,omitzero"`
	Query struct {
		EnforcePostAndExpiry bool `yaml:"enforcePostAndExpiry,omitempty" json:"enforcePostAndExpiry,omitempty"`
		RatePerSecond        int  `yaml:"ratePerSecond,omitempty" json:"ratePerSecond,omitempty"`
		Burst                int  `yaml:"burst,omitempty" json:"burst,omitempty"`
		PageMaximum          int  `yaml:"pageMaximum,omitempty" json:"pageMaximum,omitempty"`
	} `yaml:"query,omitempty" json:"query,omitzero"`
}

// Provider is a configured infrastructure.
type Provider struct {
	Name string `yaml:"name" json:"name"`
	Type string `yaml:"type" json:"type"` // local, sim, cloudstack

	Dir      string `yaml:"dir,omitempty" json:"dir,omitempty"` // local; sim: file of its state
	MaxVMs   int    `yaml:"maxVMs,omitempty" json:"maxVMs,omitempty"`
	Cores    int    `yaml:"cores,omitempty" json:"cores,omitempty"`
	MemoryMB int    `yaml:"memoryMB,omitempty" json:"memoryMB,omitempty"`

	URL             string `yaml:"url,omitempty" json:"url,omitempty"` // cloudstack
	APIKey          string `yaml:"apiKey,omitempty" json:"apiKey,omitempty"`
	SecretFile      string `yaml:"secretFile,omitempty" json:"secretFile,omitempty"`
	NetworkOffering string `yaml:"networkOffering,omitempty" json:"networkOffering,omitempty"`
	Template        string `yaml:"template,omitempty" json:"template,omitempty"`

	Zones    []string `yaml:"zones,omitempty" json:"zones,omitempty"`       // ids; none: all that the key sees
	PageSize int      `yaml:"pageSize,omitempty" json:"pageSize,omitempty"` // of lists; 0: 500, or what the server allows
	Rate     int      `yaml:"rate,omitempty" json:"rate,omitempty"`         // calls a second in each zone; 0: 20
	Parallel int      `yaml:"parallel,omitempty" json:"parallel,omitempty"` // calls at a time in each zone; 0: 10

	// Account owns the resources at the provider; default: the account of the key.
	// Accounts names another one for accounts of Pawl, by their ids.
	Account  ProviderAccount            `yaml:"account,omitempty" json:"account,omitzero"`
	Accounts map[string]ProviderAccount `yaml:"accounts,omitempty" json:"accounts,omitempty"`
}

// ProviderAccount is an account of a CloudStack server.
type ProviderAccount struct {
	Name     string `yaml:"name" json:"name"`
	DomainID string `yaml:"domainID" json:"domainID"`
}

// accountOf maps owners to accounts of the server; nil: all is the key's.
func (p Provider) accountOf() func(cluster.Owner) (account, domainID string) {
	if p.Account == (ProviderAccount{}) && len(p.Accounts) == 0 {
		return nil
	}
	return func(o cluster.Owner) (string, string) {
		a, ok := p.Accounts[o.AccountID]
		if !ok {
			a = p.Account
		}
		return a.Name, a.DomainID
	}
}

// Version is a configured version of what runs on nodes.
type Version struct {
	ID       string `yaml:"id" json:"id"`
	Name     string `yaml:"name,omitempty" json:"name,omitempty"`
	Semantic string `yaml:"version" json:"version"`
	Template string `yaml:"template" json:"template"`
	Cores    int    `yaml:"minCores,omitempty" json:"minCores,omitempty"`
	MemoryMB int    `yaml:"minMemoryMB,omitempty" json:"minMemoryMB,omitempty"`
	Disabled bool   `yaml:"disabled,omitempty" json:"disabled,omitempty"`
}

// Span is a duration in a file, such as 30s or 6h.
type Span time.Duration

// UnmarshalYAML reads a duration.
func (s *Span) UnmarshalYAML(n *yaml.Node) error {
	d, err := time.ParseDuration(n.Value)
	if err != nil || d <= 0 {
		return fmt.Errorf("line %d: %q is no span of time such as 30s or 6h", n.Line, n.Value)
	}
	*s = Span(d)
	return nil
}

// MarshalText writes a duration.
func (s Span) MarshalText() ([]byte, error) { return []byte(time.Duration(s).String()), nil }

// settings are those of the service.
func (c *Clusters) settings() clustersettings.Settings {
	recovery, _ := cluster.ParseRecovery(c.Recovery) // checked when it was read
	return clustersettings.Settings{
		SyncEvery: time.Duration(c.Sync.Interval), CollectEvery: time.Duration(c.GC.Interval),
		GCFirst: time.Duration(c.GC.First), GCLongest: time.Duration(c.GC.Longest), OrphanGrace: time.Duration(c.GC.Grace), ReportAfter: c.GC.ReportAfter,
		Settle: time.Duration(c.Timeouts.Settle), MaxWorkers: c.Limits.Workers, PerCluster: c.Limits.PerCluster, PerProvider: c.Limits.PerProvider,
		MaxUnavailable: c.Limits.MaxUnavailable, NoForceStop: c.ForceStop != nil && !*c.ForceStop, RollbackScale: c.OnScaleFailure == "rollback",
		DrainBlocks: c.DrainBlocks, Recovery: recovery, OnFailure: cluster.OnFailure(c.OnFailure),
		Tolerances:   cluster.Tolerances{Transitional: time.Duration(c.Sync.Transitional), Passes: c.Sync.Passes, HeartbeatTimeout: time.Duration(c.Sync.Heartbeat)},
		Retention:    cluster.Retention{Clusters: time.Duration(c.Retention.Clusters), Jobs: time.Duration(c.Retention.Jobs), Events: time.Duration(c.Retention.Events)},
		EndpointWait: time.Duration(c.Timeouts.Endpoint), JoinWait: time.Duration(c.Timeouts.Join), CallTimeout: time.Duration(c.Timeouts.Call),
	}
}

func (c *Clusters) versions() clustersettings.Versions {
	var all clustersettings.Versions
	for _, v := range c.Versions {
		name := v.Name
		if name == "" {
			name = v.ID
		}
		all = append(all, clustersettings.Version{ID: v.ID, Name: name, Semantic: v.Semantic, Template: cluster.Entity{ID: v.Template, Name: v.Template},
			MinCores: v.Cores, MinMemory: v.MemoryMB, Disabled: v.Disabled})
	}
	return all
}

// LocalClusters is the configuration of `pawl dev`: VMs are processes of this
// machine. It polls often, so that changes show at once; and a call ends with its
// process, so that an empty lookup is trusted soon.
func LocalClusters(dir string) *Clusters {
	c := &Clusters{
		Providers: []Provider{{Name: "local", Type: "local", Dir: filepath.Join(dir, "vms")}},
		Versions: []Version{
			{ID: "v1.0", Semantic: "1.0.0", Template: "node-1.0"},
			{ID: "v1.1", Semantic: "1.1.0", Template: "node-1.1"},
		},
	}
	c.Sync.Interval = Span(2 * time.Second)
	c.GC.Interval, c.GC.First = Span(10*time.Second), Span(5*time.Second)
	c.Timeouts.Call, c.Timeouts.Settle = Span(10*time.Second), Span(12*time.Second)
	return c
}
