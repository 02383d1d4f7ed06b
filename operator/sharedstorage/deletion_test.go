package sharedstorage_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

var (
	errEnding  = errors.New("runs is forbidden: unable to create new content in namespace default because it is being terminated")
	errMissing = errors.New("the server could not find the requested resource")
)

// closedStore is a run store that can be made to reject new runs.
type closedStore struct {
	*runstore.Memory
	why atomic.Pointer[error]
}

func (c *closedStore) Create(ctx context.Context, r *runtype.Run, events []runtype.Event) (*runtype.Run, error) {
	if why := c.why.Load(); why != nil {
		return nil, runstore.StoreUnavailable.Errorf("creating run %s: %w", r.ID, *why)
	}
	return c.Memory.Create(ctx, r, events)
}

func classifyRunError(err error) sharedstorage.RunStoreState {
	switch {
	case errors.Is(err, errEnding):
		return sharedstorage.RunStoreTerminating
	case errors.Is(err, errMissing):
		return sharedstorage.RunStoreMissing
	}
	return sharedstorage.RunStoreAvailable
}

// inClosing runs a test in a harness whose store can be closed.
func inClosing(t *testing.T, test func(l *harness, shut func(error))) {
	t.Helper()
	options := func(o *sharedstorage.Options) { o.ClassifyRunError = classifyRunError }
	inHarness(t, setup{sim: times(), options: options}, func(l *harness) {
		l.halt()
		store := &closedStore{Memory: runstore.NewMemory()}
		l.store = store
		l.start()
		test(l, func(err error) { store.why.Store(&err) })
	})
}

// A namespace that is being deleted forbids the run of a deletion. The cluster loses its finalizer
// at once, in whatever state it is, and an Event names data that were to be kept.
func TestFinding29NamespaceIsDeleted(t *testing.T) {
	for name, stand := range map[string]func(l *harness){
		"at rest": func(l *harness) { up(l, "blue") },
		"before its first run": func(l *harness) {
			l.create("blue", nil)
			time.Sleep(time.Millisecond)
		},
		"while it is made": func(l *harness) {
			l.create("blue", nil)
			l.state("blue", sharedstorage.Creating, time.Minute)
		},
		"recreating": func(l *harness) { // its pods were deleted first
			up(l, "blue")
			for _, i := range l.sim.Instances(ref("blue")) {
				l.sim.DropInstance(ref("blue"), i.Name)
			}
			l.clusters.notify("blue")
			l.until("blue", "recreating", time.Hour, func(c *sharedstorage.Cluster) bool {
				return strings.Contains(c.Status.State+c.Status.PreviousState, "Recreating")
			})
		},
		"without its grant": func(l *harness) {
			up(l, "blue")
			l.sim.LoseGrant(ref("blue"))
		},
		"while its class changes": func(l *harness) {
			up(l, "blue")
			l.edit("blue", func(s *v1alpha1.SharedStorageClusterSpec) { s.Class.Name = "large" })
			l.state("blue", sharedstorage.ChangingSpecification, time.Minute)
			time.Sleep(5 * time.Second)
		},
	} {
		for _, retain := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				inClosing(t, func(l *harness, shut func(error)) {
					stand(l)
					if !retain {
						l.edit("blue", func(s *v1alpha1.SharedStorageClusterSpec) { s.Storage.OnDelete = "Delete" })
					}
					shut(errEnding)
					l.remove("blue")
					l.gone("blue", 2*time.Minute)
					told := strings.Contains(l.eventsText(), "blue "+sharedstorage.DataNotKept+": ")
					if data := len(l.sim.Instances(ref("blue"))) > 0; told != (retain && data) && name == "at rest" {
						l.t.Errorf("retain %t: told %t\n%s", retain, told, l.story())
					}
				})
			})
		}
	}
}

// Where no run can be stored and the namespace stays, the operator deletes the cluster without a
// run after a minute. Only data that shall be kept are left.
func TestFinding29WithoutAPlaceForRuns(t *testing.T) {
	for _, retain := range []bool{true, false} {
		inClosing(t, func(l *harness, shut func(error)) {
			up(l, "blue")
			if !retain {
				l.edit("blue", func(s *v1alpha1.SharedStorageClusterSpec) { s.Storage.OnDelete = "Delete" })
				l.awaitRunning("blue", time.Minute)
			}
			shut(errMissing)
			l.remove("blue")
			time.Sleep(30 * time.Second)
			if l.observe("blue") == nil {
				t.Error("it was let go at once: the store may have been away for a moment")
			}
			l.gone("blue", time.Hour)
			if left := l.sim.Instances(ref("blue")); len(left) > 0 || l.sim.Topology(ref("blue")).Present {
				t.Errorf("left are %+v", left)
			}
			if v := l.sim.Volume(ref("blue")); retain != (v.State == port.VolumeReady) {
				t.Errorf("retain %t: the volume is %+v", retain, v)
			}
		})
	}
}
