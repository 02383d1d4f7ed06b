package rollouts

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
)

// hangingHooks answer after HookDelay, that the batch may not begin yet, so that they are asked again.
type hangingHooks struct {
	server           *http.Server
	open, peak, done atomic.Int64
}

// hang makes rollouts that all ask a hook that hangs, and returns when each has begun its first batch: what
// is measured is hooks that hang, not so many rollouts that begin.
func (w *world) hang(ctx context.Context, h *hangingHooks) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	begun := make(chan struct{}, w.Hanging)
	h.server = &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		h.peak.Store(max(h.peak.Load(), h.open.Add(1)))
		defer h.open.Add(-1)
		select {
		case begun <- struct{}{}:
		default:
		}
		select {
		case <-time.After(HookDelay):
		case <-r.Context().Done():
		}
		h.done.Add(1)
		out.WriteHeader(http.StatusServiceUnavailable)
	})}
	go func() { _ = h.server.Serve(listener) }() // until it is closed
	if err := w.createSets(ctx, w.Rollouts, w.Hanging, w.Pods); err != nil {
		return err
	}
	plan := w.plan()
	plan.RolloutWebhooks = []api.RolloutHook{{
		Name: "hangs", Type: "pre-batch-rollout", URL: "http://" + listener.Addr().String(), Timeout: api.RolloutDuration((3 * HookDelay).String()), Retries: new(int32(1000)),
	}}
	if err := w.createRollouts(ctx, w.Rollouts, w.Hanging, plan); err != nil {
		return err
	}
	err = each(w.Hanging, 50, func(i int) error {
		if err := w.setImage(ctx, setName(w.Rollouts+i), "r1"); err != nil {
			return err
		}
		return w.await(ctx, setName(w.Rollouts+i), claimed)
	})
	if err != nil {
		return err
	}
	for range min(w.Hanging, 10) {
		select {
		case <-begun:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// claimed reports whether a rollout of Pawl moves a set.
func claimed(s *appsv1.StatefulSet) bool { return metav1.GetControllerOf(s) != nil }

func (h *hangingHooks) answered() float64 { return float64(h.done.Load()) }

// most is how many hooks were under way at once.
func (h *hangingHooks) most() float64 { return float64(h.peak.Load()) }

func (h *hangingHooks) stop() { _ = h.server.Close() }
