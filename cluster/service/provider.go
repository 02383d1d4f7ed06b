package service

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/workflow"
)

// limited stands before a provider: so many calls at once, each within its
// time, each counted, and every error a declared fault.
type limited struct {
	inner   cluster.Provider
	name    string
	slots   chan struct{}
	timeout time.Duration
	metrics Metrics
}

// limitedLogs is limited for providers that show logs.
type limitedLogs struct{ *limited }

func limit(n Named, o *Options) cluster.Provider {
	p := &limited{inner: n.Provider, name: n.Name, slots: make(chan struct{}, o.Settings.PerProvider), timeout: o.Settings.CallTimeout, metrics: o.Metrics}
	if _, ok := n.Provider.(cluster.Logs); ok {
		return limitedLogs{p}
	}
	return p
}

// provider finds a configured provider.
func (s *Service) provider(name string) (cluster.Provider, error) {
	if p, ok := s.providers[name]; ok {
		return p, nil
	}
	return nil, cluster.EntityRefused.Errorf("provider %q is not configured", name).With("provider", name)
}

// call makes one call within the limits. Reading ends with ctx; a call that
// changes something is followed to its end, unless the worker itself ends.
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
	err := translate(do(inner), p.name, name)
	p.metrics.ProviderCall(p.name, name, outcomeOf(err), time.Since(began))
	return err
}

// translate makes a declared fault of every error: one that says nothing of
// the thing itself leaves open what has become of it.
func translate(err error, provider, call string) error {
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

// Capabilities of the provider.
func (p *limited) Capabilities() cluster.Capabilities { return p.inner.Capabilities() }

// Check is Provider.Check within the limits, like all that follow.
func (p *limited) Check(ctx context.Context, n cluster.Need) (found []cluster.Finding, err error) {
	err = p.call(ctx, "check", false, func(ctx context.Context) error { found, err = p.inner.Check(ctx, n); return err })
	return found, err
}

// Catalog lists what the owner may use.
func (p *limited) Catalog(ctx context.Context, owner cluster.Owner, kind cluster.Kind) (entries []cluster.Entry, err error) {
	err = p.call(ctx, "catalog", false, func(ctx context.Context) error { entries, err = p.inner.Catalog(ctx, owner, kind); return err })
	return entries, err
}

// Create makes a resource.
func (p *limited) Create(ctx context.Context, w cluster.DesiredResource) (c cluster.Call, err error) {
	err = p.call(ctx, "create", true, func(ctx context.Context) error { c, err = p.inner.Create(ctx, w); return err })
	return c, err
}

// Act starts, stops or destroys.
func (p *limited) Act(ctx context.Context, ref cluster.Ref, a cluster.Action) (c cluster.Call, err error) {
	err = p.call(ctx, string(a), true, func(ctx context.Context) error { c, err = p.inner.Act(ctx, ref, a); return err })
	return c, err
}

// Poll follows a call.
func (p *limited) Poll(ctx context.Context, c cluster.Call) (progress cluster.Progress, err error) {
	err = p.call(ctx, "poll", false, func(ctx context.Context) error { progress, err = p.inner.Poll(ctx, c); return err })
	return progress, err
}

// Get reads one thing.
func (p *limited) Get(ctx context.Context, ref cluster.Ref) (r cluster.Resource, err error) {
	err = p.call(ctx, "get", false, func(ctx context.Context) error { r, err = p.inner.Get(ctx, ref); return err })
	return r, err
}

// Find looks a Want up.
func (p *limited) Find(ctx context.Context, w cluster.DesiredResource) (r cluster.Resource, err error) {
	err = p.call(ctx, "find", false, func(ctx context.Context) error { r, err = p.inner.Find(ctx, w); return err })
	return r, err
}

// List gives a page.
func (p *limited) List(ctx context.Context, f cluster.Filter, page cluster.Cursor) (out cluster.Page, err error) {
	err = p.call(ctx, "list", false, func(ctx context.Context) error { out, err = p.inner.List(ctx, f, page); return err })
	return out, err
}

// Logs shows what a VM wrote.
func (p limitedLogs) Logs(ctx context.Context, ref cluster.Ref, lines int) (text string, err error) {
	logs := p.inner.(cluster.Logs) //nolint:forcetypeassert // limit looked
	err = p.call(ctx, "logs", false, func(ctx context.Context) error { text, err = logs.Logs(ctx, ref, lines); return err })
	return text, err
}
