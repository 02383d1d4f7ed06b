package rollouts

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
)

// hangingHooks answer after HookDelay, that the batch may not begin yet, so that they are asked again.
type hangingHooks struct {
	server           *http.Server
	open, peak, done atomic.Int64
}

// hang makes rollouts that all ask a hook that hangs, and returns when the first hooks are under way.
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
	if err := each(w.Hanging, 50, func(i int) error { return w.setImage(ctx, setName(w.Rollouts+i), "r1") }); err != nil {
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

func (h *hangingHooks) answered() float64 { return float64(h.done.Load()) }

// most is how many hooks were under way at once.
func (h *hangingHooks) most() float64 { return float64(h.peak.Load()) }

func (h *hangingHooks) stop() { _ = h.server.Close() }
