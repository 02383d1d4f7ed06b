package controltest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/control/controltest"
	"github.com/pawl-dev/pawl/outcome"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func ref(name string) control.Ref { return control.Ref{Kind: "demo", Namespace: "default", Name: name} }

func name(key string) string {
	r, _ := control.ParseRef(key)
	return r.Name
}

func TestController(t *testing.T) {
	controltest.Controller(t, func(t *testing.T, s controltest.Setup) controltest.ControllerFixture {
		store := control.NewMemory()
		quiet := slog.New(slog.DiscardHandler)
		shared := control.NewShared(store.Feed("demo"), control.SharedOptions[control.Object]{Name: "demo", Log: quiet})
		c := control.Controller{
			Name:      "demo",
			Triggers:  []control.Trigger{control.For(shared, control.DesiredChanged)},
			Reconcile: func(ctx context.Context, key string) outcome.Outcome { return s.Reconcile(ctx, name(key)) },
			Report: func(_ context.Context, key string, err error) error {
				if err != nil {
					s.GivenUp(name(key), err)
				}
				return nil
			},
			Workers: s.Workers, MaxRetries: s.MaxRetries, Log: quiet,
		}
		modify := func(name string, change func(*control.Object)) {
			if _, err := control.Modify(t.Context(), store, ref(name), func(o *control.Object) error { change(o); return nil }); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		remove := func(name string) {
			if _, err := store.Delete(t.Context(), ref(name), 0); err != nil {
				t.Errorf("delete %s: %v", name, err)
			}
		}
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		return controltest.ControllerFixture{
			Put: func(name string, spec int) {
				if _, err := store.Apply(t.Context(), control.Object{Ref: ref(name), Spec: json.RawMessage(fmt.Sprintf(`{"n":%d}`, spec))}); err != nil {
					t.Errorf("apply %s: %v", name, err)
				}
			},
			Status: func(name string, n int) {
				modify(name, func(o *control.Object) { o.Status = json.RawMessage(fmt.Sprintf(`{"n":%d}`, n)) })
			},
			Request: func(name, value string) {
				modify(name, func(o *control.Object) { o.Annotations = map[string]string{control.RequestPrefix + "resume": value} })
			},
			Hold:   func(name string) { modify(name, func(o *control.Object) { o.Finalizers = []string{"test"} }) },
			Free:   func(name string) { modify(name, func(o *control.Object) { o.Finalizers = nil }) },
			Mark:   remove,
			Delete: remove,
			Start: func() {
				wg.Go(func() {
					if err := control.Run(ctx, []control.Runner{shared}, []control.Runner{c}); err != nil {
						t.Errorf("run: %v", err)
					}
				})
			},
			Stop: func() { cancel(); wg.Wait() },
		}
	})
}

func TestPollIsASource(t *testing.T) {
	controltest.Source(t, func(t *testing.T) controltest.SourceFixture[int] {
		var mu sync.Mutex
		items := map[string]int{}
		copyAll := func(context.Context) (map[string]int, error) {
			mu.Lock()
			defer mu.Unlock()
			out := map[string]int{}
			for k, v := range items {
				out[k] = v
			}
			return out, nil
		}
		return controltest.SourceFixture[int]{
			Source: &control.Poll[int]{Items: copyAll, Interval: 2 * time.Millisecond},
			Put:    func(key string, v int) { mu.Lock(); defer mu.Unlock(); items[key] = v },
			Delete: func(key string) { mu.Lock(); defer mu.Unlock(); delete(items, key) },
			Value:  func(v int) int { return v },
		}
	})
}
