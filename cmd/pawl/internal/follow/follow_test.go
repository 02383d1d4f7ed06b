package follow

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/backend"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
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
		r, err := Follower{&cli.App{}}.Watch(t.Context(), s, Reading{ID: "r0", Wait: cli.Forever}, Nothing{})
		if err != nil || r.Phase != runtype.Succeeded {
			t.Fatal(r.Phase, err)
		}
		if took := time.Since(s.begun); s.reads < 15 || s.reads > 21 || took > 11*time.Second {
			t.Errorf("%d readings of 50 ms in %s: want a tenth of the time, and the end seen soon", s.reads, took)
		}
		synctest.Wait()
	})
}

// seen has one run whose states are read one after the other.
type seen struct {
	slowRuns
	states []view.Run
}

func (s *seen) Run(context.Context, string) (view.Run, error) {
	r := s.states[0]
	if len(s.states) > 1 {
		s.states = s.states[1:]
	}
	return r, nil
}

// A run that was paused when a request was sent ends what is open, and then carries the request out: only then does it rest.
func TestAPausedRunCarriesTheRequestOut(t *testing.T) {
	pause, resume := &view.LastRequest{ID: "p"}, &view.LastRequest{ID: "ann:q"}
	before := view.Run{ID: "r0", Phase: runtype.Paused, Revision: 7, Last: pause}
	state := func(phase runtype.Phase, revision int64, last *view.LastRequest) view.Run {
		return view.Run{ID: "r0", Phase: phase, Revision: revision, Last: last}
	}
	ended := []view.Run{before, state(runtype.Paused, 8, pause), state(runtype.Running, 9, resume), state(runtype.Succeeded, 10, resume)}
	for name, c := range map[string]struct {
		states []view.Run
		want   int64
	}{
		"it succeeds":            {ended, 10},
		"it fails again":         {append(ended[:3:3], state(runtype.Paused, 11, resume)), 11},
		"it refuses":             {append(ended[:2:2], state(runtype.Paused, 12, &view.LastRequest{ID: "ann:q", Code: "X"})), 12},
		"another request passes": {append(ended[:2:2], state(runtype.Paused, 13, &view.LastRequest{ID: "z"})), 13},
	} {
		synctest.Test(t, func(t *testing.T) {
			r, err := Follower{&cli.App{}}.Watch(t.Context(), &seen{states: c.states}, Reading{ID: "r0", After: 7, Wait: time.Minute, Since: &before, Request: "q"}, Nothing{})
			if err != nil || r.Revision != c.want || !Rests(r) {
				t.Errorf("%s: %d %s, %v", name, r.Revision, r.Phase, err)
			}
			synctest.Wait()
		})
	}
}
