package faults_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
)

// change is an edit of the cluster that needs a flow with many steps.
type change struct {
	name string
	spec tree
	done func(*v1alpha1.SharedStorageCluster) error
}

// changes run one after the other, so that their results can be compared.
var changes = []change{
	{"change of class", tree{"class": tree{"name": "medium"}}, func(c *v1alpha1.SharedStorageCluster) error {
		for id, i := range c.Status.Instances {
			if i.Class != "medium" || c.Status.Class != "medium" {
				return fmt.Errorf("the cluster is %s, and instance %s is %s", c.Status.Class, id, i.Class)
			}
		}
		return nil
	}},
	{"scale-out", tree{"readers": 2}, func(c *v1alpha1.SharedStorageCluster) error {
		if n := len(c.Status.Instances); n != 3 {
			return fmt.Errorf("there are %d instances", n)
		}
		return nil
	}},
}

// changeBaseline is the result of a change without faults.
type changeBaseline struct {
	form          string
	writes, epoch int
	instances     int // created until then
}

var undisturbedChanges struct {
	once sync.Once
	ends []changeBaseline
}

// changeBaselines runs the changes without faults, once.
func changeBaselines(t *testing.T) []changeBaseline {
	t.Helper()
	undisturbedChanges.once.Do(func() {
		w := newFixture(t)
		o := w.operator(alone(15 * time.Second)...)
		o.start()
		w.create()
		w.awaitAtRest(nil)
		w.settled(o)
		var ends []changeBaseline
		for _, c := range changes {
			w.ignoreRuns()
			before, began := o.count(flow), time.Now()
			w.patch(tree{"spec": c.spec})
			w.awaitAtRest(c.done)
			took := time.Since(began)
			ends = append(ends, changeBaseline{form: w.settled(o), writes: o.count(flow) - before, epoch: int(w.epoch()), instances: w.countCreated("pods")})
			w.checkStepsOnce()
			t.Logf("undisturbed: a %s in %s with %d writes", c.name, took.Round(100*time.Millisecond), ends[len(ends)-1].writes)
		}
		w.writers.rows()
		undisturbedChanges.ends = ends
	})
	if undisturbedChanges.ends == nil {
		t.Fatal("there is no baseline to compare with")
	}
	return undisturbedChanges.ends
}

// The operator is killed before and after each of its writes while it changes the class of
// a cluster and adds a reader. The result is that of a change without faults: no instance
// is left over, no id is used twice, no answered row is lost.
func TestKilledWhileItChanges(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test-long runs it")
	}
	t.Parallel()
	want := changeBaselines(t)
	var all [][]killPoint // by change
	lanes := 0
	for _, c := range want {
		all = append(all, killPoints(c.writes+more, 1))
		lanes = max(lanes, len(all[len(all)-1]))
	}
	var killed, reached, rows atomic.Int32
	began := time.Now()
	t.Run("lane", func(t *testing.T) {
		for n := range lanes {
			t.Run(fmt.Sprint(n+1), func(t *testing.T) {
				t.Parallel()
				w := newFixture(t)
				o := w.operator(alone(soon)...)
				o.start()
				w.create()
				w.awaitAtRest(nil)
				for i, c := range changes {
					quiet(o, time.Second) // do not count earlier writes
					w.ignoreRuns()
					edit := func() func(*v1alpha1.SharedStorageCluster) error {
						w.patch(tree{"spec": c.spec})
						return c.done
					}
					began := time.Now()
					if n < len(all[i]) {
						killed.Add(1)
						if w.runWithKill(o, all[i][n], edit) {
							reached.Add(1)
						}
						t.Logf("killed %s of a %s: done after %s", all[i][n], c.name, time.Since(began).Round(100*time.Millisecond))
					} else {
						w.awaitAtRest(edit())
					}
					w.awaitSnapshot(want[i].form)
					w.checkInvariants(int64(want[i].epoch), want[i].instances)
				}
				rows.Add(int32(w.writers.rows()))
			})
		}
	})
	t.Logf("%d points of changes, %d of them reached, in %s; %d rows were committed, and all are there",
		killed.Load(), reached.Load(), time.Since(began).Round(time.Second), rows.Load())
	if reached.Load() < killed.Load()/2 { // the last kill points may be after the end
		t.Errorf("%d of %d points were reached", reached.Load(), killed.Load())
	}
}
