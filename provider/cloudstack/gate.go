package cloudstack

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/pawl-dev/pawl/cluster"
)

// gates hold the limits of each zone; calls without one share a gate.
type gates struct {
	parallel, rate int

	mu    sync.Mutex
	zones map[string]*gate
	until time.Time // the server has asked us to wait
}

// gate limits how many calls are under way and how many begin in a second.
type gate struct {
	slots chan struct{}
	begin *rate.Limiter // a burst of one: in no second there are more than its limit
}

// enter waits for its turn. leave gives the slot back.
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

// held is how long the server wants no calls from us.
func (g *gates) held() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return time.Until(g.until)
}

// hold lets no call begin for a while.
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

// locks are one mutex for each name in use.
type locks struct {
	mu   sync.Mutex
	held map[string]chan struct{}
}

// lock waits until nobody else holds the name.
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

// pace says when to look at a job again: a second later each time.
type pollPacer struct {
	step, max time.Duration

	mu    sync.Mutex
	polls map[string]int
}

// mostJobs bounds what is remembered of jobs whose end nobody asks for.
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

// recent remembers what was made last, so that a list that lags does not
// make it twice. It is a hint: what it names is read before it is believed.
type recent struct {
	mu  sync.Mutex
	ids map[string]string
	log []string // keys in the order they came, in a ring
	at  int
}

const maxRecent = 1000

func recentKey(w *cluster.Want) string {
	return string(w.Kind) + "/" + w.Tags[cluster.TagCluster] + "/" + w.Key
}

func (r *recent) put(w *cluster.Want, id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ids == nil {
		r.ids, r.log = map[string]string{}, make([]string, maxRecent)
	}
	delete(r.ids, r.log[r.at])
	r.ids[recentKey(w)], r.log[r.at], r.at = id, recentKey(w), (r.at+1)%maxRecent
}

func (r *recent) get(w *cluster.Want) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ids[recentKey(w)]
}
