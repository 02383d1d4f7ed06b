package measure

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// WaitingResult is what waiting runs cost.
type WaitingResult struct {
	Store            string  `json:"store"`
	Waiting          int     `json:"waiting"`
	CreatePerSecond  float64 `json:"createPerSecond"`
	ResidentPerRun   float64 `json:"residentPerRun"`   // bytes of RSS, after against before, freed memory given back
	HeapPerRun       float64 `json:"heapPerRun"`       // bytes of live heap
	IdleSeconds      float64 `json:"idleSeconds"`      // how long it was watched
	IdleCPU          float64 `json:"idleCPU"`          // cores
	Goroutines       int     `json:"goroutines"`       // more than without the runs
	Signals          int     `json:"signals"`          //
	SignalP50Ms      float64 `json:"signalP50Ms"`      // from Send to the durable end of the run
	SignalP99Ms      float64 `json:"signalP99Ms"`      //
	WritesWhileIdle  int64   `json:"writesWhileIdle"`  //
	ResidentTotalMiB float64 `json:"residentTotalMiB"` //
}

// Waiting starts n runs that wait for a signal, watches them wait, and wakes some.
func (b *Bench) Waiting(ctx context.Context, name string, n, signals int, idle time.Duration) (WaitingResult, error) {
	const clients = 100
	r := WaitingResult{Store: name, Waiting: n, Signals: signals}
	before, heapBefore, routines := resident(), heap(), runtime.NumGoroutine()
	began := time.Now()
	ids := make([]string, n)
	next := make(chan int)
	errs := make(chan error, clients)
	var group sync.WaitGroup
	for range clients {
		group.Go(func() {
			for i := range next {
				subject := fmt.Sprintf("bench/wait/%d", i)
				ids[i] = workflow.RunID(subject, waitFlow, "1")
				if err := b.until(ctx, ids[i], func() error {
					_, err := b.Engine.Start(ctx, workflow.Request{Flow: waitFlow, Subject: subject, RequestID: "1"})
					return err
				}); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	for i := range n {
		select {
		case next <- i:
		case err := <-errs:
			return r, err
		}
	}
	close(next)
	group.Wait()
	r.CreatePerSecond = float64(n) / time.Since(began).Seconds()
	r.HeapPerRun = float64(heap()-heapBefore) / float64(n)
	total := resident()
	r.ResidentPerRun, r.ResidentTotalMiB = float64(total-before)/float64(n), float64(total)/(1<<20)
	r.Goroutines = runtime.NumGoroutine() - routines
	if idle > 0 {
		cpu, writes, began := CPU(), b.count.writes.Load(), time.Now()
		select {
		case <-time.After(idle):
		case <-ctx.Done():
			return r, ctx.Err()
		}
		r.IdleSeconds = time.Since(began).Seconds()
		r.IdleCPU = (CPU() - cpu).Seconds() / r.IdleSeconds
		r.WritesWhileIdle = b.count.writes.Load() - writes
	}
	var latencies []time.Duration
	for _, i := range rand.Perm(n)[:min(signals, n)] {
		began := time.Now()
		if err := b.until(ctx, ids[i], func() error {
			return b.Engine.Send(ctx, ids[i], runtype.Signal{ID: "go-" + strconv.Itoa(i), Name: "go"})
		}); err != nil {
			return r, err
		}
		latencies = append(latencies, time.Since(began))
	}
	slices.Sort(latencies)
	r.SignalP50Ms, r.SignalP99Ms = Quantile(latencies, 0.50), Quantile(latencies, 0.99)
	return r, nil
}

// until does something to a run and returns when the run waits or has ended, durably.
func (b *Bench) until(ctx context.Context, id string, do func() error) error {
	ended := make(chan struct{})
	b.mu.Lock()
	b.ended[id] = ended
	b.mu.Unlock()
	if err := do(); err != nil {
		return err
	}
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// resident is the memory of this process, after unused memory was given back.
func resident() int64 {
	debug.FreeOSMemory()
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(bytes.TrimSpace(data)))
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}
