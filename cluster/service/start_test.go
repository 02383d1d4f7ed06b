package service_test

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/provider/sim"
)

// slow is a cloud in which everything takes its time.
var slow = sim.Times{Create: 40 * time.Second, Start: 10 * time.Second, Stop: 10 * time.Second, Destroy: 15 * time.Second, Network: 5 * time.Second, Rule: 2 * time.Second, Boot: 20 * time.Second}

func TestFirstStartMakesEverythingOnce(t *testing.T) {
	for name, s := range map[string]setup{
		"at once":              {},
		"slow":                 {sim: sim.Options{Times: slow, Latency: 200 * time.Millisecond, Visible: 5 * time.Second}},
		"without calling home": {silent: true},
		"VMs only":             {sim: sim.Options{Kinds: []cluster.Kind{cluster.VM}}},
		"no call ids":          {sim: sim.Options{NoCallIDs: true, Times: slow}},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, s, func(t *testing.T, w *world) {
				id := w.create("blue", 10)
				c := w.until(id, 30*time.Minute, cluster.Running)
				if got := len(w.vms()); got != 11 {
					t.Errorf("%d VMs, want 11\n%s", got, w.story(id))
				}
				w.balanced(id)
				if w.path(id) != "Starting Running" || !c.Started || c.Ask != nil || c.RunID != "" {
					t.Errorf("path %s, cluster %+v", w.path(id), c)
				}
				if j := w.job("create-blue"); j.Status != cluster.JobDone || j.RunID == "" {
					t.Errorf("job %+v", j)
				}
				d, _ := w.books.Details(t.Context(), id)
				if d.JoinTokenHash != "" {
					t.Error("the join token was not revoked")
				}
				if c.Cores != 11 || c.MemoryMB != 11*1024 {
					t.Errorf("totals %d cores, %d MB", c.Cores, c.MemoryMB)
				}
				if !s.silent && (c.Endpoint == "" || d.ConfigData == "" || len(d.Credentials) != 11) {
					t.Errorf("endpoint %q, config %d bytes, %d credentials", c.Endpoint, len(d.ConfigData.Reveal()), len(d.Credentials))
				}
			})
		})
	}
}
