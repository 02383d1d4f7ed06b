package kube

import (
	"context"
	"maps"
	"reflect"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/kube/controller"
)

// nodes are read and watched from the first time that a reconciler asks for them: only clusters that look at taints
// do, and the right to read nodes may not have been given.
type nodes struct {
	cache *controller.Cache
	live  client.Reader

	mu     sync.Mutex
	usable bool
	inUse  chan struct{} // closed once they are
}

// use begins the watch. It asks the API server first, since a cache without the right would wait for ever.
func (n *nodes) use(ctx context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.usable {
		return nil
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NodeList"))
	if err := n.live.List(ctx, list, client.Limit(1)); err != nil {
		return err
	}
	n.usable = true
	close(n.inUse)
	return nil
}

// signals wakes the clusters that look at taints when labels or taints of nodes have changed.
func (n *nodes) signals(ctx context.Context, add func(control.Ref)) {
	select {
	case <-ctx.Done():
		return
	case <-n.inUse:
	}
	informer, err := n.cache.GetInformer(ctx, &corev1.Node{})
	if err != nil {
		return // the context has ended
	}
	changed := make(chan struct{}, 1)
	signal := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	handler, err := informer.AddEventHandler(toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(_ any, initial bool) {
			if !initial {
				signal()
			}
		},
		UpdateFunc: func(old, now any) {
			if nodeChanged(old, now) {
				signal()
			}
		},
		DeleteFunc: func(any) { signal() },
	})
	if err != nil {
		return
	}
	defer func() { _ = informer.RemoveEventHandler(handler) }() // its error says that the informer has ended
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
		select { // what comes within the quiet time is one wake
		case <-ctx.Done():
			return
		case <-time.After(quiet):
		}
		var clusters v1beta2.FoundationDBClusterList
		if n.cache.ListShared(ctx, &clusters) != nil {
			continue
		}
		for i := range clusters.Items {
			if c := &clusters.Items[i]; looksAtTaints(c) {
				add(control.Ref{Kind: ClusterKind.Kind, Namespace: c.Namespace, Name: c.Name})
			}
		}
	}
}

func looksAtTaints(c *v1beta2.FoundationDBCluster) bool {
	return len(c.Spec.AutomationOptions.Replacements.TaintReplacementOptions) > 0
}

// nodeChanged compares what the cache keeps of a node.
func nodeChanged(old, now any) bool {
	was, _ := old.(*corev1.Node)
	is, _ := now.(*corev1.Node)
	return was == nil || is == nil || !maps.Equal(was.Labels, is.Labels) || !reflect.DeepEqual(was.Spec.Taints, is.Spec.Taints)
}
