package service

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/fault"
)

// background is the state that the periodic tasks keep between passes.
type background struct {
	worker string // name of this process if the options have none

	mu            sync.Mutex
	inventories   map[string]zoneInventory        // by provider: zones and networks with clusters
	foreignShares map[[2]string]*foreignShare     // by provider and zone
	firstSeen     map[string]map[string]time.Time // by provider: when a resource without a creation time was first seen
	firstSyncs    map[string]chan struct{}        // by provider: closed when the first pass of the synchronization has ended
}

// The periodic tasks that write notices about a provider.
const (
	taskSync    = "sync"
	taskCollect = "collect"
)

// maxOrphans is how many orphans a notice lists.
const maxOrphans = 1000

// saveNotice stores the result of a pass over a provider, so that every server
// can read it: the error if the provider cannot be read (nil: it can), and the
// orphans of a complete pass of the collector. An unchanged notice is not
// written.
func (s *Service) saveNotice(ctx context.Context, provider, task string, failure error, orphans []cluster.Orphan) {
	if ctx.Err() != nil {
		return // an interrupted pass proves nothing
	}
	all, err := s.options.Records.Notices(ctx)
	if err != nil {
		s.options.Logger.Warn("the notices of a provider cannot be read", "provider", provider, "task", task, "error", err)
		return
	}
	before := cluster.Notice{Provider: provider, Task: task}
	if i := slices.IndexFunc(all, func(n cluster.Notice) bool { return n.Provider == provider && n.Task == task }); i >= 0 {
		before = all[i]
	}
	next := before
	if failure == nil {
		next.Since, next.Code, next.Text = time.Time{}, "", ""
		next.Orphans, next.More = orphans[:min(len(orphans), maxOrphans)], max(0, len(orphans)-maxOrphans)
	} else if kind := fault.Of(failure); before.Since.IsZero() || before.Code != kind.Code {
		next.Code, next.Text = kind.Code, fault.Message(failure) // the text of the same error differs each time, for example in ports
		if next.Since.IsZero() {
			next.Since = s.options.Now().UTC().Truncate(time.Millisecond)
		}
	}
	switch {
	case before.Since.IsZero() && !next.Since.IsZero():
		s.options.Logger.Warn("the provider cannot be read; its clusters are neither synchronized nor collected", "provider", provider, "task", task, "error", failure)
	case !before.Since.IsZero() && next.Since.IsZero():
		s.options.Logger.Info("the provider answers again", "provider", provider, "task", task)
	}
	if sameNotice(before, next) {
		return
	}
	if err := s.options.Records.PutNotice(ctx, next); err != nil && ctx.Err() == nil {
		s.options.Logger.Warn("the notice of a provider cannot be stored", "provider", provider, "task", task, "error", err)
	}
}

func sameNotice(a, b cluster.Notice) bool {
	return a.Since.Equal(b.Since) && a.Code == b.Code && a.Text == b.Text && a.More == b.More &&
		slices.EqualFunc(a.Orphans, b.Orphans, func(x, y cluster.Orphan) bool {
			since := x.Since.Equal(y.Since)
			x.Since, y.Since = time.Time{}, time.Time{}
			return since && x == y
		})
}

// ProviderAlerts returns an alert for each provider that cannot be read, by
// name: the fault, since when, and the remedy. It reads the results of the
// newest passes of all servers. An empty map means that all providers answer.
func (s *Service) ProviderAlerts(ctx context.Context) (map[string]string, error) {
	texts := map[string]string{}
	outages, err := s.outages(ctx)
	for _, n := range outages {
		texts[n.Provider] = fmt.Sprintf("%s since %s: %s. %s", n.Code, n.Since.UTC().Format(time.RFC3339), n.Text, remedyOf(n.Code))
	}
	return texts, err
}

// outages returns the oldest notice with a fault of each provider.
func (s *Service) outages(ctx context.Context) (oldest []cluster.Notice, err error) {
	all, err := s.options.Records.Notices(ctx)
	for _, n := range all {
		if _, here := s.providers[n.Provider]; !here || n.Since.IsZero() {
			continue
		}
		switch last := len(oldest) - 1; {
		case last < 0 || oldest[last].Provider != n.Provider:
			oldest = append(oldest, n)
		case n.Since.Before(oldest[last].Since):
			oldest[last] = n
		}
	}
	return oldest, err
}

func remedyOf(code fault.Code) string {
	if kind, known := fault.Lookup(string(code)); known {
		return kind.Remedy
	}
	return ""
}

// noticeLeaks returns the part of the leak report that is not in the journal:
// the orphans that the newest passes of the collector found, and one entry for
// each provider that cannot be read.
func (s *Service) noticeLeaks(ctx context.Context, uuid string, kind cluster.Kind) ([]Leak, error) {
	all, err := s.options.Records.Notices(ctx)
	if err != nil {
		return nil, err
	}
	var found []Leak
	for _, n := range all {
		if _, here := s.providers[n.Provider]; !here {
			continue
		}
		for _, orphan := range n.Orphans {
			if (uuid == "" || orphan.Cluster == uuid) && (kind == "" || orphan.Kind == kind) {
				found = append(found, leakOfOrphan(n.Provider, orphan))
			}
		}
		if n.More > 0 && uuid == "" && kind == "" {
			found = append(found, Leak{Provider: n.Provider, Phase: "orphan", Text: fmt.Sprintf("%d more resources carry the tag of this installation, without proof that they belong to it", n.More)})
		}
	}
	if uuid != "" || kind != "" {
		return found, nil
	}
	outages, err := s.outages(ctx)
	for _, n := range outages {
		found = append(found, Leak{Provider: n.Provider, Phase: "unseen", Since: n.Since, Code: string(n.Code), Text: n.Text, Remedy: remedyOf(n.Code)})
	}
	return found, err
}

func leakOfOrphan(provider string, orphan cluster.Orphan) Leak {
	l := Leak{
		Cluster: orphan.Cluster, Name: orphan.Known, Owner: orphan.Owner, Provider: provider, Kind: orphan.Kind, ID: orphan.ID, Resource: orphan.Resource, Since: orphan.Since, Phase: "orphan",
		Text:   "it carries the tag of this installation, and its cluster is not known to this database",
		Remedy: "Delete it at the provider if nobody needs it. After a restore of the database it may belong to a living cluster.",
	}
	if orphan.Known != "" {
		l.Account, l.Domain = orphan.Owner.AccountID, orphan.Owner.DomainID
		l.Text = "it carries the tags of this cluster, but this service does not give such a name"
	}
	return l
}

// setFirstSeen sets the creation time of resources without one to the time of
// the first pass that saw them.
func (b *background) setFirstSeen(provider string, resources map[string][]foundResource, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before, seen := b.firstSeen[provider], map[string]time.Time{}
	for _, items := range resources {
		for i := range items {
			t := &items[i]
			if !t.created.IsZero() {
				continue
			}
			id := string(t.kind) + "/" + t.id
			if at, known := before[id]; known {
				t.created = at
			} else {
				t.created = now
			}
			seen[id] = t.created
		}
	}
	if b.firstSeen == nil {
		b.firstSeen = map[string]map[string]time.Time{}
	}
	b.firstSeen[provider] = seen
}

// firstSync returns a channel that is closed when the first synchronization of
// a provider in this process has ended.
func (b *background) firstSync(provider string) <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.firstSyncLocked(provider)
}

func (b *background) firstSyncLocked(provider string) chan struct{} {
	if b.firstSyncs == nil {
		b.firstSyncs = map[string]chan struct{}{}
	}
	if b.firstSyncs[provider] == nil {
		b.firstSyncs[provider] = make(chan struct{})
	}
	return b.firstSyncs[provider]
}

// markSynced records that a pass has ended, with or without an error.
func (b *background) markSynced(provider string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-b.firstSyncLocked(provider):
	default:
		close(b.firstSyncLocked(provider))
	}
}

func keysOf[V any](m map[string]V) []string {
	return slices.Collect(maps.Keys(m))
}
