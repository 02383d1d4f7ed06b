package providers

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/workflow"
)

// limited wraps a provider. It limits concurrent calls and the time of each
// call, counts calls, and returns every error as a declared fault.
type limited struct {
	inner   cluster.Provider
	name    string
	slots   chan struct{}
	timeout time.Duration
	metrics Metrics
}

// limitedLogs is limited for providers with logs.
type limitedLogs struct{ *limited }

func limit(n Named, most int, timeout time.Duration, metrics Metrics) cluster.Provider {
	p := &limited{inner: n.Provider, name: n.Name, slots: make(chan struct{}, most), timeout: timeout, metrics: metrics}
	if _, ok := n.Provider.(cluster.Logs); ok {
		return limitedLogs{p}
	}
	return p
}

// call makes one call within the limits. A read ends with ctx. A call that
// changes something runs to its end, unless the worker is drained or has lost
// its lease.
func (p *limited) call(ctx context.Context, name string, changes bool, do func(context.Context) error) error {
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	base := ctx
	if changes {
		base = context.WithoutCancel(ctx)
	}
	inner, cancel := context.WithTimeout(base, p.timeout)
	defer cancel()
	if changes {
		defer context.AfterFunc(ctx, func() {
			if cause := context.Cause(ctx); errors.Is(cause, workflow.ErrDraining) || errors.Is(cause, workflow.ErrLeaseLost) {
				cancel()
			}
		})()
	}
	began := time.Now()
	err := Translate(do(inner), p.name, name)
	p.metrics.ProviderCall(p.name, name, outcomeOf(err), time.Since(began))
	return err
}

// Translate returns every error as a declared fault. An unknown error becomes
// PROVIDER_UNREACHABLE: the call may or may not have had an effect.
func Translate(err error, provider, call string) error {
	switch kind := fault.Of(err); {
	case err == nil, errors.Is(err, cluster.ErrGone):
		return err
	case kind == fault.Unknown:
		return cluster.ProviderUnreachable.Errorf("%s of provider %s: %w", call, provider, err).With("provider", provider)
	default:
		return err
	}
}

func outcomeOf(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, cluster.ErrGone):
		return "gone"
	default:
		return strings.ToLower(string(fault.Of(err).Code))
	}
}

// Capabilities implements cluster.Provider.
func (p *limited) Capabilities() cluster.Capabilities { return p.inner.Capabilities() }

// Check implements cluster.Provider.
func (p *limited) Check(ctx context.Context, n cluster.Need) (found []cluster.Finding, err error) {
	err = p.call(ctx, "check", false, func(ctx context.Context) error { found, err = p.inner.Check(ctx, n); return err })
	return found, err
}

// Catalog implements cluster.Provider.
func (p *limited) Catalog(ctx context.Context, owner cluster.Owner, kind cluster.Kind) (entries []cluster.Entry, err error) {
	err = p.call(ctx, "catalog", false, func(ctx context.Context) error { entries, err = p.inner.Catalog(ctx, owner, kind); return err })
	return entries, err
}

// Create implements cluster.Provider.
func (p *limited) Create(ctx context.Context, w cluster.DesiredResource) (c cluster.Call, err error) {
	err = p.call(ctx, "create", true, func(ctx context.Context) error { c, err = p.inner.Create(ctx, w); return err })
	return c, err
}

// Act implements cluster.Provider.
func (p *limited) Act(ctx context.Context, ref cluster.Ref, a cluster.Action) (c cluster.Call, err error) {
	err = p.call(ctx, string(a), true, func(ctx context.Context) error { c, err = p.inner.Act(ctx, ref, a); return err })
	return c, err
}

// Poll implements cluster.Provider.
func (p *limited) Poll(ctx context.Context, c cluster.Call) (progress cluster.Progress, err error) {
	err = p.call(ctx, "poll", false, func(ctx context.Context) error { progress, err = p.inner.Poll(ctx, c); return err })
	return progress, err
}

// Get implements cluster.Provider.
func (p *limited) Get(ctx context.Context, ref cluster.Ref) (r cluster.Resource, err error) {
	err = p.call(ctx, "get", false, func(ctx context.Context) error { r, err = p.inner.Get(ctx, ref); return err })
	return r, err
}

// Find implements cluster.Provider.
func (p *limited) Find(ctx context.Context, w cluster.DesiredResource) (r cluster.Resource, err error) {
	err = p.call(ctx, "find", false, func(ctx context.Context) error { r, err = p.inner.Find(ctx, w); return err })
	return r, err
}

// List implements cluster.Provider.
func (p *limited) List(ctx context.Context, f cluster.Filter, page cluster.Cursor) (out cluster.Page, err error) {
	err = p.call(ctx, "list", false, func(ctx context.Context) error { out, err = p.inner.List(ctx, f, page); return err })
	return out, err
}

// Logs implements cluster.Logs.
func (p limitedLogs) Logs(ctx context.Context, ref cluster.Ref, lines int) (text string, err error) {
	logs := p.inner.(cluster.Logs) //nolint:forcetypeassert // limit has checked it
	err = p.call(ctx, "logs", false, func(ctx context.Context) error { text, err = logs.Logs(ctx, ref, lines); return err })
	return text, err
}
