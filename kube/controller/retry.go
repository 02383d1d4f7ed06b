package controller

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// The limits of retries, as in control.QueueOptions.
const (
	firstRetry    = 5 * time.Millisecond // per key; doubles with each failure in a row
	longestRetry  = 5 * time.Minute
	retriesPerSec = 50 // for all keys of a controller together
	retryBurst    = 300
)

// retries counts the failures of keys since their last success.
type retries struct {
	limit   int // retries in a row until a key is given up
	limiter workqueue.TypedRateLimiter[reconcile.Request]

	mu      sync.Mutex
	charged map[reconcile.Request]int
	codes   map[reconcile.Request]string // of the last failure
}

func newRetries(most int) *retries {
	return &retries{
		limit: max(most, 0),
		limiter: workqueue.NewTypedMaxOfRateLimiter(
			workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, longestRetry),
			&workqueue.TypedBucketRateLimiter[reconcile.Request]{Limiter: rate.NewLimiter(retriesPerSec, retryBurst)},
		),
		charged: map[reconcile.Request]int{}, codes: map[reconcile.Request]string{},
	}
}

// failed counts a failure unless it is free. exhausted: the key has used up its retries.
// newCode: the previous failure of the key had another code.
func (r *retries) failed(key reconcile.Request, code string, free bool) (exhausted, newCode bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if free {
		return false, false
	}
	newCode = r.codes[key] != code
	r.codes[key] = code
	r.charged[key]++
	return r.charged[key] > r.limit, newCode
}

// delay returns the delay before the next retry.
func (r *retries) delay(key reconcile.Request) time.Duration { return r.limiter.When(key) }

// forget resets the failures of a key.
func (r *retries) forget(key reconcile.Request) {
	r.limiter.Forget(key)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.charged, key)
	delete(r.codes, key)
}

// len returns the number of keys with charged failures.
func (r *retries) len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.charged)
}
