package wfengine

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/compat/statemachine"
	kuberuns "github.com/pawl-dev/pawl/kube/runstore"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// requestedAnnotation is written to a resource when a person or another program sends a request to
// its run (pawl resume, skip, cancel, signal). Nothing works on a flow between two calls, so the
// object must change for Reconcile to be called.
const requestedAnnotation = "pawl.dev/requested"

// wakeRetry is the pause before a failed write is repeated.
const wakeRetry = 5 * time.Second

// served is a resource whose runs are in the default storage.
type served struct {
	resource statemachine.StateResource
	owner    *metav1.OwnerReference // nil if unknown
}

// waker writes to the resources of runs that got a request.
type waker struct {
	store *kuberuns.Store
	seen  map[string]string // by run: the newest request that was written to its resource
	again map[string]bool   // runs to check once more; "" means all of them
}

// wakeResources passes requests for runs on to their resources until ctx ends.
func wakeResources(ctx context.Context, store *kuberuns.Store) {
	w := &waker{store: store, seen: map[string]string{}, again: map[string]bool{}}
	for {
		var retry <-chan time.Time
		if len(w.again) > 0 {
			retry = time.After(wakeRetry)
		}
		select {
		case <-ctx.Done():
			return
		case id := <-store.Wake():
			w.checkRun(ctx, id)
		case <-retry:
			for id := range w.again {
				w.checkRun(ctx, id)
			}
		}
	}
}

// checkRun wakes the resource of a run; an empty id means all runs, because the notification did not
// name one.
func (w *waker) checkRun(ctx context.Context, id string) {
	delete(w.again, id)
	ids := []string{id}
	if id == "" {
		runs, _, err := w.store.List(ctx, runstore.Query{Active: true})
		if err != nil {
			w.failed(ctx, id, err)
			return
		}
		ids = ids[:0]
		for _, run := range runs {
			ids = append(ids, run.ID)
		}
	}
	for _, id := range ids {
		if err := w.wake(ctx, id); err != nil {
			w.failed(ctx, id, err)
		}
	}
}

func (w *waker) failed(ctx context.Context, id string, err error) {
	if ctx.Err() == nil {
		w.again[id] = true
		slog.Warn("a request for a flow could not be written to its resource; it is retried", "run", id, "error", err)
	}
}

// wake writes the newest unread request of a run to its resource, once.
func (w *waker) wake(ctx context.Context, id string) error {
	run, mail, err := w.store.Load(ctx, id)
	if errors.Is(err, runstore.ErrNotFound) || err == nil && run.Phase.Final() {
		delete(w.seen, id)
		return nil
	}
	if err != nil {
		return err
	}
	request := newestRequest(mail)
	if request == "" || w.seen[id] == request {
		return nil
	}
	known, ok := shared.resources.Load(run.Subject)
	if !ok { // this process has not served the resource yet: its first Reconcile finds the request
		return nil
	}
	err = rewrite(known.(served).resource, func(newest statemachine.StateResource) error {
		kube, err := kubeOf(newest)
		if err != nil {
			return err
		}
		annotations := kube.GetResource().GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		if annotations[requestedAnnotation] == request {
			return nil
		}
		annotations[requestedAnnotation] = request
		kube.GetResource().SetAnnotations(annotations)
		return kube.Update()
	})
	if err == nil {
		w.seen[id] = request
	}
	return err
}

// newestRequest returns the id of the last signal from somebody else. The operator's own signals
// need no waking, because it is working when it sends them.
func newestRequest(mail []runtype.Signal) (id string) {
	for _, m := range mail {
		if m.Name != shownSignal && !strings.HasPrefix(m.ID, ownRequestPrefix) {
			id = m.ID
		}
	}
	return id
}
