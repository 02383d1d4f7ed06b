package controller

import (
	"context"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	servedInterval = 5 * time.Second // between calls where CustomResourceDefinitions cannot be watched
	servedChecks   = 5               // a second apart, after a change of one
)

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

// awaitServed checks after each change of a CustomResourceDefinition, and a few times more, as
// discovery follows a moment later. Without the right to watch them it asks at intervals.
func (m *Manager) awaitServed(ctx context.Context, kinds []schema.GroupVersionKind, setup func() error) error {
	changed, stop, err := m.watchDefinitions(ctx)
	if err != nil {
		m.log.Warn("CustomResourceDefinitions cannot be watched: the API server is asked at intervals", "interval", servedInterval, "error", err)
	}
	defer stop()
	check := time.NewTimer(servedInterval) // of a kind that came before the watch
	defer check.Stop()
	for checks := 0; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
			checks = 0
		case <-check.C:
		}
		served, err := m.Served(kinds...)
		if err == nil && served {
			err = setup()
		}
		switch {
		case err != nil:
			m.log.Warn("kinds that were installed later cannot be served yet", "kinds", kinds, "error", err)
			check.Reset(servedInterval)
		case served:
			m.log.Info("kinds that were installed later are served now", "kinds", kinds)
			return nil
		case changed == nil:
			check.Reset(servedInterval)
		case checks < servedChecks:
			checks++
			check.Reset(time.Second)
		}
	}
}

// definitions is the kind of CustomResourceDefinitions, of which only metadata is read.
func definitions() *metav1.PartialObjectMetadata {
	all := &metav1.PartialObjectMetadata{}
	all.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	return all
}

// watchDefinitions signals changes of CustomResourceDefinitions. Everyone who waits shares one watch.
func (m *Manager) watchDefinitions(ctx context.Context) (changed chan struct{}, stop func(), err error) {
	stop = func() {}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(definitions().GroupVersionKind())
	if err := m.live.List(ctx, list, client.Limit(1)); err != nil { // a watch without the right would try for ever
		return nil, stop, err
	}
	informer, err := m.GetCache().GetInformer(ctx, definitions(), cache.BlockUntilSynced(false))
	if err != nil {
		return nil, stop, err
	}
	changed = make(chan struct{}, 1)
	signal := func(any) {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	handler, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: signal, UpdateFunc: func(_, now any) { signal(now) }})
	if err != nil {
		return nil, stop, err
	}
	return changed, func() { _ = informer.RemoveEventHandler(handler) }, nil
}

// everywhere runs whether this process is the leader or not.
type everywhere struct{ run func(context.Context) error }

// Start implements manager.Runnable.
func (e everywhere) Start(ctx context.Context) error { return e.run(ctx) }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (everywhere) NeedLeaderElection() bool { return false }
