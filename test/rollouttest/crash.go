package rollouttest

import (
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/pawl-dev/pawl/test/controlplane"
)

// Proxy is a proxy between the operator and the API server.
func (w *World) Proxy() (*controlplane.Proxy, *rest.Config) {
	w.Helper()
	proxy, err := w.Plane.NewProxyAs(w.Config)
	if err != nil {
		w.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", proxy.Kubeconfig())
	if err != nil {
		w.Fatal(err)
	}
	return proxy, config
}

// StartDoomed starts an operator that dies at a write (counted from 1; 0: never), before or after it;
// another one takes over. survived ends that, and returns the number of writes of the first.
func (w *World) StartDoomed(at int, after bool) (survived func() (writes int)) {
	w.Helper()
	proxy, config := w.Proxy()
	dead := make(chan struct{})
	var mu sync.Mutex
	writes, over := 0, false
	proxy.Intercept(func(c *controlplane.Call) controlplane.Reaction {
		mu.Lock()
		defer mu.Unlock()
		if over {
			return controlplane.Reaction{Drop: true, Lose: true}
		}
		if !c.Writes() || c.Resource == "events" {
			return controlplane.Reaction{}
		}
		if writes++; writes != at {
			return controlplane.Reaction{}
		}
		over = true
		w.Crashing.Store(true)
		close(dead)
		return controlplane.Reaction{Drop: !after, Lose: true}
	})
	w.Start(config)
	lived, ended := make(chan struct{}), make(chan struct{})
	go func() { // the next operator
		defer close(ended)
		select {
		case <-dead:
			w.Stop()
			w.Start(w.Config)
		case <-lived:
		}
	}()
	end := sync.OnceFunc(func() {
		close(lived)
		<-ended
	})
	w.Cleanup(end)
	return func() int {
		w.Helper()
		end()
		if at > 0 && !w.Crashing.Load() {
			w.Logf("the life had fewer than %d writes this time", at)
		}
		mu.Lock()
		defer mu.Unlock()
		return writes
	}
}

// CountPods counts how often each pod of the namespace is made.
func (w *World) CountPods() func() map[string]int {
	w.Helper()
	watched, err := w.Plane.Client().CoreV1().Pods(w.Namespace).Watch(w.Context(), metav1.ListOptions{})
	if err != nil {
		w.Fatal(err)
	}
	var mu sync.Mutex
	made := map[string]int{}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for e := range watched.ResultChan() {
			if p, ok := e.Object.(*corev1.Pod); ok && e.Type == watch.Added {
				mu.Lock()
				made[p.Name]++
				mu.Unlock()
			}
		}
	}()
	w.Cleanup(func() {
		watched.Stop()
		<-ended
	})
	return func() map[string]int {
		mu.Lock()
		defer mu.Unlock()
		return maps.Clone(made)
	}
}

// AllPoints reports whether every crash point is to be taken.
func AllPoints() bool { return os.Getenv("PAWL_TEST_POINTS") == "all" }

// Sample are the names of n of many cases, chosen by a seed; all with PAWL_TEST_POINTS=all.
func Sample[T any](all map[string]T, seed string, n int) []string {
	names := slices.Sorted(maps.Keys(all))
	if AllPoints() {
		return names
	}
	shuffle(names, seed)
	return names[:min(n, len(names))]
}

func shuffle[T any](all []T, seed string) {
	h := fnv.New64a()
	_, _ = h.Write([]byte(seed))
	rand.New(rand.NewPCG(h.Sum64(), 0)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] }) //nolint:gosec // a sample
}

// Point is a crash: before or after a write, counted from 1.
type Point struct {
	At    int
	After bool
}

// Points are all of a number of writes, or a sample of n that the seed of a life chooses.
// PAWL_TEST_POINTS=all takes all, a number as many.
func Points(writes int, seed string, n int) (all []Point) {
	for at := range writes {
		all = append(all, Point{at + 1, false}, Point{at + 1, true})
	}
	if AllPoints() {
		return all
	}
	if want, err := strconv.Atoi(os.Getenv("PAWL_TEST_POINTS")); err == nil {
		n = want
	}
	shuffle(all, seed)
	return all[:min(n, len(all))]
}

// CrashAtEachWrite plays a life once undisturbed, and then with a crash at each of its points, or at a
// sample of n. play returns the number of writes and what came of it, which must always be the same.
func CrashAtEachWrite(t *testing.T, seed string, n int, play func(t *testing.T, crash Point) (writes int, story string)) {
	t.Helper()
	writes, story := play(t, Point{})
	if writes < 5 {
		t.Fatalf("the life has %d writes", writes)
	}
	all := Points(writes, seed, n)
	t.Logf("%d writes, %d points", writes, len(all))
	for _, p := range all {
		t.Run(strconv.Itoa(p.At)+"-after="+strconv.FormatBool(p.After), func(t *testing.T) {
			t.Parallel()
			if _, got := play(t, p); got != story {
				t.Errorf("the story is\n%s\nwithout the crash\n%s", got, story)
			}
		})
	}
}
