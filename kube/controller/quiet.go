package controller

import (
	"context"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// quietly delays what a handler adds to the queue, so that a burst of events makes one pass:
// of the delays of one key the first one counts.
func quietly(h handler.EventHandler, quiet time.Duration) handler.EventHandler {
	if quiet <= 0 {
		return h
	}
	return quietHandler{h, quiet}
}

type quietHandler struct {
	inner handler.EventHandler
	quiet time.Duration
}

// Create implements handler.EventHandler.
func (h quietHandler) Create(ctx context.Context, e event.TypedCreateEvent[client.Object], q queue) {
	h.inner.Create(ctx, e, quietQueue{q, h.quiet})
}

// Update implements handler.EventHandler.
func (h quietHandler) Update(ctx context.Context, e event.TypedUpdateEvent[client.Object], q queue) {
	h.inner.Update(ctx, e, quietQueue{q, h.quiet})
}

// Delete implements handler.EventHandler.
func (h quietHandler) Delete(ctx context.Context, e event.TypedDeleteEvent[client.Object], q queue) {
	h.inner.Delete(ctx, e, quietQueue{q, h.quiet})
}

// Generic implements handler.EventHandler.
func (h quietHandler) Generic(ctx context.Context, e event.TypedGenericEvent[client.Object], q queue) {
	h.inner.Generic(ctx, e, quietQueue{q, h.quiet})
}

type quietQueue struct {
	queue
	quiet time.Duration
}

// Add implements workqueue.TypedInterface.
func (q quietQueue) Add(key reconcile.Request) { q.AddAfter(key, q.quiet) }
