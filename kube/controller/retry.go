package controller

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// The limits of retries (specification of the core, 6).
const (
	firstRetry    = 5 * time.Millisecond // of a key; it doubles with each failure in a row
	longestRetry  = 5 * time.Minute
	retriesPerSec = 50 // of all keys of a controller together
	retryBurst    = 300
)

// retries are what went wrong with keys since their last success.
type retries struct {
	most    int // retries in a row until a key is given up
	limiter workqueue.TypedRateLimiter[reconcile.Request]

	mu      sync.Mutex
	charged map[reconcile.Request]int
	codes   map[reconcile.Request]string // of the last failure
}

func newRetries(most int) *retries {
	return &retries{
		most: max(most, 0),
		limiter: workqueue.NewTypedMaxOfRateLimiter(
			workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, longestRetry),
			&workqueue.TypedBucketRateLimiter[reconcile.Request]{Limiter: rate.NewLimiter(retriesPerSec, retryBurst)},
		),
		charged: map[reconcile.Request]int{}, codes: map[reconcile.Request]string{},
	}
}

// failed counts a failure. exhausted: it was one more than a key may have in a
// row; those that are free do not count. news: the one before had another code.
func (r *retries) failed(key reconcile.Request, code string, free bool) (exhausted, news bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if free {
		return false, false
	}
	news = r.codes[key] != code
	r.codes[key] = code
	r.charged[key]++
	return r.charged[key] > r.most, news
}

// again is the delay of the next try.
func (r *retries) again(key reconcile.Request) time.Duration { return r.limiter.When(key) }

// forget forgets the failures of a key.
func (r *retries) forget(key reconcile.Request) {
	r.limiter.Forget(key)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.charged, key)
	delete(r.codes, key)
}

// len is the number of keys with failures that count.
func (r *retries) len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.charged)
}
