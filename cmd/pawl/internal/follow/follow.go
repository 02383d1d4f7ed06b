// Package follow shows a run while it goes on, until it rests, ends or needs somebody.
package follow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/backend"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/live"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Follower reads and draws runs for a verb.
type Follower struct{ *cli.App }

// Reading describes a watch: a run, from a revision on, for some time.
type Reading struct {
	ID    string
	After int64         // the revision when a request was sent: a rest at that revision does not count
	Wait  time.Duration // at most
	Since *view.Run     // the last printed state; nil: none

	// Request is the id of a request that was sent in the state Since. A run that was paused then does not rest
	// before it has carried it out: what it ends first, such as a bracket, raises its revision too.
	Request string
}

// asked reports a paused run that has not carried out the request yet.
func (w Reading) asked(r view.Run) bool {
	if w.Request == "" || w.Since == nil || w.Since.Phase != runtype.Paused || r.Phase != runtype.Paused || IsRequest(r.Last, w.Request) {
		return false
	}
	return r.Last == nil || w.Since.Last != nil && r.Last.ID == w.Since.Last.ID
}

// Follow shows a run until it rests, and works on it if nobody else does. Its
// error carries the exit code of the run.
func (a Follower) Follow(ctx context.Context, b backend.Runs, what Reading) error {
	s := a.screen(what.Since)
	r, err := a.Working(ctx, b, what, s)
	s.close()
	if err != nil {
		return err
	}
	if err := Refusal(r.Last, ""); err != nil && r.Revision > what.After && what.After > 0 {
		return err
	}
	if !a.IsText() {
		if err := a.Emit(r, []string{r.ID}, nil); err != nil {
			return err
		}
	}
	code := view.ExitOfRun(r)
	if code == view.ExitActive || code == view.ExitRemedy && r.Phase != runtype.Paused {
		a.hintGoing(b, r, ctx.Err() != nil)
	}
	return cli.End(code)
}

// Working watches a run while this process works on the store, and returns the
// run as it is after that.
func (a Follower) Working(ctx context.Context, b backend.Runs, what Reading, s screen) (view.Run, error) {
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
	_, err := a.Watch(watching, b, what, s)
	stop()
	if workErr := <-ended; workErr != nil {
		return view.Run{}, workErr
	}
	if err != nil && !IsEnd(err) {
		return view.Run{}, err
	}
	// What open attempts did while this process ended is saved by now.
	r, err := b.Run(context.WithoutCancel(ctx), what.ID)
	if err == nil {
		s.show(r)
	}
	return r, err
}

// IsEnd reports the error of a context.
func IsEnd(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

func (a Follower) hintGoing(b backend.Runs, r view.Run, interrupted bool) {
	id := view.Short(r.ID)
	state := strings.ToLower(string(r.Phase))
	switch {
	case b.Alone():
		a.Hint("%s has not ended, and nobody works on it now; go on with: pawl resume %s --wait", id, id)
	case interrupted:
		a.Hint("%s is %s and goes on; watch it with: pawl watch %s", id, state, id)
	default:
		a.Hint("%s is still %s; watch it with: pawl watch %s", id, state, id)
	}
}

// Rests reports a run that does not continue by itself.
func Rests(r view.Run) bool {
	if r.Phase == runtype.Paused {
		return !slices.ContainsFunc(r.Healing, func(h view.Healing) bool {
			return r.Fault != nil && h.Code == r.Fault.Code && h.Ended == "" && (h.Open || !h.NextAt.IsZero())
		})
	}
	return r.Phase.Final()
}

// screen shows the states of a run. It is closed before anything else is printed.
type screen interface {
	show(r view.Run)
	close()
}

// readingShare is how many times as long as a reading took a watcher waits at
// least before the next one: a run of many steps is executed, not read.
const readingShare = 9

// Watch reads a run whenever it may have changed, until it rests, the wait is
// over or the context ends.
func (a Follower) Watch(ctx context.Context, b backend.Runs, what Reading, s screen) (view.Run, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var over <-chan time.Time
	if what.Wait < cli.Forever {
		timer := time.NewTimer(what.Wait)
		defer timer.Stop()
		over = timer.C
	}
	changes := b.Changes(ctx, what.ID)
	tick := time.NewTicker(time.Second) // for the times of open steps on a screen
	defer tick.Stop()
	var r view.Run
	heard := changes // nil: a change is known and read at the next turn
	again := time.NewTimer(cli.Forever)
	defer again.Stop()
	var rested time.Time // when the run may be read again
	for read := true; ; {
		if read {
			began := time.Now()
			next, err := b.Run(ctx, what.ID)
			if err != nil {
				return r, err
			}
			r, rested = next, time.Now().Add(readingShare*time.Since(began))
		}
		s.show(r)
		if Rests(r) && r.Revision > what.After && !what.asked(r) {
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

// Show shows a run until it rests, the wait is over or the context ends.
func (a Follower) Show(ctx context.Context, b backend.Runs, what Reading) (view.Run, error) {
	s := a.screen(what.Since)
	defer s.close()
	return a.Watch(ctx, b, what, s)
}

// screen is a live tree on a terminal, lines in a pipe, and nothing for programs.
func (a Follower) screen(since *view.Run) screen {
	switch {
	case !a.IsText():
		return Nothing{}
	case a.IsLive():
		return liveTree{live.Open(a.Out, a.Style(a.Out))}
	default:
		return &plainLines{a: a, before: since}
	}
}

// Nothing is a screen that shows nothing.
type Nothing struct{}

func (Nothing) show(view.Run) {}
func (Nothing) close()        {}

// plainLines prints what is new.
type plainLines struct {
	a      Follower
	before *view.Run
}

func (p *plainLines) show(r view.Run) {
	p.a.Print(view.Changes(p.before, r, time.Now(), p.a.Style(p.a.Out)))
	p.before = &r
}

func (p *plainLines) close() {}

// Print writes lines.
func (a Follower) Print(lines []string) {
	for _, line := range lines {
		fmt.Fprintln(a.Out, line)
	}
}

// liveTree draws the whole run.
type liveTree struct{ on *live.Screen }

func (t liveTree) show(r view.Run) {
	t.on.Show(func(style view.Style) []string { return view.Tree(r, time.Now(), style) })
}

func (t liveTree) close() { t.on.Close() }

// NeedsRemedy reports an object that does not continue by itself: its machine has
// observed its newest spec, and its fault is neither retried nor healed.
func NeedsRemedy(ctx context.Context, b backend.Runs, o control.Object) bool {
	s := view.StateOf(o)
	if s.Fault == nil || s.Fault.ObservedGeneration < o.Generation {
		return false
	}
	if s.RunPhase == string(runtype.Paused) { // unless somebody has resumed it meanwhile
		r, err := b.Run(ctx, s.Run)
		return err != nil || r.Phase == runtype.Paused && Rests(r)
	}
	return s.Fault.Class != fault.Transient
}

// IsRequest recognizes a request by its id; a server puts the account before it.
func IsRequest(last *view.LastRequest, id string) bool {
	return last != nil && (last.ID == id || strings.HasSuffix(last.ID, ":"+id))
}

// Refusal is the fault with which a request was refused; an empty id takes any.
func Refusal(last *view.LastRequest, id string) error {
	if last == nil || last.Code == "" || id != "" && !IsRequest(last, id) {
		return nil
	}
	kind, ok := fault.Lookup(string(last.Code))
	if !ok {
		kind = fault.Unknown
	}
	return kind.Errorf("%s", last.Message)
}
