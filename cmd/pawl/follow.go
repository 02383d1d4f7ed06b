package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/backend"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// reading describes a watch: a run, from a revision on, for some time.
type reading struct {
	id    string
	after int64         // the revision when a request was sent: a rest at that revision does not count
	wait  time.Duration // at most
	since *view.Run     // the last printed state; nil: none
}

// follow shows a run until it rests, and works on it if nobody else does. Its
// error carries the exit code of the run.
func (a *app) follow(ctx context.Context, b backend.Runs, what reading) error {
	r, err := a.working(ctx, b, what, a.screen(what.since))
	if err != nil {
		return err
	}
	if err := refusal(r.Last, ""); err != nil && r.Revision > what.after && what.after > 0 {
		return err
	}
	if !a.isText() {
		if err := a.emit(r, []string{r.ID}, nil); err != nil {
			return err
		}
	}
	code := view.ExitOfRun(r)
	if code == view.ExitActive || code == view.ExitRemedy && r.Phase != runtype.Paused {
		a.hintGoing(b, r, ctx.Err() != nil)
	}
	return end(code)
}

// working watches a run while this process works on the store, and returns the
// run as it is after that.
func (a *app) working(ctx context.Context, b backend.Runs, what reading, s screen) (view.Run, error) {
	work, stop := context.WithCancel(ctx)
	defer stop()
	worked := make(chan error, 1)
	go func() { worked <- b.Work(work) }()
	watching, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ended := make(chan error, 1)
	go func() {
		err := <-worked
		cancel(err)
		ended <- err
	}()
	_, err := a.watch(watching, b, what, s)
	stop()
	if workErr := <-ended; workErr != nil {
		return view.Run{}, workErr
	}
	if err != nil && !isEnd(err) {
		return view.Run{}, err
	}
	// What open attempts did while this process ended is saved by now.
	r, err := b.Run(context.WithoutCancel(ctx), what.id)
	if err == nil {
		s.show(r)
	}
	return r, err
}

// isEnd reports the error of a context.
func isEnd(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

func (a *app) hintGoing(b backend.Runs, r view.Run, interrupted bool) {
	id := view.Short(r.ID)
	state := strings.ToLower(string(r.Phase))
	switch {
	case b.Alone():
		a.hint("%s is %s; go on with: pawl resume %s --wait", id, state, id)
	case interrupted:
		a.hint("%s is %s and goes on; watch it with: pawl watch %s", id, state, id)
	default:
		a.hint("%s is still %s; watch it with: pawl watch %s", id, state, id)
	}
}

// rests reports a run that does not continue by itself.
func rests(r view.Run) bool {
	if r.Phase == runtype.Paused {
		return !slices.ContainsFunc(r.Healing, func(h view.Healing) bool {
			return r.Fault != nil && h.Code == r.Fault.Code && h.Ended == "" && (h.Open || !h.NextAt.IsZero())
		})
	}
	return r.Phase.Final()
}

// screen shows the states of a run.
type screen interface {
	show(r view.Run)
}

// readingShare is how many times as long as a reading took a watcher waits at
// least before the next one: a run of many steps is executed, not read.
const readingShare = 9

// watch reads a run whenever it may have changed, until it rests, the wait is
// over or the context ends.
func (a *app) watch(ctx context.Context, b backend.Runs, what reading, s screen) (view.Run, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var over <-chan time.Time
	if what.wait < forever {
		timer := time.NewTimer(what.wait)
		defer timer.Stop()
		over = timer.C
	}
	changes := b.Changes(ctx, what.id)
	tick := time.NewTicker(time.Second) // for the times of open steps on a screen
	defer tick.Stop()
	var r view.Run
	heard := changes // nil: a change is known and read at the next turn
	again := time.NewTimer(forever)
	defer again.Stop()
	var rested time.Time // when the run may be read again
	for read := true; ; {
		if read {
			began := time.Now()
			next, err := b.Run(ctx, what.id)
			if err != nil {
				return r, err
			}
			r, rested = next, time.Now().Add(readingShare*time.Since(began))
		}
		s.show(r)
		if rests(r) && r.Revision > what.after {
			return r, nil
		}
		select {
		case <-ctx.Done():
			return r, ctx.Err()
		case <-over:
			return r, nil
		case <-tick.C:
			read = false
		case <-heard:
			wait := time.Until(rested)
			if read = wait <= 0; !read {
				heard = nil
				again.Reset(wait)
			}
		case <-again.C:
			heard, read = changes, true
		}
	}
}

// screen is a live tree on a terminal, lines in a pipe, and nothing for programs.
func (a *app) screen(since *view.Run) screen {
	switch {
	case !a.isText():
		return nothing{}
	default:
		if _, _, ok := terminal(a.out); ok {
			return &liveTree{a: a}
		}
		return &plainLines{a: a, before: since}
	}
}

type nothing struct{}

func (nothing) show(view.Run) {}

// plainLines prints what is new.
type plainLines struct {
	a      *app
	before *view.Run
}

func (p *plainLines) show(r view.Run) {
	p.a.print(view.Changes(p.before, r, time.Now(), p.a.style(p.a.out)))
	p.before = &r
}

func (a *app) print(lines []string) {
	for _, line := range lines {
		fmt.Fprintln(a.out, line)
	}
}

// liveTree draws the whole run and draws over it when it has changed.
type liveTree struct {
	a     *app
	lines int
}

func (t *liveTree) show(r view.Run) {
	lines := view.Tree(r, time.Now(), t.a.style(t.a.out))
	var b strings.Builder
	if t.lines > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", t.lines)
	}
	for _, line := range lines {
		b.WriteString("\x1b[2K" + line + "\n")
	}
	b.WriteString("\x1b[J")
	fmt.Fprint(t.a.out, b.String())
	t.lines = len(lines)
}
