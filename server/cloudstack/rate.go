package cloudstack

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// limiters limit the requests of each name per second, with a burst after a pause.
type limiters struct {
	perSecond, burst int
	mu               sync.Mutex
	byName           map[string]*rate.Limiter
}

func newLimiters(perSecond, burst int) *limiters {
	return &limiters{perSecond: perSecond, burst: burst, byName: map[string]*rate.Limiter{}}
}

// maxNames limits the stored names. If there are more, names with their full burst are removed.
const maxNames = 10_000

// take counts a request of a name, or returns how long it must wait.
func (l *limiters) take(name string, now time.Time) (wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	one, ok := l.byName[name]
	if !ok {
		if len(l.byName) >= maxNames {
			for other, its := range l.byName {
				if its.TokensAt(now) >= float64(l.burst) {
					delete(l.byName, other)
				}
			}
		}
		one = rate.NewLimiter(rate.Limit(l.perSecond), l.burst)
		l.byName[name] = one
	}
	turn := one.ReserveN(now, 1)
	if wait = turn.DelayFrom(now); wait > 0 {
		turn.CancelAt(now)
	}
	return wait
}
