package service

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/workflow"
)

// pruneTask is the part of the collector that deletes old records. It has no
// provider.
const pruneTask = "records"

// collectBatch is how many clusters the collector works on at once.
const collectBatch = 8

// collectRunner returns the collector. It makes a pass over each provider every
// Settings.CollectEvery; the first pass follows the first synchronization.
func (s *Service) collectRunner() control.Runner {
	return &periodicTask{s: s, name: "collect", parts: append(s.providerNames(), pruneTask), every: s.options.Settings.CollectEvery, first: s.awaitSync, pass: func(ctx context.Context, lease string) error {
		if lease == pruneTask {
			_, err := s.options.Records.Prune(ctx, s.options.Now(), s.options.Settings.Retention)
			return err
		}
		return s.collectPass(ctx, lease)
	}}
}

// collection is one pass of the collector over a provider.
type collection struct {
	s          *Service
	name       string
	provider   cluster.Provider
	resources  map[string][]foundResource // all with the tag of this installation, by the cluster in their tags
	orphans    []cluster.Orphan
	unanswered atomic.Int64 // calls in a row without an answer
}

// maxUnanswered is the number of calls in a row without an answer after which
// the provider counts as unreachable and the pass ends.
const maxUnanswered = 5

// collectPass deletes garbage of a provider: clusters in Expunge that are due,
// lazy clean-ups, open journal rows without an active run, and orphans.
func (s *Service) collectPass(ctx context.Context, name string) error {
	provider, err := s.provider(name)
	if err != nil {
		return err
	}
	p := &collection{s: s, name: name, provider: provider, resources: map[string][]foundResource{}}
	if err := p.list(ctx); err != nil {
		return p.endedEarly(ctx, err)
	}
	s.background.setFirstSeen(name, p.resources, s.options.Now())
	var batch []*cluster.Record
	flush := func() error {
		failures := make([]error, len(batch))
		each(indexes(batch), collectBatch, func(i int) { failures[i] = p.collectRecord(ctx, batch[i]) })
		batch = batch[:0]
		return errors.Join(failures...)
	}
	err = s.options.Records.Scan(ctx, cluster.ScanQuery{Provider: name}, func(b *cluster.Record) error {
		if p.idle(b) {
			return nil
		}
		if batch = append(batch, b); len(batch) < collectBatch {
			return nil
		}
		return flush()
	})
	if err == nil {
		err = flush()
	}
	if err == nil {
		err = p.destroyedClusters(ctx)
	}
	if err == nil {
		err = p.unknownClusters(ctx)
	}
	if err != nil {
		return p.endedEarly(ctx, err)
	}
	slices.SortFunc(p.orphans, func(a, b cluster.Orphan) int {
		return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.ID, b.ID))
	})
	s.saveNotice(ctx, name, taskCollect, nil, p.orphans)
	return nil
}

func indexes[T any](items []T) []int {
	all := make([]int, len(items))
	for i := range all {
		all[i] = i
	}
	return all
}

// foundResource is the part of a listed resource that the collector keeps. There
// may be a hundred thousand, and a reference to one item would keep its whole
// page in memory.
type foundResource struct {
	kind                          cluster.Kind
	id, name, zone, identity, key string
	created                       time.Time
	sourceNAT                     bool
}

func foundResourceOf(r *cluster.Resource) foundResource {
	return foundResource{r.Kind, r.ID, r.Name, r.Zone, r.Identity, r.Tags[cluster.TagKey], r.Created, r.SourceNAT}
}

// toResource returns the resource as it was listed. uuid is the cluster in its
// tags.
func (p *collection) toResource(t foundResource, uuid string) cluster.Resource {
	return cluster.Resource{
		Kind: t.kind, ID: t.id, Name: t.name, Zone: t.zone, Identity: t.identity, Created: t.created, SourceNAT: t.sourceNAT,
		Tags: map[string]string{cluster.TagInstallation: p.s.options.Installation, cluster.TagCluster: uuid, cluster.TagKey: t.key},
	}
}

// awaitSync delays the first pass of the collector over a provider until the
// first pass of the synchronization has ended, at most Settings.CollectFirst.
// Otherwise both would hold the lists of a large cloud in memory at once.
func (s *Service) awaitSync(ctx context.Context, lease string) {
	if lease == pruneTask {
		return
	}
	limit := time.NewTimer(s.options.Settings.CollectFirst)
	defer limit.Stop()
	select {
	case <-s.background.firstSync(lease):
	case <-limit.C:
	case <-ctx.Done():
	}
}

// endedEarly reports an error that ended a pass.
func (p *collection) endedEarly(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, cluster.CredentialsRefused):
		p.s.options.Metrics.Collected("credentials")
	case fault.Of(err).Class == fault.Transient:
		p.s.options.Metrics.Collected("unreachable")
	default:
		return err
	}
	p.s.saveNotice(ctx, p.name, taskCollect, err, nil)
	return nil
}

func (p *collection) list(ctx context.Context) error {
	for _, kind := range kindsOf(p.provider) {
		if err := eachPage(ctx, p.provider, cluster.Filter{Kind: kind}, func(r *cluster.Resource) {
			if r.Tags[cluster.TagInstallation] == p.s.options.Installation {
				uuid := r.Tags[cluster.TagCluster]
				p.resources[uuid] = append(p.resources[uuid], foundResourceOf(r))
			}
		}); err != nil {
			return err
		}
	}
	return nil
}

// idle reports a cluster without work for the collector. It drops its resources
// from the pass: all of them are known.
func (p *collection) idle(b *cluster.Record) bool {
	c, now := &b.Cluster, p.s.options.Now()
	resources := p.resources[c.UUID]
	if c.State == cluster.Expunge || c.State == cluster.Created || cluster.LazyCleanup(c) {
		delete(p.resources, c.UUID)
		return false
	}
	for _, t := range resources {
		if p.orphan(p.toResource(t, c.UUID), b) != cluster.OrphanLeave {
			return false
		}
	}
	for i := range b.Journal {
		if cluster.DecideRow(&b.Journal[i], b, now, p.s.options.Settings.OrphanGrace) != cluster.RowLeave {
			return false
		}
	}
	delete(p.resources, c.UUID)
	return true
}

func (p *collection) orphan(r cluster.Resource, b *cluster.Record) cluster.OrphanAction {
	return cluster.DecideOrphan(r, b, p.s.options.Installation, p.s.options.Now(), p.s.options.Settings.OrphanGrace)
}

// collectRecord does the work of the collector on one cluster.
func (p *collection) collectRecord(ctx context.Context, b *cluster.Record) error {
	c, now := &b.Cluster, p.s.options.Now()
	switch {
	case cluster.LazyCleanup(c) && c.RunID != "":
		err := p.s.engine.Send(ctx, c.RunID, workflow.Signal{ID: cluster.SignalCollect + "/" + c.RunID, Name: cluster.SignalCollect, Actor: "collector", At: now})
		if errors.Is(err, workflow.RunNotFound) {
			p.s.notify(c.UUID)
			return nil
		}
		return err
	case c.State == cluster.Expunge && c.GC && c.GCNext.IsZero():
		c.GCNext = now
		if err := p.s.commit(ctx, &cluster.Change{Cluster: c}); err != nil {
			return ignoreConflict(err)
		}
		p.s.notify(c.UUID)
		return nil
	case c.State == cluster.Expunge || c.State == cluster.Created || cluster.Transient(c.State):
		p.s.notifyIfDue(c, now)
		return nil
	}
	resources := p.takeResources(c.UUID)
	return p.clean(ctx, b, resources)
}

// clean deletes the rows and orphans of a cluster without an active run. Before
// the first delete it writes the cluster's revision with compare-and-set: if a
// run has begun in the meantime, the write conflicts and nothing is deleted.
func (p *collection) clean(ctx context.Context, b *cluster.Record, resources []foundResource) error {
	rows, change := p.rows(b, resources)
	deletes := slices.ContainsFunc(rows, func(r *cluster.JournalRow) bool { return r.Phase == cluster.Closing || r.Phase == cluster.Leaked })
	if b.Cluster.State == cluster.Destroyed {
		change.ClusterID = b.Cluster.ID
	} else {
		change.Cluster = &b.Cluster
	}
	if deletes {
		if err := p.s.commit(ctx, change); err != nil {
			return ignoreConflict(err)
		}
	}
	slices.SortStableFunc(rows, func(x, y *cluster.JournalRow) int {
		return slices.Index(deletionOrder, x.Kind) - slices.Index(deletionOrder, y.Kind)
	})
	for _, row := range rows {
		if err := ignoreConflict(p.cleanRow(ctx, b, row)); err != nil {
			return err
		}
	}
	return nil
}

var deletionOrder = []cluster.Kind{cluster.Forward, cluster.Balancer, cluster.Firewall, cluster.VM, cluster.Address, cluster.KeyPair, cluster.Network}

// rows returns the rows to work on, and the change to write first: rows of
// orphans, and rows that begin to close.
func (p *collection) rows(b *cluster.Record, resources []foundResource) ([]*cluster.JournalRow, *cluster.Change) {
	c, now := &b.Cluster, p.s.options.Now()
	var rows []*cluster.JournalRow
	change := &cluster.Change{}
	for i := range b.Journal {
		row := &b.Journal[i]
		act := cluster.DecideRow(row, b, now, p.s.options.Settings.OrphanGrace)
		if act == cluster.RowLeave {
			continue
		}
		if act == cluster.RowDelete && row.ProviderID != "" && row.Phase != cluster.Closing && row.Phase != cluster.Leaked {
			row.Phase, row.ClosingAt, row.Attempts = cluster.Closing, now, 0
			change.Journal = append(change.Journal, row)
		}
		rows = append(rows, row)
	}
	for _, t := range resources {
		r := p.toResource(t, c.UUID)
		switch p.orphan(r, b) {
		case cluster.OrphanReport:
			p.report(r, c)
		case cluster.OrphanClose:
			row := &cluster.JournalRow{
				ClusterID: c.ID, Kind: r.Kind, Name: r.Name, Key: "collector/" + string(r.Kind) + "/" + r.ID, Step: "collector", ProviderID: r.ID, Identity: r.Identity,
				Phase: cluster.Closing, Origin: cluster.OriginAdopted, IntentAt: now, ClosingAt: now, Spec: cluster.Spec{Zone: r.Zone},
			}
			for slices.ContainsFunc(b.Journal, func(old cluster.JournalRow) bool { return old.Key == row.Key }) {
				row.Key += "'" // it was closed once and exists again
			}
			change.Journal = append(change.Journal, row)
			rows = append(rows, row)
			p.s.options.Logger.Info("an orphan is deleted", "cluster", c.UUID, "kind", r.Kind, "id", r.ID, "name", r.Name)
		}
	}
	return rows, change
}

// takeResources returns the resources of a cluster and removes them from the
// pass.
func (p *collection) takeResources(uuid string) []foundResource {
	p.s.background.mu.Lock() // several clusters are worked on at once
	defer p.s.background.mu.Unlock()
	resources := p.resources[uuid]
	delete(p.resources, uuid)
	return resources
}

// report adds an orphan that is not deleted. known may be nil.
func (p *collection) report(r cluster.Resource, known *cluster.Cluster) {
	orphan := cluster.Orphan{Cluster: r.Tags[cluster.TagCluster], Kind: r.Kind, ID: r.ID, Resource: r.Name, Since: r.Created.UTC().Truncate(time.Millisecond)}
	if known != nil {
		orphan.Known, orphan.Owner = known.Name, known.Owner
	}
	p.s.background.mu.Lock()
	defer p.s.background.mu.Unlock()
	p.orphans = append(p.orphans, orphan)
}

// destroyedClusters works on open rows of Destroyed clusters: orphans that were found
// later.
func (p *collection) destroyedClusters(ctx context.Context) error {
	after := 0
	for {
		rows, total, err := p.s.options.Records.Rows(ctx, cluster.RowQuery{Offset: after,
			Phases: []cluster.Phase{cluster.Intent, cluster.Accepted, cluster.Closing, cluster.Leaked}})
		if err != nil {
			return err
		}
		done := map[string]bool{}
		for _, row := range rows {
			if row.Provider != p.name || row.State != cluster.Destroyed || done[row.Cluster] {
				continue
			}
			done[row.Cluster] = true
			b, err := p.s.options.Records.Record(ctx, row.Cluster)
			if err != nil {
				return err
			}
			if err := p.clean(ctx, b, p.takeResources(row.Cluster)); err != nil {
				return err
			}
		}
		if after += len(rows); after >= total || len(rows) == 0 {
			return nil
		}
	}
}

// unknownClusters handles resources whose cluster the scan did not return: it is
// Destroyed, or this database does not have it.
func (p *collection) unknownClusters(ctx context.Context) error {
	for _, uuid := range slices.Sorted(slices.Values(keysOf(p.resources))) {
		resources := p.resources[uuid]
		var b *cluster.Record
		if uuid != "" {
			var err error
			if b, err = p.s.options.Records.Record(ctx, uuid); err != nil && !errors.Is(err, cluster.NotFound) {
				return err
			}
		}
		if b != nil && b.Cluster.Provider == p.name {
			if b.Cluster.State != cluster.Destroyed {
				continue // it was created in the meantime
			}
			if err := p.clean(ctx, b, resources); err != nil {
				return err
			}
			continue
		}
		for _, t := range resources {
			if r := p.toResource(t, uuid); p.orphan(r, nil) == cluster.OrphanReport {
				p.report(r, nil)
			}
		}
	}
	return nil
}

func ignoreConflict(err error) error {
	if errors.Is(err, fault.WriteConflict) {
		return nil // another writer has changed it: the next pass tries again
	}
	return err
}
