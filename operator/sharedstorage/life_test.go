package sharedstorage_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

func up(l *harness, name string) {
	l.t.Helper()
	l.create(name, nil)
	l.awaitRunning(name, 10*time.Minute)
	l.checkInvariants(name)
}

func readers(n int32) func(s *v1alpha1.SharedStorageClusterSpec) {
	return func(s *v1alpha1.SharedStorageClusterSpec) { s.Readers = &n }
}

func TestCreate(t *testing.T) {
	inHarness(t, setup{sim: times()}, func(l *harness) { up(l, "blue") })
}

// change creates a cluster, makes a change and checks the result.
func change(t *testing.T, what string, act func(l *harness), look func(l *harness)) {
	t.Run(what, func(t *testing.T) {
		inHarness(t, setup{sim: times()}, func(l *harness) {
			up(l, "blue")
			act(l)
			time.Sleep(2 * time.Second)
			l.awaitRunning("blue", time.Hour)
			l.checkInvariants("blue")
			if look != nil {
				look(l)
			}
		})
	})
}

// requestDone checks that the newest request of a kind was carried out.
func (l *harness) requestDone(name, kind string) {
	l.t.Helper()
	for _, r := range l.observe(name).Status.Requests {
		if r.Kind == kind {
			if r.State != sharedstorage.Done || r.RunID == "" || r.EndedAt == nil {
				l.t.Errorf("request %+v\n%s", r, l.story())
			}
			return
		}
	}
	l.t.Errorf("there is no request %s\n%s", kind, l.story())
}

// visited checks that a cluster has been in a state.
func (l *harness) visited(state string, times int) {
	l.t.Helper()
	l.mu.Lock()
	n := 0
	for _, m := range l.moves {
		if strings.Contains(m, ">"+state+" event") {
			n++
		}
	}
	l.mu.Unlock()
	if n != times {
		l.t.Errorf("%d visits of %s, want %d\n%s", n, state, times, l.story())
	}
}

// reader returns an instance that is not the writer.
func (l *harness) reader(name string) (id string, i port.Instance) {
	for _, i := range l.sim.Instances(ref(name)) {
		if i.Name != l.sim.Writer(ref(name)) && i.State == port.Up {
			return i.ID, i
		}
	}
	l.t.Fatal("there is no reader")
	return "", i
}

func (l *harness) writer(name string) (id string, i port.Instance) {
	for _, i := range l.sim.Instances(ref(name)) {
		if i.Name == l.sim.Writer(ref(name)) {
			return i.ID, i
		}
	}
	l.t.Fatal("there is no writer")
	return "", i
}

func (l *harness) all(name string, holds func(i port.Instance) bool) {
	l.t.Helper()
	for _, i := range l.sim.Instances(ref(name)) {
		if i.State != port.Leaving && !holds(i) {
			l.t.Errorf("%+v\n%s", i, l.story())
		}
	}
}

func TestLives(t *testing.T) {
	var was string
	change(t, "scale out", func(l *harness) { l.edit("blue", readers(5)) }, func(l *harness) {
		l.visited("Locking", 1)
		if c := l.observe("blue"); c.Annotations[sharedstorage.TopologyLock] != "" || c.Status.NextID != 7 {
			t.Errorf("%v %d", c.Annotations, c.Status.NextID)
		}
	})
	change(t, "scale in", func(l *harness) { l.edit("blue", readers(0)) }, func(l *harness) { l.visited("ScalingIn", 2) })
	change(t, "switch", func(l *harness) { was, _ = l.reader("blue"); l.request("blue", "switch-writer", was) }, func(l *harness) {
		if now, _ := l.writer("blue"); now != was {
			l.t.Errorf("%s writes, want %s", now, was)
		}
		l.requestDone("blue", "switch-writer")
	})
	large := func(i port.Instance) bool { return i.Class.Name == "large" }
	change(t, "class", func(l *harness) {
		l.edit("blue", func(s *v1alpha1.SharedStorageClusterSpec) { s.Class.Name = "large" })
	}, func(l *harness) {
		l.all("blue", large)
		l.visited("ChangingSpecification", 1)
		l.visited("ModifyingParameters", 0)
		if c := l.observe("blue"); c.Status.Class != "large" {
			l.t.Error(c.Status.Class)
		}
		for _, i := range l.sim.Instances(ref("blue")) {
			if p := l.sim.Parameters(ref("blue"), i.Name); i.State != port.Leaving && p["shared_buffers"] != "1GB" {
				l.t.Errorf("%s runs with %v", i.Name, p)
			}
		}
	})
	change(t, "upgrade", func(l *harness) {
		l.edit("blue", func(s *v1alpha1.SharedStorageClusterSpec) { s.Engine.Version = "15.5" })
	}, func(l *harness) {
		l.all("blue", func(i port.Instance) bool { return i.Version == "15.5" })
		l.visited("Upgrading", 1)
	})
	var node string
	free := func(l *harness) string {
		used := map[string]bool{}
		for _, i := range l.sim.Instances(ref("blue")) {
			used[i.Node] = true
		}
		for _, n := range []string{"node-1", "node-2", "node-3", "node-4"} {
			if !used[n] {
				return n
			}
		}
		return ""
	}
	four := times()
	for i := range 4 {
		four.Nodes = append(four.Nodes, port.Node{Name: fmt.Sprintf("node-%d", i+1), Ready: true, Schedulable: true})
	}
	for _, role := range []string{"reader", "writer"} {
		t.Run("migrate "+role, func(t *testing.T) {
			inHarness(t, setup{sim: four}, func(l *harness) {
				up(l, "blue")
				node, was = free(l), ""
				if was, _ = l.reader("blue"); role == "writer" {
					was, _ = l.writer("blue")
				}
				l.request("blue", "migrate", was+"|"+node)
				time.Sleep(2 * time.Second)
				l.awaitRunning("blue", time.Hour)
				l.checkInvariants("blue")
				l.requestDone("blue", "migrate")
				l.all("blue", func(i port.Instance) bool { return (i.ID == was) == (i.Node == node) })
				if id, _ := l.writer("blue"); (id == was) != (role == "writer") {
					t.Errorf("%s writes", id)
				}
			})
		})
	}
	for _, args := range []string{"cluster", "T", "2", "1"} {
		var before map[string]time.Time
		started := func(l *harness) map[string]time.Time {
			found := map[string]time.Time{}
			for _, i := range l.sim.Instances(ref("blue")) {
				st, err := l.sim.Ports().Engine.Status(l.t.Context(), ref("blue").Of(i.Name))
				if err != nil {
					l.t.Fatal(err)
				}
				found[i.ID] = st.Started
			}
			return found
		}
		change(t, "restart "+args, func(l *harness) { before = started(l); l.request("blue", "restart", args) }, func(l *harness) {
			l.requestDone("blue", "restart")
			all := args == "cluster" || args == "T"
			for id, at := range started(l) {
				if at.After(before[id]) != (all || id == args) {
					l.t.Errorf("%s was started at %s, before that at %s", id, at, before[id])
				}
			}
		})
	}
	change(t, "rebuild a reader", func(l *harness) {
		var i port.Instance
		was, i = l.reader("blue")
		node = i.Name
		l.request("blue", "rebuild", was)
	}, func(l *harness) {
		l.requestDone("blue", "rebuild")
		l.all("blue", func(i port.Instance) bool { return i.Name != node })
	})
	change(t, "rebuild the cluster", func(l *harness) { l.request("blue", "rebuild", "cluster") }, func(l *harness) { l.requestDone("blue", "rebuild"); l.visited("Recreating", 1) })
	change(t, "remove a reader", func(l *harness) { was, _ = l.reader("blue"); l.request("blue", "remove-reader", was) }, func(l *harness) {
		l.requestDone("blue", "remove-reader")
		l.all("blue", func(i port.Instance) bool { return i.ID != was })
	})
	change(t, "extend storage", func(l *harness) {
		l.edit("blue", func(s *v1alpha1.SharedStorageClusterSpec) { size := resource.MustParse("20Gi"); s.Storage.Size = &size })
	}, func(l *harness) {
		if v := l.sim.Volume(ref("blue")); v.Size != 20<<30 || v.State != port.VolumeReady {
			l.t.Errorf("%+v", v)
		}
		l.visited("ExtendingStorage", 1)
	})
	change(t, "parameters", func(l *harness) {
		l.edit("blue", func(s *v1alpha1.SharedStorageClusterSpec) {
			s.Parameters = map[string]string{"work_mem": "8MB", "max_connections": "200"}
		})
	}, func(l *harness) {
		l.visited("ModifyingParameters", 1)
		for _, i := range l.sim.Instances(ref("blue")) {
			if p := l.sim.Parameters(ref("blue"), i.Name); p["max_connections"] != "200" || p["work_mem"] != "8MB" || p["shared_buffers"] != "128MB" {
				l.t.Errorf("%s runs with %v", i.Name, p)
			}
		}
	})
	change(t, "flush parameters", func(l *harness) { l.request("blue", "flush-parameters", "T") }, func(l *harness) { l.requestDone("blue", "flush-parameters") })
	for _, keep := range []string{"Retain", "Delete"} {
		t.Run("delete "+keep, func(t *testing.T) {
			inHarness(t, setup{sim: times()}, func(l *harness) {
				l.create("blue", func(s *v1alpha1.SharedStorageClusterSpec) { s.Storage.OnDelete = keep })
				l.awaitRunning("blue", 10*time.Minute)
				l.remove("blue")
				l.gone("blue", 10*time.Minute)
				if left := l.sim.Instances(ref("blue")); len(left) > 0 || l.sim.Topology(ref("blue")).Present {
					t.Errorf("%+v\n%s", left, l.story())
				}
				if kept := l.sim.Volume(ref("blue")).State != ""; kept != (keep == "Retain") {
					t.Errorf("the volume was kept: %t", kept)
				}
			})
		})
	}
	t.Run("clone", func(t *testing.T) {
		inHarness(t, setup{sim: times()}, func(l *harness) {
			up(l, "blue")
			l.create("green", func(s *v1alpha1.SharedStorageClusterSpec) { s.CloneFrom = "blue" })
			l.awaitRunning("green", 10*time.Minute)
			l.checkInvariants("green")
			l.visited("Cloning", 1)
		})
	})
}
