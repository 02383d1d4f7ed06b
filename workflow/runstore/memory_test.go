package runstore

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/workflow/runtype"
)

func createRun(t testing.TB, m *Memory, id, subject string) *runtype.Run {
	t.Helper()
	now := time.Now().UTC()
	r, err := m.Create(t.Context(), &runtype.Run{ID: id, Flow: "f", Subject: subject, CreatedAt: now, NextAt: now, Seq: 1},
		[]runtype.Event{{Seq: 1, At: now, Kind: runtype.RunCreated}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestMemoryKeepsCopies(t *testing.T) {
	m := NewMemory()
	createRun(t, m, "a", "s")
	r, _, _ := m.Load(t.Context(), "a")
	step := &runtype.StepRecord{Name: "One", Ord: 1, Output: []byte(`1`), Fault: &runtype.Fault{Code: "X"}}
	r.Put(step)
	if err := m.Save(t.Context(), &Save{Run: r}); err != nil {
		t.Fatal(err)
	}
	step.Output[0], step.Fault.Code = '9', "Y"
	again, _, _ := m.Load(t.Context(), "a")
	again.Step("One").Output[0] = '8'
	last, _, _ := m.Load(t.Context(), "a")
	if got := last.Step("One"); string(got.Output) != "1" || got.Fault.Code != "X" {
		t.Fatalf("the store shares its values with callers: %s %s", got.Output, got.Fault.Code)
	}
}

func TestMemoryGivesUpDeadWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory()
		createRun(t, m, "a", "s")
		first, err := m.Claim(t.Context(), Claim{Worker: "w1", Limit: 1, Lease: 15 * time.Second})
		if err != nil || len(first.Runs) != 1 {
			t.Fatal(first, err)
		}
		second, _ := m.Claim(t.Context(), Claim{Worker: "w2", Limit: 1, Lease: 15 * time.Second})
		if len(second.Runs) != 0 || !second.Next.Equal(time.Now().Add(15*time.Second)) {
			t.Fatalf("got %d runs, next %s", len(second.Runs), second.Next)
		}
		time.Sleep(16 * time.Second)
		second, _ = m.Claim(t.Context(), Claim{Worker: "w2", Limit: 1, Lease: 15 * time.Second})
		if len(second.Runs) != 1 || second.Runs[0].Run.Epoch != first.Runs[0].Run.Epoch+1 {
			t.Fatalf("the run of the dead worker was not given out: %+v", second)
		}
		if err := m.Renew(t.Context(), "w1", time.Second); !errors.Is(err, ErrFenced) {
			t.Fatalf("renew of a dead worker: %v", err)
		}
		if err := m.Save(t.Context(), &Save{Run: first.Runs[0].Run}); !errors.Is(err, ErrFenced) {
			t.Fatalf("save of a dead worker: %v", err)
		}
	})
}

func TestMemoryWakesAreNeverLostForGood(t *testing.T) {
	m := NewMemory()
	for i := range cap(m.wake) + 1 {
		createRun(t, m, fmt.Sprint(i), fmt.Sprint(i))
	}
	<-m.Wake()
	createRun(t, m, "late", "late")
	var last string
	for range cap(m.wake) {
		last = <-m.Wake()
	}
	if last != "" {
		t.Fatalf("after an overflow the next wake-up is %q, want any", last)
	}
}

func TestDueHeapGivesRunsInOrder(t *testing.T) {
	var h dueHeap
	var runs []*memoryRun
	for i := range 500 {
		run := &memoryRun{number: int64(i), dueAt: rand.Int64N(100)}
		runs = append(runs, run)
		h.push(run)
	}
	for _, run := range runs[:200] {
		h.remove(run)
	}
	want := slices.Clone(runs[200:])
	slices.SortFunc(want, func(a, b *memoryRun) int {
		if a.before(b) {
			return -1
		}
		return 1
	})
	for i, run := range want {
		if h.runs[0] != run {
			t.Fatalf("place %d: run %d, want %d", i, h.runs[0].number, run.number)
		}
		h.remove(run)
	}
}

func TestMemoryForgetsRemovedRuns(t *testing.T) {
	m := NewMemory()
	var ids []string
	for i := range 50 {
		r := createRun(t, m, fmt.Sprint(i), "s")
		r.Phase, r.EndedAt = runtype.Succeeded, time.Now()
		if err := m.Save(t.Context(), &Save{Run: r}); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, r.ID)
	}
	createRun(t, m, "open", "s")
	if err := m.Remove(t.Context(), append(ids, "open")); err != nil {
		t.Fatal(err)
	}
	if len(m.runs) != 1 || len(m.order) != 1 || len(m.log.blocks) != 1 || len(m.subjects["s"].runs) != 1 {
		t.Fatalf("left: %d runs, %d in order, %d blocks", len(m.runs), len(m.order), len(m.log.blocks))
	}
}

// BenchmarkMemoryStep measures the store in one step: a save that closes a step and opens the next.
func BenchmarkMemoryStep(b *testing.B) {
	m := NewMemory()
	b.ReportAllocs()
	var r *runtype.Run
	for i := range b.N {
		if i%10 == 0 {
			r = createRun(b, m, fmt.Sprint(i), fmt.Sprint(i))
			r.Owner, r.Epoch = "w", 1
		}
		now := time.Now().UTC()
		if old := r.Current(); old != nil {
			old.Phase, old.EndedAt = runtype.StepDone, now
			r.Put(old)
		}
		r.Put(&runtype.StepRecord{Name: stepNames[i%10], Phase: runtype.StepRunning, Ord: int64(i%10) + 1, Attempt: 1, StartedAt: now, AttemptAt: now})
		if i%10 == 9 {
			r.Phase = runtype.Succeeded
		}
		err := m.Save(b.Context(), &Save{Run: r, Events: []runtype.Event{
			{Seq: r.Seq + 1, At: now, Kind: runtype.StepDoneEvent, Step: "a"}, {Seq: r.Seq + 2, At: now, Kind: runtype.StepStarted, Step: "b"}}})
		if err != nil {
			b.Fatal(err)
		}
		r.Seq += 2
	}
}

var stepNames = []string{"S0", "S1", "S2", "S3", "S4", "S5", "S6", "S7", "S8", "S9"}

func BenchmarkMemoryWaitingRun(b *testing.B) {
	m := NewMemory()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range b.N {
		r := createRun(b, m, fmt.Sprintf("%026d", i), fmt.Sprintf("kind/space/%d", i))
		now := time.Now().UTC()
		r.Phase, r.NextAt = runtype.Waiting, now.Add(time.Hour)
		r.Put(&runtype.StepRecord{Name: "Wait", Phase: runtype.StepWaiting, Ord: 1, Attempt: 1, Wait: &runtype.WaitRecord{Reason: "Timer", Since: now}})
		if err := m.Save(b.Context(), &Save{Run: r}); err != nil {
			b.Fatal(err)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(b.N), "B/run")
	runtime.KeepAlive(m)
}
