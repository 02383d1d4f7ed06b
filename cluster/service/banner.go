package service

import (
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

	mu      sync.Mutex
	trouble map[seer]trouble
	strays  map[string][]Leak               // by provider: with our tag, and nothing proves that they are ours to delete
	lands   map[string]land                 // by provider: where it has clusters
	crowds  map[[2]string]*crowd            // by provider and zone
	first   map[string]map[string]time.Time // by provider: when a thing without a date was first seen
	passed  map[string]chan struct{}        // by provider: closed when the first pass of the synchronisation has ended
}

type trouble struct {
	err   error
	since time.Time
}

// seer is a duty that looks at a provider.
type seer struct{ provider, duty string }

// troubled notes why a provider cannot be seen by a duty, or that it can (nil).
func (s *Service) troubled(provider, duty string, err error) {
	b, who := &s.background, seer{provider, duty}
	b.mu.Lock()
	defer b.mu.Unlock()
	old, was := b.trouble[who]
	switch {
	case err == nil && was:
		delete(b.trouble, who)
		s.options.Logger.Info("the provider answers again", "provider", provider, "duty", duty)
	case err == nil:
	case was:
		b.trouble[who] = trouble{err, old.since}
	default:
		if b.trouble == nil {
			b.trouble = map[seer]trouble{}
		}
		b.trouble[who] = trouble{err, s.options.Now()}
		s.options.Logger.Warn("the provider cannot be seen; its clusters are neither judged nor collected", "provider", provider, "duty", duty, "error", err)
	}
}

// Banners are what operators must know of each provider: unreachable, refused
// credentials, and since when. Empty: all is well, as far as this process
// looks at the providers.
func (s *Service) Banners() map[string]string {
	b := &s.background
	b.mu.Lock()
	defer b.mu.Unlock()
	first := map[string]trouble{}
	for who, t := range b.trouble {
		if old, known := first[who.provider]; !known || t.since.Before(old.since) {
			first[who.provider] = t
		}
	}
	texts := map[string]string{}
	for provider, t := range first {
		kind := fault.Of(t.err)
		texts[provider] = fmt.Sprintf("%s since %s: %s. %s", kind.Code, t.since.UTC().Format(time.RFC3339), fault.Message(t.err), kind.Remedy)
	}
	return texts
}

// strays are things with the tag of this installation that nothing proves to be
// ours to delete, as the newest passes of the collector in this process saw
// them: of clusters that this database does not know, or with other names.
func (s *Service) strays(uuid string, kind cluster.Kind) []Leak {
	b := &s.background
	b.mu.Lock()
	defer b.mu.Unlock()
	var found []Leak
	for _, p := range s.options.Providers {
		for _, l := range b.strays[p.Name] {
			if (uuid == "" || l.Cluster == uuid) && (kind == "" || l.Kind == kind) {
				found = append(found, l)
			}
		}
	}
	return found
}

func (b *background) putStrays(provider string, strays []Leak) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.strays == nil {
		b.strays = map[string][]Leak{}
	}
	b.strays[provider] = strays
}

// dated gives things without a date that of the first pass that saw them.
func (b *background) dated(provider string, things map[string][]shown, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before, seen := b.first[provider], map[string]time.Time{}
	for _, items := range things {
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
