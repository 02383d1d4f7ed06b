package rollouttest

import (
	"context"
	"math"
	"reflect"
	"strconv"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
)

// Witness follows every version of the Rollouts, StatefulSets, pods and PodDisruptionBudgets of a
// namespace, past all proxies, and judges them in the order of the API server when the test ends:
// a forward partition never rises, nothing is released outside of a batch or behind its end, and no
// budget is broken.
type Witness struct {
	w *World

	// Grace is how old what the operator decides on may be.
	Grace time.Duration

	mu   sync.Mutex
	seen []sighting
	newest
	watches []watch.Interface
	running sync.WaitGroup
}

// newest is the newest version that was seen of each object, by its UID.
type newest map[string]uint64

// sighting is one version of an object.
type sighting struct {
	version uint64
	at      time.Time
	gone    bool
	object  client.Object
}

func (w *World) watchAll() *Witness {
	w.Helper()
	x := &Witness{w: w, Grace: 3 * time.Second, newest: newest{}}
	c, err := client.NewWithWatch(w.Plane.Config(), client.Options{Scheme: Scheme(w.T)})
	if err != nil {
		w.Fatal(err)
	}
	for _, list := range x.lists() {
		if err := w.Client.List(w.Context(), list, client.InNamespace(w.Namespace)); err != nil {
			w.Fatal(err)
		}
		watched, err := c.Watch(context.Background(), list, client.InNamespace(w.Namespace), &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.GetResourceVersion()}})
		if err != nil {
			w.Fatal(err)
		}
		x.watches = append(x.watches, watched)
		x.running.Go(func() { x.follow(watched) })
	}
	w.Cleanup(x.judge)
	return x
}

func (x *Witness) lists() []client.ObjectList {
	return []client.ObjectList{&api.RolloutList{}, &appsv1.StatefulSetList{}, &corev1.PodList{}, &policyv1.PodDisruptionBudgetList{}}
}

func (x *Witness) follow(watched watch.Interface) {
	for e := range watched.ResultChan() {
		object, ok := e.Object.(client.Object)
		if !ok {
			continue
		}
		version := versionOf(object)
		x.mu.Lock()
		x.seen = append(x.seen, sighting{version, time.Now(), e.Type == watch.Deleted, object})
		x.newest[string(object.GetUID())] = version
		x.mu.Unlock()
	}
}

func versionOf(o client.Object) uint64 {
	n, err := strconv.ParseUint(o.GetResourceVersion(), 10, 64)
	if err != nil {
		return math.MaxUint64
	}
	return n
}

// CaughtUp reports whether all that the API server has now was seen.
func (x *Witness) CaughtUp() bool {
	for _, list := range x.lists() {
		if err := x.w.Client.List(context.Background(), list, client.InNamespace(x.w.Namespace)); err != nil {
			return true // the plane is stopping
		}
		items := reflect.ValueOf(list).Elem().FieldByName("Items")
		for i := range items.Len() {
			object, ok := items.Index(i).Addr().Interface().(client.Object)
			x.mu.Lock()
			behind := ok && x.newest[string(object.GetUID())] < versionOf(object)
			x.mu.Unlock()
			if behind {
				return false
			}
		}
	}
	return true
}

// judge replays what was seen, when the watches show what a list shows: that alone says that nothing is missing.
func (x *Witness) judge() {
	for end := time.Now().Add(10 * time.Second); !x.CaughtUp() && time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond)
	}
	for _, w := range x.watches {
		w.Stop()
	}
	x.running.Wait()
	for _, found := range replay(x.seen, x.Grace) {
		x.w.Errorf("the witness: %s", found)
	}
}

// Take returns what has been found so far, without any grace, and forgets it.
func (x *Witness) Take() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	seen := x.seen
	x.seen = nil
	return replay(seen, 0)
}
