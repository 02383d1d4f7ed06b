package controller

import (
	"context"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// servedInterval is how often the API server is asked for kinds that it does not know yet.
const servedInterval = 5 * time.Second

// Served reports whether the API server knows all these kinds now.
func (m *Manager) Served(kinds ...schema.GroupVersionKind) (bool, error) {
	for _, kind := range kinds {
		_, err := m.GetRESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
		if apimeta.IsNoMatchError(err) {
			return false, nil
		}
		if err != nil {
			return false, Fault(err)
		}
	}
	return true, nil
}

// WhenServed calls setup once, when the API server knows all these kinds: at once if it does,
// else while the manager runs, soon after their CustomResourceDefinitions are installed. setup
// adds controllers and watches. Its error is returned, or else logged, and setup is called
// again.
func (m *Manager) WhenServed(kinds []schema.GroupVersionKind, setup func() error) error {
	if served, err := m.Served(kinds...); err != nil {
		return err
	} else if served {
		return setup()
	}
	return Fault(m.Add(everywhere{func(ctx context.Context) error { return m.awaitServed(ctx, kinds, setup) }}))
}

func (m *Manager) awaitServed(ctx context.Context, kinds []schema.GroupVersionKind, setup func() error) error {
	ticker := time.NewTicker(servedInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		served, err := m.Served(kinds...)
		if err == nil && served {
			err = setup()
		}
		switch {
		case err != nil:
			m.log.Warn("kinds that were installed later cannot be served yet", "kinds", kinds, "error", err)
		case served:
			m.log.Info("kinds that were installed later are served now", "kinds", kinds)
			return nil
		}
	}
}

// everywhere runs whether this process is the leader or not.
type everywhere struct{ run func(context.Context) error }

// Start implements manager.Runnable.
func (e everywhere) Start(ctx context.Context) error { return e.run(ctx) }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (everywhere) NeedLeaderElection() bool { return false }
