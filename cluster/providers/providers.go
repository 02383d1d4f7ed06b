// Package providers holds the configured providers of clusters: each call to them
// is limited, counted, and fails with a declared fault.
package providers

import (
	"sync"
	"time"

	"github.com/pawl-dev/pawl/cluster"
)

// Named is a configured provider.
type Named struct {
	Name     string
	Provider cluster.Provider
}

// Metrics receives measurements. It must be safe for concurrent use.
type Metrics interface {
	ProviderCall(provider, call, outcome string, took time.Duration)
}

// Set has the configured providers by name.
type Set struct {
	names  []string
	byName map[string]cluster.Provider
}

// New returns a set of providers. Each of them gets no more than most calls at a
// time, and a call ends after timeout. CLUSTER_INVALID if a name is empty or
// occurs twice.
func New(configured []Named, most int, timeout time.Duration, metrics Metrics) (*Set, error) {
	s := &Set{byName: map[string]cluster.Provider{}}
	for _, n := range configured {
		if _, twice := s.byName[n.Name]; twice || n.Name == "" || n.Provider == nil {
			return nil, cluster.ClusterInvalid.Errorf("provider %q: each provider needs a name of its own", n.Name)
		}
		s.names, s.byName[n.Name] = append(s.names, n.Name), limit(n, most, timeout, metrics)
	}
	return s, nil
}

// Names returns the names in the order of the configuration.
func (s *Set) Names() []string { return s.names }

// Has reports whether a provider is configured.
func (s *Set) Has(name string) bool { return s.byName[name] != nil }

// Provider returns a configured provider. ENTITY_REFUSED if there is none.
func (s *Set) Provider(name string) (cluster.Provider, error) {
	if p, ok := s.byName[name]; ok {
		return p, nil
	}
	return nil, cluster.EntityRefused.Errorf("provider %q is not configured", name).With("provider", name)
}

// Each calls do for all items, no more than most at a time, and waits for them.
func Each[T any](items []T, most int, do func(T)) {
	if len(items) == 1 {
		do(items[0])
		return
	}
	var wg sync.WaitGroup
	slots := make(chan struct{}, max(most, 1))
	for _, item := range items {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			do(item)
		})
	}
	wg.Wait()
}
