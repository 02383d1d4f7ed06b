package kube

import (
	"errors"
	"net/http"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// Calls of agents go through Options.Wrap, which keeps a former leader from giving orders. Each
// order has a body, at which a late one is stopped.
func TestOrdersCanBeRefused(t *testing.T) {
	g := newFixture(t)
	g.ensure(port.Volume{Size: gi})
	g.instance("blue-1-a", port.Writer)
	g.start(blue, "blue-1-a", corev1.PodRunning)
	var asked []string
	bodies, refused := true, errors.New("refused")
	o := g.o
	o.Wrap = func(http.RoundTripper) http.RoundTripper {
		return roundTrip(func(q *http.Request) (*http.Response, error) {
			asked = append(asked, q.Method+" "+q.URL.Path)
			if bodies = bodies && q.Body != nil && q.Body != http.NoBody; bodies {
				_ = q.Body.Close()
			}
			return nil, refused
		})
	}
	placement, err := NewPlacement(o)
	g.must(err)
	e, id := placement.Ports().Engine, blue.Of("blue-1-a")
	for _, order := range []func() error{
		func() error { return e.Start(t.Context(), id) },
		func() error { return e.Stop(t.Context(), id, port.Fast) },
		func() error { return e.Follow(t.Context(), id, "blue-1-a") },
		func() error { return e.Promote(t.Context(), id, 2) },
		func() error { _, err := e.Apply(t.Context(), id, nil); return err },
	} {
		if err := order(); !errors.Is(err, refused) {
			t.Errorf("an order: %v", err)
		}
	}
	want := []string{"POST /v1/start", "POST /v1/stop", "POST /v1/follow", "POST /v1/promote", "POST /v1/apply"}
	if !slices.Equal(asked, want) || !bodies {
		t.Errorf("asked %v, want %v; all with bodies: %t", asked, want, bodies)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(q *http.Request) (*http.Response, error) { return f(q) }
