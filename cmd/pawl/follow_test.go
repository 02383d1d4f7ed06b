package main

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/backend"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// slowRuns has one run that changes all the time and takes a while to read.
type slowRuns struct {
	backend.Runs
	begun time.Time
	takes time.Duration
	reads int
}

func (s *slowRuns) Run(context.Context, string) (view.Run, error) {
	s.reads++
	time.Sleep(s.takes)
	r := view.Run{ID: "r0", Phase: runtype.Running, Revision: int64(s.reads)}
	if time.Since(s.begun) >= 10*time.Second {
		r.Phase = runtype.Succeeded
	}
	return r, nil
}

func (s *slowRuns) Changes(ctx context.Context, _ string) <-chan struct{} {
	c := make(chan struct{})
	go func() {
		for {
			select {
			case c <- struct{}{}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return c
}

func TestFinding5AWatcherReadsATenthOfTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowRuns{begun: time.Now(), takes: 50 * time.Millisecond}
		r, err := (&app{}).watch(t.Context(), s, reading{id: "r0", wait: forever}, nothing{})
		if err != nil || r.Phase != runtype.Succeeded {
			t.Fatal(r.Phase, err)
		}
		if took := time.Since(s.begun); s.reads < 15 || s.reads > 21 || took > 11*time.Second {
			t.Errorf("%d readings of 50 ms in %s: want a tenth of the time, and the end seen soon", s.reads, took)
		}
		synctest.Wait()
	})
}
