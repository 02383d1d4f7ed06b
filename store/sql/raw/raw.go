// Package raw measures the databases without an engine: minimal write loops, the baseline for every store.
package raw

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Result is the speed of the database without an engine.
type Result struct {
	Steps         int           `json:"steps"`
	Took          time.Duration `json:"took"`
	StepsPerSec   float64       `json:"stepsPerSecond"`
	SyncsPerStep  float64       `json:"syncsPerStep"`
	BytesPerWrite float64       `json:"bytesPerStep"`
}

// measure lets submitters make steps, each after its last one is durable.
func measure(ctx context.Context, submitters, steps int, step func(submitter int, revision int64) error) (Result, error) {
	var failed atomic.Pointer[error]
	var taken atomic.Int64
	var all sync.WaitGroup
	began := time.Now()
	for i := range submitters {
		all.Go(func() {
			for revision := int64(0); taken.Add(1) <= int64(steps) && ctx.Err() == nil; revision++ {
				if err := step(i, revision); err != nil {
					failed.Store(&err)
					return
				}
			}
		})
	}
	all.Wait()
	took := time.Since(began)
	if err := failed.Load(); err != nil {
		return Result{}, *err
	}
	return Result{Steps: steps, Took: took, StepsPerSec: float64(steps) / took.Seconds()}, ctx.Err()
}
