package faults_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/test/controlplane"
)

// soon is the duration of run leases when operators are killed: the next operator waits
// for it.
const soon = 3 * time.Second

// killPoint is where an operator is killed: at its nth write, before the API server
// receives it, or after it and before the operator gets the answer.
type killPoint struct {
	n     int
	after bool
}

func (p killPoint) String() string {
	if p.after {
		return fmt.Sprintf("after write %d", p.n)
	}
	return fmt.Sprintf("before write %d", p.n)
}

// killPoints returns the points of a flow with a number of writes: all, or an even sample.
func killPoints(writes, sample int) (chosen []killPoint) {
	all := make([]killPoint, 0, 2*writes)
	for n := range writes {
		all = append(all, killPoint{n + 1, false}, killPoint{n + 1, true})
	}
	if sample = max(sample, larger); everyPoint || sample >= len(all) {
		return all
	}
	for i := range sample { // from the middle of each part; before and after alternate
		at := (2*i + 1) * len(all) / (2 * sample)
		chosen = append(chosen, all[at&^1|i&1])
	}
	return chosen
}

// more is how many extra writes a run may have: the number of status writes depends on
// timing.
const more = 4

// killAt kills the operator at a point, counted from now.
func (o *operator) killAt(p killPoint) (died chan struct{}) {
	died = make(chan struct{})
	n := 0
	o.proxy.Intercept(func(c *controlplane.Call) controlplane.Reaction {
		if !flow(c) {
			return controlplane.Reaction{}
		}
		if n++; n != p.n {
			return controlplane.Reaction{}
		}
		die := func() {
			o.kill()
			close(died)
		}
		if p.after {
			return controlplane.Reaction{After: func(int) { die() }, Lose: true}
		}
		return controlplane.Reaction{Before: die, Drop: true}
	})
	return died
}

// runWithKill kills the operator at a point of do, starts it again and waits for the end.
// It reports whether the point was reached.
func (w *fixture) runWithKill(o *operator, p killPoint, do func() (also func(*v1alpha1.SharedStorageCluster) error)) bool {
	w.t.Helper()
	died := o.killAt(p)
	also := do()
	var rested time.Time
	w.await(patience, "the operator dies, or blue is at rest", func(ctx context.Context) error {
		select {
		case <-died:
			return nil
		default:
		}
		c, err := w.cluster(ctx)
		if err == nil {
			err = atRest(c)
		}
		if err == nil && also != nil {
			err = also(c)
		}
		if err != nil {
			rested = time.Time{}
			return err
		}
		if rested.IsZero() {
			rested = time.Now()
		}
		if time.Since(rested) < 3*time.Second { // the last writes of a pass
			return errors.New("it rests")
		}
		return nil
	})
	o.proxy.Intercept(nil)
	select {
	case <-died:
		o.start()
	default:
	}
	w.awaitAtRest(also)
	select {
	case <-died:
		return true
	default:
		return false
	}
}

// checkInvariants checks the invariants: each writer had one epoch, each instance was
// created once, each step was done once, no row is lost.
func (w *fixture) checkInvariants(epoch int64, instances int) {
	w.t.Helper()
	if got := w.epoch(); got != epoch {
		w.t.Errorf("the epoch is %d, and %d without faults", got, epoch)
	}
	for _, kind := range []string{"pods", "persistentvolumeclaims"} {
		if n := w.countCreated(kind); n > instances { // fewer: the answer was lost
			w.t.Errorf("%d %s were created, %d without faults", n, kind, instances)
		}
	}
	w.checkStepsOnce()
	w.writers.rows()
}

// killSequence is a cluster whose operator is killed repeatedly.
type killSequence struct {
	create   killPoint
	switches []killPoint
}

// killSequences distributes the points.
func killSequences(l baseline) (all []killSequence) {
	for _, p := range killPoints(l.createWrites+more, 4) {
		all = append(all, killSequence{create: p})
	}
	for i, p := range killPoints(l.switchWrites+more, 8) {
		to := &all[i%len(all)]
		to.switches = append(to.switches, p)
	}
	return all
}

// The operator is killed before and after each of its writes while it creates a cluster
// and switches the writer; a client commits rows all the time. The next operator reaches
// the same result: nothing is created twice, no answered row is lost, and two instances
// never accept writes at once.
func TestKilledAtEachWrite(t *testing.T) {
	t.Parallel()
	want := undisturbedBaseline(t)
	var creates, switches, reached, rows atomic.Int32
	began := time.Now()
	t.Run("lane", func(t *testing.T) {
		for _, l := range killSequences(want) {
			t.Run(l.create.String(), func(t *testing.T) {
				t.Parallel()
				w := newFixture(t)
				o := w.operator(alone(soon)...)
				o.start()
				creates.Add(1)
				if w.runWithKill(o, l.create, func() func(*v1alpha1.SharedStorageCluster) error { w.create(); return nil }) {
					reached.Add(1)
				}
				w.awaitSnapshot(want.created)
				w.checkInvariants(want.epoch, 2)
				for i, p := range l.switches {
					quiet(o, time.Second) // do not count earlier writes
					w.ignoreRuns()
					switches.Add(1)
					began := time.Now()
					if w.runWithKill(o, p, func() func(*v1alpha1.SharedStorageCluster) error { return writerIs(w.switchWriter()) }) {
						reached.Add(1)
					}
					took := time.Since(began)
					w.awaitSnapshot(want.switched)
					w.checkInvariants(want.epoch+int64(i)+1, 2)
					t.Logf("killed %s: switched after %s", p, took.Round(100*time.Millisecond))
				}
				rows.Add(int32(w.writers.rows()))
			})
		}
	})
	points := creates.Load() + switches.Load()
	t.Logf("%d points of creating and %d of switching, %d of them reached, in %s; %d rows were committed, and all are there",
		creates.Load(), switches.Load(), reached.Load(), time.Since(began).Round(time.Second), rows.Load())
	if reached.Load() < points/2 { // the last kill points may be after the end
		t.Errorf("%d of %d points were reached", reached.Load(), points)
	}
}
