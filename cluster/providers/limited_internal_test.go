package providers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/workflow"
)

// answering is a provider that implements only Get and Create.
type answering struct {
	cluster.Provider
	get    func(ctx context.Context) error
	create func(ctx context.Context) error
}

func (a answering) Get(ctx context.Context, _ cluster.Ref) (cluster.Resource, error) {
	return cluster.Resource{}, a.get(ctx)
}

func (a answering) Create(ctx context.Context, _ cluster.DesiredResource) (cluster.Call, error) {
	return cluster.Call{}, a.create(ctx)
}

type loggingProvider struct{ answering }

func (loggingProvider) Logs(context.Context, cluster.Ref, int) (string, error) { return "line", nil }

type silence struct{}

func (silence) ProviderCall(string, string, string, time.Duration) {}

type recordedCalls struct {
	mu    sync.Mutex
	calls []string
}

func (h *recordedCalls) ProviderCall(provider, call, outcome string, _ time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = append(h.calls, provider+" "+call+" "+outcome)
}

func limitedOver(p cluster.Provider, at int, m Metrics) cluster.Provider {
	return limit(Named{Name: "p", Provider: p}, at, time.Minute, m)
}

func TestErrorsOfProvidersAreFaults(t *testing.T) {
	for _, c := range []struct {
		err     error
		want    fault.Code
		outcome string
	}{
		{nil, "", "ok"},
		{cluster.ErrGone, "UNKNOWN", "gone"},
		{fmt.Errorf("vm 1: %w", cluster.ErrGone), "UNKNOWN", "gone"},
		{io.ErrUnexpectedEOF, "PROVIDER_UNREACHABLE", "provider_unreachable"},
		{context.DeadlineExceeded, "PROVIDER_UNREACHABLE", "provider_unreachable"},
		{cluster.CapacityExhausted.Errorf("full"), "CAPACITY_EXHAUSTED", "capacity_exhausted"},
		{fmt.Errorf("call: %w", cluster.ProviderThrottled.Errorf("429")), "PROVIDER_THROTTLED", "provider_throttled"},
	} {
		heard := &recordedCalls{}
		_, err := limitedOver(answering{get: func(context.Context) error { return c.err }}, 1, heard).Get(t.Context(), cluster.Ref{})
		if err != nil && fault.Of(err).Code != c.want || err == nil && c.err != nil {
			t.Errorf("%v became %v, want %s", c.err, err, c.want)
		}
		if errors.Is(c.err, cluster.ErrGone) != errors.Is(err, cluster.ErrGone) {
			t.Errorf("%v became %v: gone is proven by ErrGone only", c.err, err)
		}
		if want := "p get " + c.outcome; len(heard.calls) != 1 || heard.calls[0] != want {
			t.Errorf("heard %v, want %s", heard.calls, want)
		}
	}
}

func TestCallsOfAProviderAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		now, most := 0, 0
		p := limitedOver(answering{get: func(context.Context) error {
			mu.Lock()
			now++
			most = max(most, now)
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			now--
			mu.Unlock()
			return nil
		}}, 3, silence{})
		began := time.Now()
		Each(make([]int, 10), 10, func(int) { _, _ = p.Get(t.Context(), cluster.Ref{}) })
		if most != 3 || time.Since(began) != 4*time.Second {
			t.Errorf("%d at once, %s", most, time.Since(began))
		}
	})
}

func TestACallInFlightIsFollowedToItsEnd(t *testing.T) {
	for name, c := range map[string]struct {
		cause error
		ends  time.Duration
	}{
		"cancelled by delete": {workflow.ErrCancelled, 10 * time.Second},
		"its worker drains":   {workflow.ErrDraining, time.Second},
		"the lease is lost":   {workflow.ErrLeaseLost, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := limitedOver(answering{create: func(ctx context.Context) error {
					select {
					case <-ctx.Done():
						return ctx.Err()
					case <-time.After(10 * time.Second):
						return nil
					}
				}}, 1, silence{})
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(time.Second, func() { cancel(c.cause) })
				began := time.Now()
				_, err := p.Create(ctx, cluster.DesiredResource{})
				if took := time.Since(began); took != c.ends || (err == nil) != (c.ends > time.Second) {
					t.Errorf("%v after %s, want %s", err, took, c.ends)
				}
				if _, err := p.Create(ctx, cluster.DesiredResource{}); !errors.Is(err, c.cause) {
					t.Errorf("a call after the end: %v", err)
				}
			})
		})
	}
}

func TestACallThatHangsIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := limitedOver(answering{create: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }}, 1, silence{})
		began := time.Now()
		if _, err := p.Create(t.Context(), cluster.DesiredResource{}); !errors.Is(err, cluster.ProviderUnreachable) || time.Since(began) != time.Minute {
			t.Errorf("%v after %s", err, time.Since(began))
		}
	})
}

func TestOnlyProvidersWithLogsShowThem(t *testing.T) {
	if _, ok := limitedOver(answering{}, 1, silence{}).(cluster.Logs); ok {
		t.Error("a provider without logs seems to have them")
	}
	logs, ok := limitedOver(loggingProvider{}, 1, silence{}).(cluster.Logs)
	if !ok {
		t.Fatal("the logs are hidden")
	}
	if text, err := logs.Logs(t.Context(), cluster.Ref{}, 1); text != "line" || err != nil {
		t.Error(text, err)
	}
}
