package backend

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
)

// watches notify when objects change that were read.
type watches struct {
	mu  sync.Mutex
	ctx context.Context // of the waiting caller; nil: none
	at  map[watched]bool
}

// watched are objects of a kind in a namespace; a name is one of them.
type watched struct {
	kind            kubeKind
	namespace, name string
}

// touch watches the objects being read, if a caller waits for changes. The watch
// begins before the read, so that nothing comes in between.
func (w *watches) touch(k *Kube, kind kubeKind, namespace, name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	what := watched{kind, namespace, name}
	if w.ctx == nil || w.ctx.Err() != nil || w.at[what] {
		return
	}
	w.at[what] = true
	ctx, cancel := context.WithCancel(w.ctx)
	context.AfterFunc(k.ctx, cancel)
	k.all.Go(func() {
		defer cancel()
		k.follow(ctx, what)
	})
}

func (w *watches) begin(ctx context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ctx, w.at = ctx, map[watched]bool{}
}

// follow notifies at each change of objects until ctx ends.
func (k *Kube) follow(ctx context.Context, what watched) {
	k.listen(ctx, listening{kind: what.kind, namespace: what.namespace, options: optionsFor(what.name)}, k.notifier.Notify)
}

// listening are objects of a kind in a namespace; empty: all namespaces.
type listening struct {
	kind      kubeKind
	namespace string
	options   metav1.ListOptions
}

// optionsFor selects one object; an empty name selects all.
func optionsFor(name string) metav1.ListOptions {
	if name == "" {
		return metav1.ListOptions{}
	}
	return metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String()}
}

// listen calls notify when a watch begins and at each change, until ctx ends.
func (k *Kube) listen(ctx context.Context, what listening, notify func()) {
	k.listenTo(ctx, what, func(watch.Event) { notify() }, notify)
}

// listenTo hands on the changes of objects until ctx ends. A watch that breaks begins anew.
func (k *Kube) listenTo(ctx context.Context, what listening, heard func(watch.Event), begun ...func()) {
	for ctx.Err() == nil {
		changes, err := k.client.Resource(what.kind.resource).Namespace(what.namespace).Watch(ctx, what.options)
		if err == nil {
			for _, f := range begun {
				f()
			}
			for e := range changes.ResultChan() {
				heard(e)
			}
			changes.Stop()
		}
		select {
		case <-ctx.Done():
		case <-time.After(reconnectPause): // poll as a fallback
		}
	}
}

// Changes implements Runs by watches of what is read, and a poll as a fallback.
func (k *Kube) Changes(ctx context.Context, _ string) <-chan struct{} {
	c := make(chan struct{}, 1)
	k.watches.begin(ctx)
	notified := k.notifier.Next()
	k.all.Go(func() {
		defer close(c)
		ticker := time.NewTicker(safetyInterval)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-k.ctx.Done():
				return
			case <-notified:
				notified = k.notifier.Next() // before anybody reads, so that nothing comes in between
			case <-ticker.C:
			}
			select {
			case c <- struct{}{}:
			default:
			}
		}
	})
	return c
}

// hear notifies when a run changes.
func (k *Kube) hear(wake <-chan string) {
	for {
		select {
		case <-k.ctx.Done():
			return
		case <-wake:
			k.notifier.Notify()
		}
	}
}
