// Package gc deletes garbage of clusters at their providers: open journal rows
// without an active run, and orphans. It also prunes old records.
package gc

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/notices"
	"github.com/pawl-dev/pawl/cluster/periodic"
	"github.com/pawl-dev/pawl/cluster/providers"
	"github.com/pawl-dev/pawl/cluster/settings"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/lock"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// pruneTask is the part of the collector that deletes old records. It has no
// provider.
const pruneTask = "records"

// collectBatch is how many clusters the collector works on at once.
const collectBatch = 8

// Store is the part of cluster.Store that the collector uses.
type Store interface {
	Scan(ctx context.Context, q cluster.ScanQuery, visit func(*cluster.Record) error) error
	Record(ctx context.Context, uuid string) (*cluster.Record, error)
	Rows(ctx context.Context, q cluster.RowQuery) ([]cluster.OwnedRow, int, error)
	Commit(ctx context.Context, c *cluster.Change) error
	Prune(ctx context.Context, now time.Time, keep cluster.Retention) (int, error)
}

// Providers finds configured providers.
type Providers interface {
	Names() []string
	Provider(name string) (cluster.Provider, error)
}

// Runs signals runs. A *workflow.Engine implements it.
type Runs interface {
	Send(ctx context.Context, id string, s runtype.Signal) error
}

// Notices stores the results of passes over a provider.
type Notices interface {
	Save(ctx context.Context, provider, task string, failure error, orphans []cluster.Orphan)
}

// Metrics receives measurements. It must be safe for concurrent use.
type Metrics interface {
	Collected(outcome string)
}

// Options of a Collector.
type Options struct {
	Store     Store
	Providers Providers
	Runs      Runs
	Notices   Notices
	Notify    func(uuid string) // queues a cluster for the controller
	// Synced returns a channel that is closed when the first synchronization of a
	// provider in this process has ended.
	Synced       func(provider string) <-chan struct{}
	Locks        lock.Backend // nil: there is only this process
	Owner        string       // name of this process in locks
	Installation string       // id of this installation, in the tags of all resources
	Settings     settings.Settings
	Metrics      Metrics
	Logger       *slog.Logger
	Now          func() time.Time
}

// Collector deletes what no cluster needs any more.
type Collector struct {
	options Options

	mu        sync.Mutex
	firstSeen map[string]map[string]time.Time // by provider: when a resource without a creation time was first seen
}

// New returns a collector.
func New(o Options) *Collector { return &Collector{options: o} }

// Run makes a pass over each provider every Settings.CollectEvery until the
// context ends; the first pass follows the first synchronization.
func (s *Collector) Run(ctx context.Context) error {
	task := periodic.Task{
		Name: "collect", Parts: append(slices.Clone(s.options.Providers.Names()), pruneTask), Every: s.options.Settings.CollectEvery, First: s.awaitSync,
		Locks: s.options.Locks, Owner: s.options.Owner, Logger: s.options.Logger,
		Pass: func(ctx context.Context, part string) error {
			if part == pruneTask {
				_, err := s.options.Store.Prune(ctx, s.options.Now(), s.options.Settings.Retention)
				return err
			}
			return s.pass(ctx, part)
		},
	}
	return task.Run(ctx)
}

// collection is one pass of the collector over a provider.
type collection struct {
	gc         *Collector
	name       string
	provider   cluster.Provider
	resources  map[string][]foundResource // all with the tag of this installation, by the cluster in their tags
	unanswered atomic.Int64               // calls in a row without an answer

	mu      sync.Mutex // several clusters are worked on at once
	orphans []cluster.Orphan
}

// maxUnanswered is the number of calls in a row without an answer after which
// the provider counts as unreachable and the pass ends.
const maxUnanswered = 5

// pass deletes garbage of a provider: clusters in Expunge that are due,
// lazy clean-ups, open journal rows without an active run, and orphans.
func (s *Collector) pass(ctx context.Context, name string) error {
	provider, err := s.options.Providers.Provider(name)
	if err != nil {
		return err
	}
	p := &collection{gc: s, name: name, provider: provider, resources: map[string][]foundResource{}}
	if err := p.list(ctx); err != nil {
		return p.endedEarly(ctx, err)
	}
	s.setFirstSeen(name, p.resources, s.options.Now())
	var batch []*cluster.Record
	flush := func() error {
		failures := make([]error, len(batch))
		providers.Each(indexes(batch), collectBatch, func(i int) { failures[i] = p.collectRecord(ctx, batch[i]) })
		batch = batch[:0]
		return errors.Join(failures...)
	}
	err = s.options.Store.Scan(ctx, cluster.ScanQuery{Provider: name}, func(b *cluster.Record) error {
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
	s.options.Notices.Save(ctx, name, notices.Collect, nil, p.orphans)
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
		Tags: map[string]string{cluster.TagInstallation: p.gc.options.Installation, cluster.TagCluster: uuid, cluster.TagKey: t.key},
	}
}

// awaitSync delays the first pass of the collector over a provider until the
// first pass of the synchronization has ended, at most Settings.CollectFirst.
// Otherwise both would hold the lists of a large cloud in memory at once.
func (s *Collector) awaitSync(ctx context.Context, lease string) {
	if lease == pruneTask {
		return
	}
	limit := time.NewTimer(s.options.Settings.CollectFirst)
	defer limit.Stop()
	select {
	case <-s.options.Synced(lease):
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
		p.gc.options.Metrics.Collected("credentials")
	case fault.Of(err).Class == fault.Transient:
		p.gc.options.Metrics.Collected("unreachable")
	default:
		return err
	}
	p.gc.options.Notices.Save(ctx, p.name, notices.Collect, err, nil)
	return nil
}

func (p *collection) list(ctx context.Context) error {
	for _, kind := range providers.Kinds(p.provider) {
		if err := providers.EachPage(ctx, p.provider, cluster.Filter{Kind: kind}, func(r *cluster.Resource) {
			if r.Tags[cluster.TagInstallation] == p.gc.options.Installation {
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
	c, now := &b.Cluster, p.gc.options.Now()
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
		if cluster.DecideRow(&b.Journal[i], b, now, p.gc.options.Settings.OrphanGrace) != cluster.RowLeave {
			return false
		}
	}
	delete(p.resources, c.UUID)
	return true
}

func (p *collection) orphan(r cluster.Resource, b *cluster.Record) cluster.OrphanAction {
	return cluster.DecideOrphan(r, b, p.gc.options.Installation, p.gc.options.Now(), p.gc.options.Settings.OrphanGrace)
}

// collectRecord does the work of the collector on one cluster.
func (p *collection) collectRecord(ctx context.Context, b *cluster.Record) error {
	c, now := &b.Cluster, p.gc.options.Now()
	switch {
	case cluster.LazyCleanup(c) && c.RunID != "":
		err := p.gc.options.Runs.Send(ctx, c.RunID, runtype.Signal{ID: cluster.SignalCollect + "/" + c.RunID, Name: cluster.SignalCollect, Actor: "collector", At: now})
		if errors.Is(err, workflow.RunNotFound) {
			p.gc.options.Notify(c.UUID)
			return nil
		}
		return err
	case c.State == cluster.Expunge && c.GC && c.GCNext.IsZero():
		c.GCNext = now
		if err := p.gc.options.Store.Commit(ctx, &cluster.Change{Cluster: c}); err != nil {
			return ignoreConflict(err)
		}
		p.gc.options.Notify(c.UUID)
		return nil
	case c.State == cluster.Expunge || c.State == cluster.Created || cluster.Transient(c.State):
		p.notifyIfDue(c, now)
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
		if err := p.gc.options.Store.Commit(ctx, change); err != nil {
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
	c, now := &b.Cluster, p.gc.options.Now()
	var rows []*cluster.JournalRow
	change := &cluster.Change{}
	for i := range b.Journal {
		row := &b.Journal[i]
		act := cluster.DecideRow(row, b, now, p.gc.options.Settings.OrphanGrace)
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
			p.gc.options.Logger.Info("an orphan is deleted", "cluster", c.UUID, "kind", r.Kind, "id", r.ID, "name", r.Name)
		}
	}
	return rows, change
}

// takeResources returns the resources of a cluster and removes them from the
// pass.
func (p *collection) takeResources(uuid string) []foundResource {
	p.mu.Lock()
	defer p.mu.Unlock()
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
	p.mu.Lock()
	defer p.mu.Unlock()
	p.orphans = append(p.orphans, orphan)
}

// destroyedClusters works on open rows of Destroyed clusters: orphans that were found
// later.
func (p *collection) destroyedClusters(ctx context.Context) error {
	after := 0
	for {
		rows, total, err := p.gc.options.Store.Rows(ctx, cluster.RowQuery{Offset: after,
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
			b, err := p.gc.options.Store.Record(ctx, row.Cluster)
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
	for _, uuid := range slices.Sorted(maps.Keys(p.resources)) {
		resources := p.resources[uuid]
		var b *cluster.Record
		if uuid != "" {
			var err error
			if b, err = p.gc.options.Store.Record(ctx, uuid); err != nil && !errors.Is(err, cluster.NotFound) {
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

func (p *collection) notifyIfDue(c *cluster.Cluster, now time.Time) {
	if cluster.DueEvent(c, nil, now) != "" {
		p.gc.options.Notify(c.UUID)
	}
}

func ignoreConflict(err error) error {
	if errors.Is(err, fault.WriteConflict) {
		return nil // another writer has changed it: the next pass tries again
	}
	return err
}
