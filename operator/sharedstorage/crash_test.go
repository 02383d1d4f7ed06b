package sharedstorage_test

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/sim"
)

// crashScenario is a flow during which processes crash.
type crashScenario struct {
	shared  bool
	prepare func(l *harness)
	act     func(l *harness)
	end     func(l *harness)
	most    int  // limit for the instances that the flow creates
	inPlace bool // the flow copies no data
}

func editSpec(edit func(s *v1alpha1.SharedStorageClusterSpec)) func(l *harness) {
	return func(l *harness) { l.edit("blue", edit) }
}

// requested sends a request about an instance: rw means the writer, ro a reader.
func requested(kind, args string) func(l *harness) {
	return func(l *harness) {
		switch args {
		case "ro":
			args, _ := l.reader("blue")
			l.request("blue", kind, args)
		case "rw":
			args, _ := l.writer("blue")
			l.request("blue", kind, args)
		default:
			l.request("blue", kind, args)
		}
	}
}

func isDone(kind string) func(l *harness) { return func(l *harness) { l.requestDone("blue", kind) } }

// copiesNothing checks that no more data were installed than at the creation of blue.
func copiesNothing(l *harness) {
	installed := map[string]bool{}
	for _, c := range l.sim.Calls() {
		if c.Method == "Install" && c.Err == "" {
			installed[c.Ref.Instance+c.Key] = true
		}
	}
	if len(installed) != 3 {
		l.t.Errorf("data were installed %d times, want 3: %v\n%s", len(installed), installed, l.story())
	}
}

// crashScenarios returns one scenario for each flow.
func crashScenarios() map[string]crashScenario {
	prepared := func(l *harness) { up(l, "blue") }
	deleted := func(l *harness) {
		l.gone("blue", time.Hour)
		if left := l.sim.Instances(ref("blue")); len(left) > 0 {
			l.t.Errorf("%+v\n%s", left, l.story())
		}
	}
	return map[string]crashScenario{
		"CreateSharedStorageCluster": {act: func(l *harness) { l.create("blue", nil) }, most: 3},
		"CloneSharedStorageCluster": {prepare: func(l *harness) { up(l, "source") }, most: 6, act: func(l *harness) {
			l.create("blue", func(s *v1alpha1.SharedStorageClusterSpec) { s.CloneFrom = "source" })
		}},
		"ModifyClass":         {prepare: prepared, act: editSpec(func(s *v1alpha1.SharedStorageClusterSpec) { s.Class.Name = "large" }), most: 3, inPlace: true},
		"UpgradeMinorVersion": {prepare: prepared, act: editSpec(func(s *v1alpha1.SharedStorageClusterSpec) { s.Engine.Version = "15.5" }), most: 3, inPlace: true},
		"AddReaders":          {prepare: prepared, act: editSpec(readers(4)), most: 5},
		"RemoveReader":        {prepare: prepared, act: editSpec(readers(1)), most: 3},
		"ExtendStorage": {prepare: prepared, most: 3, act: editSpec(func(s *v1alpha1.SharedStorageClusterSpec) { size := resource.MustParse("20Gi"); s.Storage.Size = &size }),
			end: func(l *harness) {
				if v := l.sim.Volume(ref("blue")); v.Size != 20<<30 || v.State != port.VolumeReady {
					l.t.Errorf("%+v", v)
				}
			}},
		"RebuildCluster":  {prepare: prepared, act: requested("rebuild", "cluster"), end: isDone("rebuild"), most: 5},
		"RebuildReader":   {prepare: prepared, act: requested("rebuild", "ro"), end: isDone("rebuild"), most: 4},
		"RestartCluster":  {prepare: prepared, act: requested("restart", "cluster"), end: isDone("restart"), most: 3},
		"RestartInstance": {prepare: prepared, act: requested("restart", "ro"), end: isDone("restart"), most: 3},
		"SwitchWriter":    {prepare: prepared, act: requested("switch-writer", "ro"), end: isDone("switch-writer"), most: 3},
		"MigrateReader": {prepare: prepared, most: 4, end: isDone("migrate"), act: func(l *harness) {
			id, _ := l.reader("blue")
			l.request("blue", "migrate", id+"|node-4")
		}},
		"MigrateWriter": {prepare: prepared, most: 4, end: isDone("migrate"), act: func(l *harness) {
			id, _ := l.writer("blue")
			l.request("blue", "migrate", id+"|node-4")
		}},
		"FlushParameters": {prepare: prepared, most: 3, act: editSpec(func(s *v1alpha1.SharedStorageClusterSpec) {
			s.Parameters = map[string]string{"max_connections": "200"}
		}), end: func(l *harness) {
			for _, i := range l.sim.Instances(ref("blue")) {
				if p := l.sim.Parameters(ref("blue"), i.Name); p["max_connections"] != "200" {
					l.t.Errorf("%s runs with %v\n%s", i.Name, p, l.story())
				}
			}
		}},
		"DeleteCluster": {prepare: prepared, act: func(l *harness) { l.remove("blue") }, end: deleted, most: 3},
	}
}

func (s crashScenario) simulation() sim.Options {
	o := times()
	for i := range 4 {
		o.Nodes = append(o.Nodes, port.Node{Name: fmt.Sprintf("node-%d", i+1), Ready: true, Schedulable: true})
	}
	o.Shared = s.shared
	return o
}

// crashStep returns how many points lie between two crashes; PAWL_CRASH_STEP=1 crashes at each.
func crashStep(t *testing.T, sampled int) int {
	t.Helper()
	if n, err := strconv.Atoi(os.Getenv("PAWL_CRASH_STEP")); err == nil && n > 0 {
		return n
	}
	if testing.Short() {
		return 5 * sampled
	}
	return sampled
}

// A process crashes before and after each of its saves and calls, in every flow. The next one
// reaches the same end: nothing is created twice or left behind, and failover is as the spec
// wants.
func TestCrashes(t *testing.T) {
	step := crashStep(t, 9)
	for name, s := range crashScenarios() {
		t.Run(name, func(t *testing.T) {
			for at := 1 + len(name)%step; ; at += step {
				over := false
				t.Run(fmt.Sprint(at), func(t *testing.T) {
					inHarness(t, setup{sim: s.simulation()}, func(l *harness) {
						if s.prepare != nil {
							s.prepare(l)
						}
						l.arm(at)
						s.act(l)
						over = !l.survive(2 * time.Hour)
						s.ended(l)
					})
				})
				if over || t.Failed() {
					return
				}
			}
		})
	}
}

// ended checks the result of a scenario.
func (s crashScenario) ended(l *harness) {
	l.t.Helper()
	if c := l.observe("blue"); c != nil && c.DeletedAt.IsZero() {
		l.awaitRunning("blue", 2*time.Hour)
		l.checkInvariants("blue")
	}
	if s.end != nil {
		s.end(l)
	}
	if s.inPlace {
		copiesNothing(l)
	}
	if n := l.createdInstances(); s.most > 0 && n > s.most {
		l.t.Errorf("%d instances were made, at most %d are needed\n%s", n, s.most, l.story())
	}
}

// createdInstances returns how many instances were created in all.
func (l *harness) createdInstances() int {
	names := map[string]bool{}
	for _, c := range l.sim.Calls() {
		if c.Method == "Ensure" && c.Port == "Instances" && c.Err == "" {
			names[c.Ref.Instance] = true
		}
	}
	return len(names)
}

// arm makes the process crash at its nth point from now.
func (l *harness) arm(at int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.at, l.points = at, 0
}

// survive waits until the process crashes or blue is at rest. It starts another process after a
// crash. It reports whether there was one.
func (l *harness) survive(most time.Duration) bool {
	l.t.Helper()
	for end := time.Now().Add(most); ; time.Sleep(time.Second) {
		if l.alive() != nil {
			l.kill()
			return true
		}
		c := l.observe("blue")
		if c == nil || l.atRest(c) {
			l.mu.Lock()
			dead := l.dead
			if !dead {
				l.at = 0
			}
			l.mu.Unlock()
			if !dead {
				return false
			}
			continue
		}
		if time.Now().After(end) {
			l.t.Fatalf("it neither died nor rested\n%s", l.story())
		}
	}
}
