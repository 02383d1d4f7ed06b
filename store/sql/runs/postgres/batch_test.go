package postgres

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/store/sql/codec"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// step returns a write of a run that goes on.
func step(k int64) *write {
	return &write{k: k, owner: 1, phase: codec.PhaseNumber(runtype.Running)}
}

// batches runs a writer whose transactions take a millisecond, and returns the size of
// each batch.
func batches(w *writer) *[]int {
	sizes := &[]int{}
	for range writers {
		go func() {
			for {
				batch, began, open := w.next(nil)
				if !open {
					return
				}
				w.mu.Lock()
				*sizes = append(*sizes, len(batch))
				w.mu.Unlock()
				time.Sleep(time.Millisecond)
				w.transactionEnded(batch, began, time.Millisecond)
				answer(batch, result{applied: true})
			}
		}()
	}
	return sizes
}

// drive writes n steps of a run, with a pause before each.
func drive(t *testing.T, w *writer, k int64, n int, between time.Duration) {
	for range n {
		if _, err := w.do(t.Context(), step(k)); err != nil {
			t.Error(err)
		}
		time.Sleep(between)
	}
}

func TestFinding15RunsOfAWorkerAreWrittenTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWriter(nil)
		sizes := batches(w)
		done := make(chan struct{})
		for k := range 6 {
			go func() {
				drive(t, w, int64(k+1), 100, time.Duration(10+k*10)*time.Microsecond)
				done <- struct{}{}
			}()
		}
		for range 6 {
			<-done
		}
		w.close()
		if len(*sizes) > 110 {
			t.Errorf("600 writes of 6 runs made %d transactions, 100 would do: %v", len(*sizes), (*sizes)[:20])
		}
	})
}

func TestFinding15ARunAloneWaitsForNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWriter(nil)
		sizes := batches(w)
		began := time.Now()
		drive(t, w, 1, 100, 0)
		if took := time.Since(began); took != 100*time.Millisecond || len(*sizes) != 100 {
			t.Errorf("100 writes took %s in %d transactions of 1 ms", took, len(*sizes))
		}
		w.close()
	})
}

// A transaction that waits for a lock does not delay other runs: the second writer works
// beside it.
func TestFinding15ALongTransactionIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWriter(nil)
		first := true
		for range writers {
			go func() {
				for {
					batch, began, open := w.next(nil)
					if !open {
						return
					}
					took := time.Millisecond
					if first {
						first, took = false, time.Minute
					}
					time.Sleep(took)
					w.transactionEnded(batch, began, took)
					answer(batch, result{applied: true})
				}
			}()
		}
		go drive(t, w, 1, 1, 0)
		synctest.Wait()
		began := time.Now()
		drive(t, w, 2, 10, 0)
		if took := time.Since(began); took > minLongTransaction+15*time.Millisecond {
			t.Errorf("10 writes of 1 ms took %s beside a transaction that hangs", took)
		}
		time.Sleep(2 * time.Minute)
		w.close()
	})
}

func TestFinding15AWriteWaitsNoLongerThanATransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWriter(nil)
		batches(w)
		for k := range 5 { // runs that get an answer and then pause for long
			go drive(t, w, int64(k+10), 1, time.Hour)
		}
		time.Sleep(1100 * time.Microsecond)
		began := time.Now()
		drive(t, w, 1, 1, 0)
		if took := time.Since(began); took > 2500*time.Microsecond { // the rest of one transaction, half of one for runs that do not write, its own
			t.Errorf("a write took %s though a transaction takes 1 ms", took)
		}
		time.Sleep(time.Second)
		began = time.Now()
		drive(t, w, 1, 1, 0)
		if took := time.Since(began); took != time.Millisecond {
			t.Errorf("long after the others, a write took %s", took)
		}
		w.close()
		time.Sleep(time.Hour)
	})
}

// One long transaction does not prolong the wait for later ones.
func TestFinding15AfterALongTransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWriter(nil)
		begin := func(k int64) time.Time {
			w.pending = append(w.pending, &write{k: k, done: make(chan result, 1)})
			_, began, _ := w.next(nil)
			return began
		}
		first := begin(1)
		time.Sleep(30 * time.Millisecond)
		begin(2) // beside it
		w.transactionEnded(nil, first, 30*time.Millisecond)
		time.Sleep(time.Millisecond)
		if w.runsLongerThan(5 * time.Millisecond) {
			t.Error("the one that has been under way for a millisecond counts as long")
		}
		time.Sleep(4 * time.Millisecond)
		if !w.runsLongerThan(5 * time.Millisecond) {
			t.Error("it does not count as long after five")
		}
	})
}
