package rolloutworld

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/pawl-dev/pawl/test/controlplane"
)

func amount(n int) *intstr.IntOrString { return new(intstr.FromInt(n)) }

// Life is a rollout from its beginning to its end. Its Rollout is called db.
type Life struct {
	Begin func(w *World) // before the operator starts
	Live  func(w *World) // while it works; a crash does not end it
	Check func(w *World) // at the end
	Made  int            // how many pods are made in all
}

// Play lets a life pass; at the write that crashAt counts to (from 1; 0: none) the operator dies, and
// another one takes over. It returns the number of writes, and the history.
func (l Life) Play(t *testing.T, plane *controlplane.Plane, crashAt int, after bool) (writes int, history string) {
	t.Helper()
	w := New(t, plane)
	proxy, err := w.Plane.NewProxyAs(w.Config)
	if err != nil {
		t.Fatal(err)
	}
	dead := make(chan struct{})
	died := sync.OnceFunc(func() { w.Crashing.Store(true); close(dead) })
	over := false
	proxy.Intercept(func(c *controlplane.Call) controlplane.Reaction {
		if over {
			return controlplane.Reaction{Drop: true, Lose: true}
		}
		if !c.Writes() || c.Resource == "events" {
			return controlplane.Reaction{}
		}
		writes++
		if writes != crashAt {
			return controlplane.Reaction{}
		}
		over = true
		died()
		return controlplane.Reaction{Drop: !after, Lose: true}
	})
	config, err := clientcmd.BuildConfigFromFlags("", proxy.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	made := w.CountPods()
	l.Begin(w)
	w.Start(config)
	lived := make(chan struct{})
	go func() { // the next operator
		select {
		case <-dead:
			w.Stop()
			w.Start(w.Config)
		case <-lived:
		}
	}()
	l.Live(w)
	close(lived)
	if crashAt > 0 && !w.Crashing.Load() {
		t.Logf("the life had fewer than %d writes this time", crashAt)
	}
	l.Check(w)
	if got := made(); l.Made > 0 && got != l.Made {
		t.Errorf("%d pods were made, expected %d", got, l.Made)
	}
	if !w.Gone("db") {
		history = w.History("db")
	}
	return writes, history
}

// CountPods counts the pods of the namespace that are made.
func (w *World) CountPods() func() int {
	w.Helper()
	watched, err := w.Plane.Client().CoreV1().Pods(w.Namespace).Watch(w.Context(), metav1.ListOptions{})
	if err != nil {
		w.Fatal(err)
	}
	var mu sync.Mutex
	made := map[string]bool{}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for e := range watched.ResultChan() {
			if p, ok := e.Object.(*corev1.Pod); ok && e.Type == watch.Added {
				mu.Lock()
				made[string(p.UID)] = true
				mu.Unlock()
			}
		}
	}()
	w.Cleanup(func() {
		watched.Stop()
		<-ended
	})
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(made)
	}
}

// sample is how many points of each life `make test` takes; PAWL_TEST_POINTS=all takes all, a number as
// many.
const sample = 3

// CrashAtEachWrite lets the operator die at each write: it dies before or after a write, and another one takes over: the end is
// the same, as many pods are made, and the history says the same.
func (l Life) CrashAtEachWrite(t *testing.T, plane *controlplane.Plane) {
	t.Helper()
	writes, history := l.Play(t, plane, 0, false)
	if writes < 5 {
		t.Fatalf("the life has %d writes", writes)
	}
	type point struct {
		at    int
		after bool
	}
	var points []point
	for at := range writes {
		points = append(points, point{at + 1, false}, point{at + 1, true})
	}
	if text := os.Getenv("PAWL_TEST_POINTS"); text != "all" {
		n, err := strconv.Atoi(text)
		if err != nil {
			n = sample
		}
		rand.Shuffle(len(points), func(i, j int) { points[i], points[j] = points[j], points[i] })
		points = points[:min(n, len(points))]
	}
	t.Logf("%d writes, %d points", writes, len(points))
	for _, p := range points {
		t.Run(fmt.Sprintf("%d-after=%t", p.at, p.after), func(t *testing.T) {
			if _, got := l.Play(t, plane, p.at, p.after); got != history {
				t.Errorf("the history is\n%s\nwithout the crash\n%s", got, history)
			}
		})
	}
}
