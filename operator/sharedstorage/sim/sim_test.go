package sim

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port/porttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// clock is a virtual clock that stands still until it is moved.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func slow(c *clock) Options {
	return Options{Now: c.Now, Times: Times{Volume: time.Second, Grow: 2 * time.Second, Clone: 3 * time.Second, Create: 2 * time.Second, Remove: time.Second,
		Install: 2 * time.Second, Start: time.Second, Promote: time.Second, CatchUp: 2 * time.Second, Manager: time.Second}}
}

// The simulation passes the conformance suite: once with everything at once, and once with
// realistic times.
func TestConformance(t *testing.T) {
	for name, options := range map[string]func(c *clock) Options{"at once": func(c *clock) Options { return Options{Now: c.Now} }, "slow": slow} {
		t.Run(name, func(t *testing.T) {
			porttest.Run(t, func(t *testing.T) porttest.Fixture {
				c := &clock{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
				w := New(options(c))
				t.Cleanup(func() {
					if wrong := w.Violations(); len(wrong) > 0 {
						t.Log(wrong) // the suite does what an operator must not do
					}
				})
				return porttest.Fixture{
					Ports: w.Ports(), Now: c.Now,
					Await: func(t *testing.T, limit time.Duration, what string, holds func() error) {
						t.Helper()
						err := holds()
						for end := c.Now().Add(limit); err != nil && c.Now().Before(end); err = holds() {
							c.move(100 * time.Millisecond)
						}
						if err != nil {
							t.Fatalf("%s: %v", what, err)
						}
					},
					Kill:   func(_ *testing.T, id port.Ref) { w.KillInstance(id.Cluster(), id.Instance) },
					Break:  func(_ *testing.T, node string) { w.LoseNode(node) },
					Repair: func(_ *testing.T, node string) { w.ReturnNode(node) },
					Lose:   func(*testing.T) { w.Inject(Rule{Label: fmt.Sprint("lose ", w.seq), Times: 1, Do: Lost}) },
					Reload: map[string]string{"work_mem": "8MB"}, Restart: map[string]string{"max_connections": "50"}, Wrong: map[string]string{"bad": "much"},
				}
			})
		})
	}
}
