package cloudstack

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/pawl-dev/pawl/cluster"
)

// gates limit the calls of each zone; calls without a zone share one gate.
type gates struct {
	parallel, rate int

	mu    sync.Mutex
	zones map[string]*gate
	until time.Time // the server has asked for a pause until then
}

// gate limits the concurrent calls and the calls per second.
type gate struct {
	slots chan struct{}
	begin *rate.Limiter // burst 1: no second exceeds the rate
}

// enter waits for a slot. leave releases it.
func (g *gates) enter(ctx context.Context, zone string) (leave func(), err error) {
	z := g.zone(zone)
	select {
	case z.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	leave = func() { <-z.slots }
	for wait := g.held(); wait > 0; wait = g.held() {
		if end, ok := ctx.Deadline(); ok && time.Until(end) < wait {
			leave()
			return nil, cluster.ProviderThrottled.Errorf("the server asked for a pause of another %s", wait.Round(time.Second))
		}
		if err := pause(ctx, wait); err != nil {
			leave()
			return nil, err
		}
	}
	if err := z.begin.Wait(ctx); err != nil {
		leave()
		return nil, err
	}
	return leave, nil
}

func (g *gates) zone(name string) *gate {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.zones == nil {
		g.zones = map[string]*gate{}
	}
	z, ok := g.zones[name]
	if !ok {
		z = &gate{slots: make(chan struct{}, g.parallel), begin: rate.NewLimiter(rate.Limit(g.rate), 1)}
		g.zones[name] = z
	}
	return z
}

// held returns how long to wait before the next call.
func (g *gates) held() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return time.Until(g.until)
}

// hold delays all new calls by d.
func (g *gates) hold(d time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if until := time.Now().Add(d); until.After(g.until) {
		g.until = until
	}
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// locks is a set of mutexes, one for each name in use.
type locks struct {
	mu   sync.Mutex
	held map[string]chan struct{}
}

// lock locks a name.
func (l *locks) lock(ctx context.Context, name string) (unlock func(), err error) {
	for {
		l.mu.Lock()
		if l.held == nil {
			l.held = map[string]chan struct{}{}
		}
		wait, taken := l.held[name]
		if !taken {
			free := make(chan struct{})
			l.held[name] = free
			l.mu.Unlock()
			return func() {
				l.mu.Lock()
				delete(l.held, name)
				l.mu.Unlock()
				close(free)
			}, nil
		}
		l.mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// pollPacer computes poll intervals: each poll of a job waits longer than the one before,
// by Options.Poll.
type pollPacer struct {
	step, max time.Duration

	mu    sync.Mutex
	polls map[string]int
}

// maxTrackedJobs limits the tracked jobs: some are never polled to their end.
const maxTrackedJobs = 10_000

func (p *pollPacer) next(job string) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.polls == nil || len(p.polls) >= maxTrackedJobs {
		p.polls = map[string]int{}
	}
	p.polls[job]++
	return min(time.Duration(min(p.polls[job], 1000))*p.step, p.max)
}

func (p *pollPacer) done(job string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.polls, job)
}

// recent remembers the newest creates, so that a late list does not cause a second one. An
// entry is a hint: the resource is read before it is used.
type recent struct {
	mu  sync.Mutex
	ids map[string]string
	log []string // keys in the order of insertion, as a ring
	at  int
}

const maxRecent = 1000

func recentKey(w *cluster.DesiredResource) string {
	return string(w.Kind) + "/" + w.Tags[cluster.TagCluster] + "/" + w.Key
}

func (r *recent) put(w *cluster.DesiredResource, id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ids == nil {
		r.ids, r.log = map[string]string{}, make([]string, maxRecent)
	}
	delete(r.ids, r.log[r.at])
	r.ids[recentKey(w)], r.log[r.at], r.at = id, recentKey(w), (r.at+1)%maxRecent
}

func (r *recent) get(w *cluster.DesiredResource) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ids[recentKey(w)]
}
