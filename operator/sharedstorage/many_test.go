package sharedstorage_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/operator/sharedstorage/sim"
)

// A thousand clusters, a tenth of them hanging: the others are created in time, and at rest
// nothing is written. The engine has the default number of attempts of pawl operator.
func TestAThousandClusters(t *testing.T) {
	n := 1000
	if testing.Short() {
		n = 50
	}
	inHarness(t, setup{sim: sim.Options{Times: times().Times, Log: -1}, workers: 26}, func(l *harness) {
		name := func(i int) string { return fmt.Sprintf("c%d", i) }
		for i := range n {
			if i%10 == 0 {
				l.sim.Hang(ref(name(i)), true)
			}
			l.create(name(i), nil)
		}
		began := time.Now()
		for i := range n {
			if i%10 != 0 {
				l.state(name(i), "Running", 15*time.Minute-time.Since(began))
			}
		}
		for i := range n {
			if i%10 != 0 {
				l.awaitRunning(name(i), 5*time.Minute)
				l.checkInvariants(name(i))
			}
		}
		for i := range n {
			if c := l.observe(name(i)); i%10 == 0 && len(c.Status.Conditions) != 6 {
				t.Errorf("%s hangs, and has %d conditions", name(i), len(c.Status.Conditions))
			}
		}
		for i := 0; i < n; i += 10 {
			l.sim.Hang(ref(name(i)), false)
		}
		for i := 0; i < n; i += 10 {
			c := l.until(name(i), "out of Init", time.Hour, func(c *sharedstorage.Cluster) bool { return c.Status.State != "Init" })
			if c.Status.State == "Interrupted" {
				t.Errorf("%s: %s", name(i), c.Status.Message)
			}
		}
		for i := 0; i < n; i += 10 {
			l.awaitRunning(name(i), time.Hour)
		}
		time.Sleep(5 * time.Minute)
		l.clusters.mu.Lock()
		before := l.clusters.writes
		l.clusters.mu.Unlock()
		time.Sleep(30 * time.Minute)
		l.clusters.mu.Lock()
		defer l.clusters.mu.Unlock()
		if l.clusters.writes != before {
			t.Errorf("%d writes in half an hour of rest", l.clusters.writes-before)
		}
	})
}

// The chart sets the number of attempts with which the thousand clusters are tested.
func TestAttemptsOfTheChart(t *testing.T) {
	values, err := os.ReadFile("../../deploy/chart/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if line := fmt.Sprintf("\n  attempts: %d\n", sharedstorage.Attempts); !strings.Contains(string(values), line) {
		t.Errorf("deploy/chart/values.yaml has no line %q", line)
	}
}
