package controller

import (
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func key(name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "default", Name: name}}
}

// The delay is 5 ms × 2ⁿ, at most 5 minutes; a success resets it.
func TestRetriesGrow(t *testing.T) {
	r := newRetries(15)
	for n := range 30 {
		want := longestRetry
		if n < 16 {
			want = firstRetry << n
		}
		if got := r.delay(key("a")); got != want {
			t.Fatalf("retry %d after %s, want %s", n, got, want)
		}
	}
	r.forget(key("a"))
	if got := r.delay(key("a")); got != firstRetry {
		t.Errorf("after a success: %s", got)
	}
}

// All keys share a token bucket of 300, filled by 50 per second.
func TestRetriesShareABucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRetries(15)
		again := func(n int) time.Duration { return r.delay(key(time.Duration(n).String())) }
		for n := range retryBurst {
			if got := again(n); got != firstRetry {
				t.Fatalf("retry %d of a burst after %s", n, got)
			}
		}
		for n := range 100 {
			if got, want := again(1000+n), time.Duration(n+1)*time.Second/retriesPerSec; got.Round(time.Millisecond) != want {
				t.Fatalf("retry %d beyond the burst after %s, want %s", n, got, want)
			}
		}
		time.Sleep(10 * time.Second)
		if got := again(5000); got != firstRetry {
			t.Errorf("after a rest: %s", got)
		}
	})
}

// The failure after MaxRetries in a row exhausts a key. Free failures do not count, success
// resets the count, and keys are independent.
func TestRetriesAreCounted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(-1, 4).Draw(t, "most")
		r, want, last := newRetries(most), map[string]int{}, map[string]string{}
		t.Repeat(map[string]func(*rapid.T){
			"fail": func(t *rapid.T) {
				name, code := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "key"), rapid.SampledFrom([]string{"X", "Y"}).Draw(t, "code")
				free := rapid.Bool().Draw(t, "free")
				exhausted, newCode := r.failed(key(name), code, free)
				if free {
					if exhausted || newCode {
						t.Fatal("trouble of the control plane counts")
					}
					return
				}
				want[name]++
				if exhausted != (want[name] > max(most, 0)) || newCode != (last[name] != code) {
					t.Fatalf("failure %d of %s with %s after %q: exhausted %t, news %t", want[name], name, code, last[name], exhausted, newCode)
				}
				last[name] = code
			},
			"succeed": func(t *rapid.T) {
				name := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "key")
				r.forget(key(name))
				delete(want, name)
				delete(last, name)
			},
			"": func(t *rapid.T) {
				if r.len() != len(want) {
					t.Fatalf("%d keys are remembered, want %d", r.len(), len(want))
				}
			},
		})
	})
}

// A key that is never given up is tried at the longest delay, however often it failed.
func TestUnlimitedRetries(t *testing.T) {
	r := newRetries(Unlimited)
	for i := range 1000 {
		if exhausted, _ := r.failed(key("a"), "X", false); exhausted {
			t.Fatalf("given up after %d failures", i+1)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		r := newRetries(Unlimited)
		for range 40 {
			r.delay(key("a"))
		}
		if got := r.delay(key("a")); got != longestRetry {
			t.Errorf("the delay is %s, want %s", got, longestRetry)
		}
	})
}
