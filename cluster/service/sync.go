package service

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/workflow"
)

// Limits of a synchronization pass.
const (
	maxDecisions = 64              // clusters whose health is decided at once; their endpoints may be slow
	probeTimeout = 3 * time.Second // of an endpoint
	listTries    = 3               // of a page, while the fault is transient
	listPause    = 200 * time.Millisecond
)

// syncRunner returns the state synchronization. It makes a pass over each
// provider every Settings.SyncEvery; the first pass begins at once.
func (s *Service) syncRunner() control.Runner {
	return &periodicTask{s: s, name: "sync", parts: s.providerNames(), every: s.options.Settings.SyncEvery, pass: s.syncPass}
}

func (s *Service) providerNames() []string {
	names := make([]string, len(s.options.Providers))
	for i, p := range s.options.Providers {
		names[i] = p.Name
	}
	return names
}

// tolerances returns Settings.Tolerances with the server's recovery policy and
// versions.
func (s *Service) tolerances() cluster.Tolerances {
	t := s.options.Settings.Tolerances
	if t.Policy == nil {
		t.Policy = s.options.Settings.Recovery
	}
	t.Versions = make(map[string]string, len(s.options.Versions))
	for _, v := range s.options.Versions {
		t.Versions[v.ID] = v.Semantic
	}
	return t
}

// syncPass decides the health of all clusters of a provider. It reads one paged
// list of each kind and zone, and then scans the records. A resource that is
// missing from its list, or whose listed state would raise an alarm, is read
// again. Only clusters with changed findings are written. The list of VMs
// includes foreign VMs if that does not make it much longer (foreignShare):
// foreign VMs in the network of a cluster are findings.
func (s *Service) syncPass(ctx context.Context, name string) error {
	began := time.Now()
	provider, err := s.provider(name)
	if err != nil {
		return err
	}
	defer s.background.markSynced(name)
	inventory, known := s.background.inventoryOf(name)
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
	s.saveNotice(ctx, name, taskSync, firstError(views), nil)
	clusters, seen, err := s.decideAll(ctx, provider, name, views)
	if err != nil {
		return err
	}
	s.background.putInventory(name, seen)
	if firstError(views) == nil {
		s.options.Metrics.SyncPass(name, time.Since(began), clusters)
	}
	return nil
}

func firstError(views map[string]*zoneView) error {
	var first error
	for _, zone := range slices.Sorted(slices.Values(keysOf(views))) {
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
	id, name, identity, state, key string
	power                          cluster.Power
	resource                       *cluster.Resource // set for all kinds but VM
}

func observedResourceOf(r *cluster.Resource) observedResource {
	if r.Kind != cluster.VM {
		return observedResource{resource: r}
	}
	return observedResource{id: r.ID, name: r.Name, identity: r.Identity, state: r.State, key: r.Tags[cluster.TagKey], power: r.Power}
}

// viewZone lists all kinds of a provider in a zone. A list that fails part-way
// does not count as listed. The error is that of the context.
func (s *Service) viewZone(ctx context.Context, provider cluster.Provider, name, zone string, n networks) (*zoneView, error) {
	share := s.background.foreignShareOf(name, zone)
	v := &zoneView{at: s.options.Now(), networks: n, withForeign: share.listForeign(), listed: map[cluster.Kind]bool{}, resources: map[string][]observedResource{}, foreign: map[string][]observedResource{}}
	v.err = v.list(ctx, provider, zone, s.options.Installation, share)
	return v, context.Cause(ctx)
}

// list reads the lists of a zone and ends at the first failure.
func (v *zoneView) list(ctx context.Context, provider cluster.Provider, zone, installation string, share *foreignShare) error {
	for _, kind := range kindsOf(provider) {
		ours, others := 0, 0
		err := eachPage(ctx, provider, cluster.Filter{Kind: kind, Zone: zone, Foreign: v.withForeign && kind == cluster.VM}, func(r *cluster.Resource) {
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

// kindsOf returns the kinds that are listed, VMs first.
func kindsOf(provider cluster.Provider) []cluster.Kind {
	kinds := []cluster.Kind{cluster.VM}
	for _, k := range provider.Capabilities().Kinds {
		if k != cluster.VM && k != cluster.KeyPair {
			kinds = append(kinds, k)
		}
	}
	return kinds
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
	return cluster.Resource{Kind: cluster.VM, ID: s.id, Name: s.name, Zone: c.Zone.ID, Identity: s.identity, State: s.state, Power: s.power}
}

// eachPage calls visit for each item of a list. It reads a page again while the
// fault is transient.
func eachPage(ctx context.Context, provider cluster.Provider, f cluster.Filter, visit func(*cluster.Resource)) error {
	for at := cluster.Cursor(""); ; {
		var page cluster.Page
		var err error
		for try := 1; ; try++ {
			if page, err = provider.List(ctx, f, at); err == nil || ctx.Err() != nil || fault.Of(err).Class != fault.Transient || try == listTries {
				break
			}
			sleep(ctx, time.Duration(try)*listPause)
		}
		if err != nil {
			return err
		}
		for i := range page.Items {
			visit(&page.Items[i])
		}
		if at = page.Next; at == "" {
			return nil
		}
	}
}

// sleep waits for a duration or until the context ends.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// decideAll decides the health of all clusters of a provider. It returns their
// number and their zoneInventory.
func (s *Service) decideAll(ctx context.Context, provider cluster.Provider, name string, views map[string]*zoneView) (n int, seen zoneInventory, err error) {
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
	err = s.options.Records.Scan(ctx, cluster.ScanQuery{Provider: name}, func(b *cluster.Record) error {
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
func (s *Service) decideOne(ctx context.Context, provider cluster.Provider, record *cluster.Record, view *zoneView) error {
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
		s.readSuspects(ctx, provider, record, &seen)
		if err := s.probeEndpoint(ctx, c, &seen); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx) // an interrupted observation proves nothing
	}
	return s.saveHealth(ctx, record, seen)
}

func (s *Service) saveHealth(ctx context.Context, record *cluster.Record, seen cluster.Observed) error {
	c, now := &record.Cluster, s.options.Now()
	j := cluster.DecideHealth(c, record, seen, now, s.tolerances())
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
	if err := s.commit(ctx, change); err != nil {
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

func (s *Service) notifyIfDue(c *cluster.Cluster, now time.Time) {
	if cluster.DueEvent(c, nil, now) != "" {
		s.notify(c.UUID)
	}
}

// probeEndpoint probes the endpoint of a cluster that should run. An endpoint
// that does not answer is an observation; the error is that of the store.
func (s *Service) probeEndpoint(ctx context.Context, c *cluster.Cluster, seen *cluster.Observed) error {
	up := c.State == cluster.Running || c.State == cluster.Alert && c.Desired == cluster.WantRunning
	if s.options.Probe == nil || !up || c.Endpoint == "" || seen.Err != nil {
		return nil
	}
	d, err := s.options.Records.Details(ctx, c.UUID)
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
func (s *Service) notifyWithoutRun(ctx context.Context, c *cluster.Cluster) error {
	if c.RunID != "" {
		run, err := s.engine.Get(ctx, c.RunID)
		switch {
		case errors.Is(err, workflow.RunNotFound):
		case err != nil:
			return err
		case !run.Phase.Final():
			return nil
		}
	}
	s.notify(c.UUID)
	return nil
}
