package faults_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/test/controlplane"
)

// baseline is a run of the test without faults: the results, and the number of writes of
// the operator.
type baseline struct {
	created, switched          string
	createWrites, switchWrites int
	epoch                      int64
}

var undisturbed = struct {
	once sync.Once
	baseline
}{}

// undisturbedBaseline runs the test without faults, once.
func undisturbedBaseline(t *testing.T) baseline {
	t.Helper()
	undisturbed.once.Do(func() {
		w := newFixture(t)
		o := w.operator(alone(15 * time.Second)...)
		o.start()
		began := time.Now()
		w.create()
		w.awaitAtRest(nil)
		created := time.Since(began)
		l := baseline{created: w.settled(o), createWrites: o.count(flow), epoch: w.epoch()}
		w.ignoreRuns()
		began = time.Now()
		id := w.switchWriter()
		w.awaitAtRest(writerIs(id))
		switched := time.Since(began)
		l.switched, l.switchWrites = w.settled(o), o.count(flow)-l.createWrites
		w.checkStepsOnce()
		rows := w.writers.rows()
		if epoch := w.epoch(); epoch != l.epoch+1 {
			t.Errorf("the epoch was %d, and is %d after a switch", l.epoch, epoch)
		}
		undisturbed.baseline = l
		t.Logf("undisturbed: created in %s with %d writes, switched in %s with %d writes; %d rows",
			created.Round(100*time.Millisecond), l.createWrites, switched.Round(100*time.Millisecond), l.switchWrites, rows)
	})
	if undisturbed.switched == "" {
		t.Fatal("there is no baseline to compare with")
	}
	return undisturbed.baseline
}

// settled returns the snapshot when the operator has written nothing for two seconds and
// nothing changes.
func (w *fixture) settled(o *operator) (form string) {
	w.t.Helper()
	quiet(o, 2*time.Second)
	w.awaitEvery(500*time.Millisecond, patience, "nothing comes or goes", func(ctx context.Context) (err error) {
		if form, err = w.snapshot(ctx); err != nil {
			return err
		}
		for _, passing := range []string{"not at rest", "deleted true", "ready false", ", 0 ready", "Pending", " False ManagerUnreachable", "generation false"} {
			if strings.Contains(form, passing) {
				return errors.New(form)
			}
		}
		return nil
	})
	return form
}

// quiet waits until an operator has written nothing for a while.
func quiet(o *operator, d time.Duration) {
	for n, since := o.count(flow), time.Now(); time.Since(since) < d; time.Sleep(50 * time.Millisecond) {
		if now := o.count(flow); now != n {
			n, since = now, time.Now()
		}
	}
}

// count returns how many requests of an operator match.
func (o *operator) count(of func(*controlplane.Call) bool) (n int) {
	for _, c := range o.proxy.Calls() {
		if of(&c) {
			n++
		}
	}
	return n
}

// isCreate returns a matcher of successful creates.
func isCreate(resource string) func(*controlplane.Call) bool {
	return func(c *controlplane.Call) bool { return c.Verb == "create" && c.Resource == resource && c.Code == 201 }
}

// countCreated returns how many objects of a kind all operators have created.
func (w *fixture) countCreated(resource string) (n int) {
	for _, o := range w.operators {
		n += o.count(isCreate(resource))
	}
	return n
}
