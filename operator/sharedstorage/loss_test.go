package sharedstorage_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// Losses: of a reader, of all readers, of all instances, of the manager, of a node, of the free
// space of the volume.
func TestLosses(t *testing.T) {
	kill := func(how func(l *harness, name string), which func(l *harness, i port.Instance) bool) func(l *harness) {
		return func(l *harness) {
			for _, i := range l.sim.Instances(ref("blue")) {
				if which(l, i) {
					how(l, i.Name)
				}
			}
		}
	}
	engine := func(l *harness, name string) { l.sim.KillEngine(ref("blue"), name) }
	place := func(l *harness, name string) { l.sim.KillInstance(ref("blue"), name) }
	drop := func(l *harness, name string) { l.sim.DropInstance(ref("blue"), name) }
	all := func(*harness, port.Instance) bool { return true }
	isReader := func(_ *harness, i port.Instance) bool { return i.Type == port.Reader }
	isWriter := func(_ *harness, i port.Instance) bool { return i.Type == port.Writer }
	second := func(_ *harness, i port.Instance) bool { return i.ID == "2" }
	for name, c := range map[string]struct {
		lose   func(l *harness)
		shared bool
		state  string
	}{
		"a reader's engine":        {lose: kill(engine, second), state: "RebuildingReader"},
		"a reader's place":         {lose: kill(place, second), state: "RebuildingReader"},
		"a reader and its data":    {lose: kill(drop, second), state: "Locking"},
		"all readers' engines":     {lose: kill(engine, isReader), state: "RebuildingReader"},
		"all readers":              {lose: kill(drop, isReader), state: "Locking"},
		"the writer's engine":      {lose: kill(engine, isWriter), state: "RebuildingReader"},
		"the writer and its data":  {lose: kill(drop, isWriter), state: "Locking"},
		"all engines":              {lose: kill(engine, all), state: "Recreating"},
		"all places":               {lose: kill(place, all), state: "Recreating"},
		"all, data on the volume":  {lose: kill(drop, all), shared: true, state: "Recreating"},
		"the manager":              {lose: func(l *harness) { l.sim.DropManager(ref("blue")) }},
		"the manager's answers":    {lose: func(l *harness) { l.sim.BreakManager(ref("blue")) }},
		"a reader's node":          {lose: func(l *harness) { _, i := l.reader("blue"); l.sim.LoseNode(i.Node) }, state: "RebuildingReader"},
		"the writer's node":        {lose: func(l *harness) { _, i := l.writer("blue"); l.sim.LoseNode(i.Node) }, state: "RebuildingReader"},
		"the volume's space":       {lose: func(l *harness) { l.sim.Fill(ref("blue")) }, state: "ExtendingStorage"},
		"the order: a second head": {lose: func(l *harness) { _, i := l.reader("blue"); l.sim.SplitBrain(ref("blue"), i.Name) }, state: "RebuildingReader"},
	} {
		t.Run(name, func(t *testing.T) {
			o := times()
			o.Shared = c.shared
			inHarness(t, setup{sim: o}, func(l *harness) {
				up(l, "blue")
				time.Sleep(time.Minute)
				c.lose(l)
				time.Sleep(3 * time.Minute)
				if name == "the volume's space" {
					if cond := conditionOf(l.observe("blue"), "StorageReady"); cond.Reason != "StorageFull" || cond.Status != metav1.ConditionFalse {
						t.Errorf("%+v", cond)
					}
					l.edit("blue", func(s *v1alpha1.SharedStorageClusterSpec) { size := resource.MustParse("20Gi"); s.Storage.Size = &size })
					time.Sleep(2 * time.Second)
				}
				l.awaitRunning("blue", 2*time.Hour)
				if strings.HasSuffix(name, "node") {
					for i := range 3 {
						l.sim.ReturnNode(fmt.Sprintf("node-%d", i+1))
					}
					time.Sleep(5 * time.Minute)
					l.awaitRunning("blue", time.Hour)
				}
				l.checkInvariants("blue")
				if c.state != "" {
					l.mu.Lock()
					moves := strings.Join(l.moves, ";")
					l.mu.Unlock()
					if !strings.Contains(moves, ">"+c.state+" ") {
						t.Errorf("it was not in %s: %s", c.state, moves)
					}
				}
			})
		})
	}
	t.Run("all, with their data", func(t *testing.T) {
		inHarness(t, setup{sim: times()}, func(l *harness) {
			up(l, "blue")
			kill(drop, all)(l)
			l.interrupted(port.DataLost.Code, time.Hour)
		})
	})
	t.Run("a reader that comes back elsewhere ends the wait of a failover", func(t *testing.T) {
		inHarness(t, setup{sim: times()}, func(l *harness) {
			up(l, "blue")
			_, r := l.reader("blue")
			_, wr := l.writer("blue")
			l.sim.KillInstance(ref("blue"), r.Name) // it gets another address when it starts again
			l.sim.LoseNode(wr.Node)
			l.until("blue", "unsafe", 10*time.Minute, func(c *sharedstorage.Cluster) bool {
				return conditionOf(c, "HighAvailability").Reason == "FailoverUnsafe"
			})
			l.until("blue", "written to by another", time.Hour, func(c *sharedstorage.Cluster) bool {
				writer := l.sim.Writer(ref("blue"))
				return writer != "" && writer != wr.Name
			})
			l.awaitRunning("blue", time.Hour)
			l.checkInvariants("blue")
		})
	})
	t.Run("a manager that has not seen the writer fails nobody over", func(t *testing.T) {
		inHarness(t, setup{sim: times()}, func(l *harness) {
			up(l, "blue")
			_, wr := l.writer("blue")
			l.sim.DropManager(ref("blue")) // its knowledge of the readers is lost with it
			l.sim.KillEngine(ref("blue"), wr.Name)
			l.until("blue", "unsafe", 10*time.Minute, func(c *sharedstorage.Cluster) bool {
				return conditionOf(c, "HighAvailability").Reason == "FailoverUnsafe"
			})
			l.awaitRunning("blue", time.Hour)
			l.checkInvariants("blue")
			if _, is := l.writer("blue"); is.Name != wr.Name {
				t.Errorf("%s writes, and %s may have had what no other has", is.Name, wr.Name)
			}
		})
	})
	t.Run("no failover that could lose a row", func(t *testing.T) {
		inHarness(t, setup{sim: times()}, func(l *harness) {
			up(l, "blue")
			_, r := l.reader("blue")
			_, wr := l.writer("blue")
			l.sim.LoseNode(r.Node) // a reader that may have a row, and the writer
			l.sim.KillEngine(ref("blue"), wr.Name)
			c := l.until("blue", "unsafe", 10*time.Minute, func(c *sharedstorage.Cluster) bool {
				return conditionOf(c, "HighAvailability").Reason == "FailoverUnsafe"
			})
			if cond := conditionOf(c, "Ready"); cond.Status != metav1.ConditionFalse || cond.Reason != "FailoverUnsafe" {
				t.Errorf("%+v", cond)
			}
			l.sim.ReturnNode(r.Node)
			time.Sleep(time.Minute)
			l.awaitRunning("blue", time.Hour)
			l.checkInvariants("blue")
		})
	})
}
