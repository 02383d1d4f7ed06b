package query

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// limiters give each name a number of requests a second, and a burst after a pause.
type limiters struct {
	perSecond, burst int
	mu               sync.Mutex
	byName           map[string]*rate.Limiter
}

func newLimiters(perSecond, burst int) *limiters {
	return &limiters{perSecond: perSecond, burst: burst, byName: map[string]*rate.Limiter{}}
}

// namesKept bounds what is remembered: names that may use their whole burst are forgotten when there are more.
const namesKept = 10_000

// take takes one request of a name, or says how long it must wait.
func (l *limiters) take(name string, now time.Time) (wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	one, ok := l.byName[name]
	if !ok {
		if len(l.byName) >= namesKept {
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
