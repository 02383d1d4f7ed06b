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

// background is what the duties remember between passes.
type background struct {
	worker string // name of this process, if the options give none

	mu     sync.Mutex
	lands  map[string]zoneInventory        // by provider: where it has clusters
	crowds map[[2]string]*foreignShare     // by provider and zone
	first  map[string]map[string]time.Time // by provider: when a thing without a date was first seen
	passed map[string]chan struct{}        // by provider: closed when the first pass of the synchronisation has ended
}

// The duties that have something to say of a provider.
const (
	taskSync    = "sync"
	taskCollect = "collect"
)

// orphanMost is how many strays a notice names.
const orphanMost = 1000

// told keeps what a pass has found of a provider where every server reads it:
// why it cannot be seen (nil: it can), and, of a whole pass of the collector,
// the strays. What has not changed is not written.
func (s *Service) told(ctx context.Context, provider, task string, trouble error, orphans []cluster.Orphan) {
	if ctx.Err() != nil {
		return // what was cut short says nothing
	}
	all, err := s.options.Records.Notices(ctx)
	if err != nil {
		s.options.Logger.Warn("what was told of a provider cannot be read", "provider", provider, "duty", task, "error", err)
		return
	}
	before := cluster.Notice{Provider: provider, Task: task}
	if i := slices.IndexFunc(all, func(n cluster.Notice) bool { return n.Provider == provider && n.Task == task }); i >= 0 {
		before = all[i]
	}
	next := before
	if trouble == nil {
		next.Since, next.Code, next.Text = time.Time{}, "", ""
		next.Orphans, next.More = orphans[:min(len(orphans), orphanMost)], max(0, len(orphans)-orphanMost)
	} else if kind := fault.Of(trouble); before.Since.IsZero() || before.Code != kind.Code {
		next.Code, next.Text = kind.Code, fault.Message(trouble) // texts of one trouble name ports and the like
		if next.Since.IsZero() {
			next.Since = s.options.Now().UTC().Truncate(time.Millisecond)
		}
	}
	switch {
	case before.Since.IsZero() && !next.Since.IsZero():
		s.options.Logger.Warn("the provider cannot be seen; its clusters are neither judged nor collected", "provider", provider, "duty", task, "error", trouble)
	case !before.Since.IsZero() && next.Since.IsZero():
		s.options.Logger.Info("the provider answers again", "provider", provider, "duty", task)
	}
	if sameNotice(before, next) {
		return
	}
	if err := s.options.Records.PutNotice(ctx, next); err != nil && ctx.Err() == nil {
		s.options.Logger.Warn("what is told of a provider cannot be kept", "provider", provider, "duty", task, "error", err)
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

// Banners are what operators must know of each provider: unreachable, refused
// credentials, and since when. Empty: all is well. It is what the newest passes
// have found, whichever server made them.
func (s *Service) Banners(ctx context.Context) (map[string]string, error) {
	texts := map[string]string{}
	troubles, err := s.troubles(ctx)
	for _, n := range troubles {
		texts[n.Provider] = fmt.Sprintf("%s since %s: %s. %s", n.Code, n.Since.UTC().Format(time.RFC3339), n.Text, remedyOf(n.Code))
	}
	return texts, err
}

// troubles are the oldest one of each provider.
func (s *Service) troubles(ctx context.Context) (oldest []cluster.Notice, err error) {
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

// seen is what the leak report says beside the journal: strays, things with the
// tag of this installation that nothing proves to be ours to delete, as the
// newest passes of the collector have found them; and of providers that cannot
// be seen, that nothing is known.
func (s *Service) seen(ctx context.Context, uuid string, kind cluster.Kind) ([]Leak, error) {
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
			found = append(found, Leak{Provider: n.Provider, Phase: "orphan", Text: fmt.Sprintf("%d more things carry the tag of this installation without proof that they are ours", n.More)})
		}
	}
	if uuid != "" || kind != "" {
		return found, nil
	}
	troubles, err := s.troubles(ctx)
	for _, n := range troubles {
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
		l.Text = "it carries the tags of this cluster, but its name is not one that this service gives"
	}
	return l
}

// dated gives things without a date that of the first pass that saw them.
func (b *background) dated(provider string, resources map[string][]foundResource, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before, seen := b.first[provider], map[string]time.Time{}
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
	if b.first == nil {
		b.first = map[string]map[string]time.Time{}
	}
	b.first[provider] = seen
}

// syncedOf is closed when this process has made its first pass over a provider.
func (b *background) syncedOf(provider string) <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.passing(provider)
}

func (b *background) passing(provider string) chan struct{} {
	if b.passed == nil {
		b.passed = map[string]chan struct{}{}
	}
	if b.passed[provider] == nil {
		b.passed[provider] = make(chan struct{})
	}
	return b.passed[provider]
}

// synced notes the end of a pass, however it ended.
func (b *background) synced(provider string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-b.passing(provider):
	default:
		close(b.passing(provider))
	}
}

func keysOf[V any](m map[string]V) []string {
	return slices.Collect(maps.Keys(m))
}
