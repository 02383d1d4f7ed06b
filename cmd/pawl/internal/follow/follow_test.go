package follow

import (
	"bytes"
	"context"
	"strings"
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

// On a terminal the tree is drawn over itself; a shorter one leaves nothing behind.
func TestLiveTree(t *testing.T) {
	var out bytes.Buffer
	tree := &liveTree{a: Follower{&cli.App{Out: &out, Err: &out}}}
	r := view.Run{ID: "gk3vaaaaaaaaaaaaaaaaaaaaaa", Flow: "Create", Subject: "demo/default/c1", Phase: runtype.Running,
		Steps: []view.Step{{Name: "A", Phase: runtype.StepRunning}}}
	tree.show(r)
	first := out.String()
	if strings.Contains(first, "\x1b[1A") || !strings.Contains(first, "● A") {
		t.Errorf("the first drawing is %q", first)
	}
	out.Reset()
	now := time.Now()
	r.Phase, r.StartedAt, r.EndedAt = runtype.Succeeded, now, now
	r.Steps[0].Phase, r.Steps[0].StartedAt, r.Steps[0].EndedAt = runtype.StepDone, now, now
	tree.show(r)
	second := out.String()
	if !strings.HasPrefix(second, "\x1b[2A\x1b[2K") || !strings.Contains(second, "✔ A") || !strings.HasSuffix(second, "\x1b[J") {
		t.Errorf("the second drawing is %q", second)
	}
}
