// Package sync compares what the providers of clusters have with what is recorded,
// and decides the health of each cluster.
package sync

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/notices"
	"github.com/pawl-dev/pawl/cluster/observe"
	"github.com/pawl-dev/pawl/cluster/periodic"
	"github.com/pawl-dev/pawl/cluster/providers"
	"github.com/pawl-dev/pawl/cluster/settings"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/lock"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Limits of a synchronization pass.
const (
	maxDecisions = 64              // clusters whose health is decided at once; their endpoints may be slow
	probeTimeout = 3 * time.Second // of an endpoint
)

// Store is the part of cluster.Store that the synchronization uses.
type Store interface {
	Scan(ctx context.Context, q cluster.ScanQuery, visit func(*cluster.Record) error) error
	Details(ctx context.Context, uuid string) (*cluster.Details, error)
	Commit(ctx context.Context, c *cluster.Change) error
}

// Providers finds configured providers.
type Providers interface {
	Names() []string
	Provider(name string) (cluster.Provider, error)
}

// Runs reads runs. A *workflow.Engine implements it.
type Runs interface {
	Get(ctx context.Context, id string) (*runtype.Run, error)
}

// Notices stores the results of passes over a provider.
type Notices interface {
	Save(ctx context.Context, provider, task string, failure error, orphans []cluster.Orphan)
}

// Metrics receives measurements. It must be safe for concurrent use.
type Metrics interface {
	SyncPass(provider string, took time.Duration, clusters int)
}

// Options of a Synchronizer.
type Options struct {
	Store        Store
	Providers    Providers
	Runs         Runs
	Notices      Notices
	Notify       func(uuid string) // queues a cluster for the controller
	Locks        lock.Backend      // nil: there is only this process
	Owner        string            // name of this process in locks
	Installation string            // id of this installation, in the tags of all resources
	Settings     settings.Settings
	Versions     settings.Versions
	// Probe checks that the endpoint of a cluster answers. nil: no probe.
	Probe   func(ctx context.Context, c *cluster.Cluster, d *cluster.Details) error
	Metrics Metrics
	Logger  *slog.Logger
	Now     func() time.Time
}

// Synchronizer compares the clusters of each provider with their records.
type Synchronizer struct {
	options Options

	mu            sync.Mutex
	inventories   map[string]zoneInventory    // by provider: zones and networks with clusters
	foreignShares map[[2]string]*foreignShare // by provider and zone
	firstPasses   map[string]chan struct{}    // by provider: closed when the first pass has ended
}

// New returns a synchronizer.
func New(o Options) *Synchronizer { return &Synchronizer{options: o} }

// Run makes a pass over each provider every Settings.SyncEvery until the context
// ends; the first pass begins at once.
func (s *Synchronizer) Run(ctx context.Context) error {
	task := periodic.Task{
		Name: "sync", Parts: s.options.Providers.Names(), Every: s.options.Settings.SyncEvery, Pass: s.pass,
		Locks: s.options.Locks, Owner: s.options.Owner, Logger: s.options.Logger,
	}
	return task.Run(ctx)
}

// FirstPass returns a channel that is closed when the first synchronization of
// a provider in this process has ended.
func (s *Synchronizer) FirstPass(provider string) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.firstPassLocked(provider)
}

func (s *Synchronizer) firstPassLocked(provider string) chan struct{} {
	if s.firstPasses == nil {
		s.firstPasses = map[string]chan struct{}{}
	}
	if s.firstPasses[provider] == nil {
		s.firstPasses[provider] = make(chan struct{})
	}
	return s.firstPasses[provider]
}

// markSynced records that a pass has ended, with or without an error.
func (s *Synchronizer) markSynced(provider string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.firstPassLocked(provider):
	default:
		close(s.firstPassLocked(provider))
	}
}

// pass decides the health of all clusters of a provider. It reads one paged
// list of each kind and zone, and then scans the records. A resource that is
// missing from its list, or whose listed state would raise an alarm, is read
// again. Only clusters with changed findings are written. The list of VMs
// includes foreign VMs if that does not make it much longer (foreignShare):
// foreign VMs in the network of a cluster are findings.
func (s *Synchronizer) pass(ctx context.Context, name string) error {
	began := time.Now()
	provider, err := s.options.Providers.Provider(name)
	if err != nil {
		return err
	}
	defer s.markSynced(name)
	inventory, known := s.inventoryOf(name)
	if !known { // the first pass
		if inventory, err = s.recordedInventory(ctx, name); err != nil {
			return err
		}
	}
	views := map[string]*zoneView{}
	for zone, networks := range inventory {
		if views[zone], err = s.viewZone(ctx, provider, name, zone, networks); err != nil {
			return err
		}
	}
	s.options.Notices.Save(ctx, name, notices.Sync, firstError(views), nil)
	clusters, seen, err := s.decideAll(ctx, provider, name, views)
	if err != nil {
		return err
	}
	s.putInventory(name, seen)
	if firstError(views) == nil {
		s.options.Metrics.SyncPass(name, time.Since(began), clusters)
	}
	return nil
}

func firstError(views map[string]*zoneView) error {
	var first error
	for _, zone := range slices.Sorted(maps.Keys(views)) {
		if first == nil {
			first = views[zone].err
		}
	}
	return first
}

// zoneView is the result of the lists of a zone.
type zoneView struct {
	at          time.Time // before the first call
	err         error     // of the first list that failed
	networks    networks
	withForeign bool // foreign VMs are listed too
	listed      map[cluster.Kind]bool
	resources   map[string][]observedResource // by the cluster in their tags
	foreign     map[string][]observedResource // foreign VMs, by the cluster whose network they are in
}

// observedResource is the part of a listed resource that DecideHealth needs.
// There may be a hundred thousand VMs, so the rest of a VM is not kept.
type observedResource struct {
	id, name, identity, network, state, key string
	power                                   cluster.Power
	resource                                *cluster.Resource // set for all kinds but VM
}

func observedResourceOf(r *cluster.Resource) observedResource {
	if r.Kind != cluster.VM {
		return observedResource{resource: r}
	}
	return observedResource{id: r.ID, name: r.Name, identity: r.Identity, network: r.Spec.Network, state: r.State, key: r.Tags[cluster.TagKey], power: r.Power}
}

// viewZone lists all kinds of a provider in a zone. A list that fails part-way
// does not count as listed. The error is that of the context.
func (s *Synchronizer) viewZone(ctx context.Context, provider cluster.Provider, name, zone string, n networks) (*zoneView, error) {
	share := s.foreignShareOf(name, zone)
	v := &zoneView{at: s.options.Now(), networks: n, withForeign: share.listForeign(), listed: map[cluster.Kind]bool{}, resources: map[string][]observedResource{}, foreign: map[string][]observedResource{}}
	v.err = v.list(ctx, provider, zone, s.options.Installation, share)
	return v, context.Cause(ctx)
}

// list reads the lists of a zone and ends at the first failure.
func (v *zoneView) list(ctx context.Context, provider cluster.Provider, zone, installation string, share *foreignShare) error {
	for _, kind := range providers.Kinds(provider) {
		ours, others := 0, 0
		err := providers.EachPage(ctx, provider, cluster.Filter{Kind: kind, Zone: zone, Foreign: v.withForeign && kind == cluster.VM}, func(r *cluster.Resource) {
			uuid := r.Tags[cluster.TagCluster]
			if r.Tags[cluster.TagInstallation] != installation {
				uuid = ""
				others++
			} else {
				ours++
			}
			if uuid != "" {
				v.resources[uuid] = append(v.resources[uuid], observedResourceOf(r))
			}
			if owner := v.networks[r.Spec.Network]; kind == cluster.VM && owner != "" && owner != uuid {
				v.foreign[owner] = append(v.foreign[owner], observedResourceOf(r))
			}
		})
		if err != nil {
			return err
		}
		if v.listed[kind] = true; kind == cluster.VM && v.withForeign {
			share.ours, share.foreign = ours, others
		}
	}
	return nil
}

// observed returns the observation of a cluster.
func (v *zoneView) observed(record *cluster.Record) cluster.Observed {
	c := &record.Cluster
	// The list does not cover foreign VMs in a network that is newer than the list.
	seen := cluster.Observed{At: v.at, Listed: v.listed, Proven: map[string]bool{}, ForeignComplete: v.withForeign && (c.Network.ID == "" || v.networks[c.Network.ID] == c.UUID)}
	seen.Resources = make([]cluster.Resource, len(v.resources[c.UUID]))
	for i, s := range v.resources[c.UUID] {
		if s.resource != nil {
			seen.Resources[i] = *s.resource
			continue
		}
		seen.Resources[i] = s.vm(c)
		seen.Resources[i].Tags = map[string]string{cluster.TagCluster: c.UUID, cluster.TagKey: s.key}
	}
	for _, s := range v.foreign[c.UUID] {
		seen.AddFromNetwork(record, s.vm(c))
	}
	return seen
}

func (s observedResource) vm(c *cluster.Cluster) cluster.Resource {
	return cluster.Resource{Kind: cluster.VM, ID: s.id, Name: s.name, Zone: c.Zone.ID, Identity: s.identity, State: s.state, Power: s.power, Spec: cluster.Spec{Network: s.network}}
}

// decideAll decides the health of all clusters of a provider. It returns their
// number and their zoneInventory.
func (s *Synchronizer) decideAll(ctx context.Context, provider cluster.Provider, name string, views map[string]*zoneView) (n int, seen zoneInventory, err error) {
	work := make(chan *cluster.Record)
	var workers sync.WaitGroup
	for range maxDecisions {
		workers.Go(func() {
			for record := range work {
				if err := s.decideOne(ctx, provider, record, views[record.Cluster.Zone.ID]); err != nil && ctx.Err() == nil {
					s.options.Logger.Warn("the health of a cluster could not be decided", "cluster", record.Cluster.UUID, "error", err)
				}
			}
		})
	}
	seen = zoneInventory{}
	err = s.options.Store.Scan(ctx, cluster.ScanQuery{Provider: name}, func(b *cluster.Record) error {
		n++
		seen.add(&b.Cluster)
		select {
		case work <- b:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	close(work)
	workers.Wait()
	return n, seen, err
}

// decideOne decides the health of a cluster and writes changed findings. view is
// nil for a cluster in a zone without clusters at the begin of the pass: the
// next pass decides it.
func (s *Synchronizer) decideOne(ctx context.Context, provider cluster.Provider, record *cluster.Record, view *zoneView) error {
	c := &record.Cluster
	if cluster.Transient(c.State) {
		return s.notifyWithoutRun(ctx, c)
	}
	if view == nil || c.State == cluster.Created || c.State == cluster.Expunge || c.Desired == cluster.WantDestroyed {
		return nil
	}
	seen := view.observed(record)
	seen.SendsHeartbeats = provider.Capabilities().SendsHeartbeats
	if !view.listed[cluster.VM] {
		seen.Err = view.err
	}
	if seen.Err == nil && !view.at.Before(c.StateSince) {
		observe.ReadSuspects(ctx, provider, record, &seen)
		if err := s.probeEndpoint(ctx, c, &seen); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx) // an interrupted observation proves nothing
	}
	return s.saveHealth(ctx, record, seen)
}

func (s *Synchronizer) saveHealth(ctx context.Context, record *cluster.Record, seen cluster.Observed) error {
	c, now := &record.Cluster, s.options.Now()
	j := cluster.DecideHealth(c, record, seen, now, s.options.Settings.Health(s.options.Versions))
	if !j.Decided || !j.Changed {
		s.notifyIfDue(c, now)
		return nil
	}
	before := c.Findings
	j.Apply(c, now)
	if c.State == cluster.Alert && c.Alarm && c.Reason.Code == cluster.ClusterFaulty.Code {
		c.Reason = cluster.FaultyReason(c) // the reason is the present fault, not that at the begin of the alert
	}
	change := &cluster.Change{Cluster: c}
	if !slices.EqualFunc(before, c.Findings, sameFinding) {
		data, err := json.Marshal(struct {
			Findings []cluster.Finding `json:"findings"`
		}{c.Findings})
		if err != nil {
			return err
		}
		e := &cluster.Event{At: now, Type: "drift", State: string(c.State), Event: "Drift", Actor: "sync", Data: data}
		if c.Alarm {
			e.Reason = cluster.FaultyReason(c)
		}
		change.Events = []*cluster.Event{e}
	}
	if err := s.options.Store.Commit(ctx, change); err != nil {
		if errors.Is(err, fault.WriteConflict) {
			return nil // the cluster has changed since it was read: the next pass decides again
		}
		return err
	}
	s.notifyIfDue(c, now)
	return nil
}

// sameFinding reports findings that need no new event.
func sameFinding(a, b cluster.Finding) bool {
	return a.Type == b.Type && a.Resource == b.Resource && a.ID == b.ID && a.Alarm == b.Alarm && a.Evidence == b.Evidence
}

func (s *Synchronizer) notifyIfDue(c *cluster.Cluster, now time.Time) {
	if cluster.DueEvent(c, nil, now) != "" {
		s.options.Notify(c.UUID)
	}
}

// probeEndpoint probes the endpoint of a cluster that should run. An endpoint
// that does not answer is an observation; the error is that of the store.
func (s *Synchronizer) probeEndpoint(ctx context.Context, c *cluster.Cluster, seen *cluster.Observed) error {
	up := c.State == cluster.Running || c.State == cluster.Alert && c.Desired == cluster.WantRunning
	if s.options.Probe == nil || !up || c.Endpoint == "" || seen.Err != nil {
		return nil
	}
	d, err := s.options.Store.Details(ctx, c.UUID)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	seen.Endpoint = s.options.Probe(ctx, c, d)
	return nil
}

// notifyWithoutRun queues a cluster in a transient state for the controller if it
// has no active run.
func (s *Synchronizer) notifyWithoutRun(ctx context.Context, c *cluster.Cluster) error {
	if c.RunID != "" {
		run, err := s.options.Runs.Get(ctx, c.RunID)
		switch {
		case errors.Is(err, workflow.RunNotFound):
		case err != nil:
			return err
		case !run.Phase.Final():
			return nil
		}
	}
	s.options.Notify(c.UUID)
	return nil
}
