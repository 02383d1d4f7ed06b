package control

import (
	"sync"
	"testing"
)

// A waiter that took the channel before it read the state misses no notification.
func TestNotifier(t *testing.T) {
	var n Notifier
	n.Notify() // nobody waits
	first := n.Next()
	select {
	case <-first:
		t.Fatal("it was notified before the channel was taken")
	default:
	}
	if n.Next() != first {
		t.Error("two waiters have two channels")
	}
	n.Notify()
	n.Notify()
	<-first
	if n.Next() == first {
		t.Error("a used channel was given again")
	}
}

func TestNotifierReachesAll(t *testing.T) {
	var n Notifier
	var mu sync.Mutex
	state := 0
	var waiters sync.WaitGroup
	for range 20 {
		waiters.Go(func() {
			for {
				next := n.Next()
				mu.Lock()
				now := state
				mu.Unlock()
				if now == 100 {
					return
				}
				<-next
			}
		})
	}
	for range 100 {
		mu.Lock()
		state++
		mu.Unlock()
		n.Notify()
	}
	waiters.Wait()
}
