package sharedstorage_test

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/sim"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// randomActions lists what may happen to a cluster.
var randomActions = []string{"class", "template", "version", "readers", "parameters", "durability", "storage", "restart", "switch", "migrate", "rebuild", "remove", "flush",
	"kill engine", "kill place", "lose node", "return nodes", "break manager", "drop manager", "lag", "die", "pause", "resume", "undo", "drop", "wait", "lost answers", "no answers", "calm"}

// perform does one action.
func (l *harness) perform(action string, n int) {
	if l.observe("blue") == nil {
		return
	}
	instances := l.sim.Instances(ref("blue"))
	var i port.Instance
	if len(instances) > 0 {
		i = instances[n%len(instances)]
	}
	run := func(act func(id string) error) {
		if r := l.observe("blue").Status.Run; r != nil {
			_ = act(r.ID)
		}
	}
	by := workflow.Actor{Name: "uma"}
	switch action {
	case "class":
		l.edit("blue", func(s *v1alpha1.SharedStorageClusterSpec) { s.Class.Name = []string{"small", "large"}[n%2] })
	case "template":
		l.class("small", func(c *port.Class) { c.Memory = int64(1+n%3) << 30 })
		l.edit("blue", func(s *v1alpha1.SharedStorageClusterSpec) {
			s.Scheduling.WhenUnsatisfiable = []string{"", "ScheduleAnyway"}[n%2]
		})
	case "version":
		l.edit("blue", func(s *v1alpha1.SharedStorageClusterSpec) { s.Engine.Version = fmt.Sprintf("15.%d", 4+n%3) })
	case "readers":
		l.edit("blue", readers(int32(n%4)))
	case "parameters":
		l.edit("blue", func(s *v1alpha1.SharedStorageClusterSpec) {
			s.Parameters = map[string]string{"max_connections": fmt.Sprint(100 + n%5)}
		})
	case "durability":
		l.edit("blue", func(s *v1alpha1.SharedStorageClusterSpec) { s.Durability = []string{"strict", "available"}[n%2] })
	case "restart":
		l.request("blue", "restart", []string{"cluster", i.ID}[n%2])
	case "switch":
		l.request("blue", "switch-writer", i.ID)
	case "migrate":
		l.request("blue", "migrate", fmt.Sprintf("%s|node-%d", i.ID, 1+n%4))
	case "rebuild":
		l.request("blue", "rebuild", i.ID)
	case "remove":
		l.request("blue", "remove-reader", i.ID)
	case "flush":
		l.request("blue", "flush-parameters", "T")
	case "kill engine":
		l.sim.KillEngine(ref("blue"), i.Name)
	case "kill place":
		l.sim.KillInstance(ref("blue"), i.Name)
	case "lose node":
		l.sim.LoseNode(fmt.Sprintf("node-%d", 1+n%4))
	case "return nodes":
		l.nodes()
	case "break manager":
		l.sim.BreakManager(ref("blue"))
	case "drop manager":
		l.sim.DropManager(ref("blue"))
	case "lag":
		l.sim.Lag(ref("blue"), i.Name, int64(n%3)<<20)
	case "die":
		l.kill()
	case "pause":
		run(func(id string) error { return l.engine.Pause(l.t.Context(), id, by) })
	case "resume":
		run(func(id string) error { return l.engine.Resume(l.t.Context(), id, workflow.FromFailed, "", by) })
	case "undo":
		run(func(id string) error { return l.engine.Cancel(l.t.Context(), id, runtype.Undo, false, by) })
	case "drop":
		run(func(id string) error { return l.engine.Cancel(l.t.Context(), id, runtype.Drop, false, by) })
	case "wait":
		time.Sleep(time.Duration(n%300) * time.Second)
	case "lost answers":
		l.sim.Inject(sim.Rule{P: 0.1, Do: sim.Lost, Times: 20})
	case "no answers":
		l.sim.Inject(sim.Rule{P: 0.1, Do: sim.Timeout, Times: 20})
	case "calm":
		l.sim.Heal()
	}
}

func (l *harness) nodes() {
	for i := range 4 {
		l.sim.ReturnNode(fmt.Sprintf("node-%d", i+1))
	}
}

// recoverAll brings a cluster to rest as a person would: it ends all faults and resumes paused
// runs; it cancels what cannot be resumed, and finally rebuilds.
func (l *harness) recoverAll() {
	l.t.Helper()
	l.sim.Heal()
	l.nodes()
	by := workflow.Actor{Name: "uma", Reason: "all is well again"}
	for round := range 60 {
		for range 12 {
			time.Sleep(10 * time.Second)
			c := l.observe("blue")
			for _, i := range l.sim.Instances(ref("blue")) {
				l.sim.Lag(ref("blue"), i.Name, 0)
			}
			if c != nil && l.atRest(c) && len(l.violations("blue")) == 0 {
				return
			}
		}
		c := l.observe("blue")
		if c.Status.State != "Interrupted" {
			continue
		}
		if c.Status.Run == nil { // somebody cancelled a rebuild
			l.request("blue", "rebuild", "cluster")
			continue
		}
		run, err := l.engine.Get(l.t.Context(), c.Status.Run.ID)
		if err != nil || run.Phase != runtype.Paused {
			continue
		}
		// A cluster at rest has failover as the spec wants it.
		if t := l.sim.Topology(ref("blue")); t.Ready && !open(run) && round > 0 && (!t.HA || !t.Until.IsZero()) && c.Status.PreviousState != "Recreating" {
			l.t.Fatalf("failover is off at rest: %+v\n%s", t, l.story())
		}
		switch {
		case round%8 == 7:
			l.request("blue", "rebuild", "cluster")
		case round%4 == 3:
			_ = l.engine.Cancel(l.t.Context(), run.ID, runtype.Drop, false, by)
		default:
			_ = l.engine.Resume(l.t.Context(), run.ID, workflow.FromFailed, "", by)
		}
	}
	c := l.observe("blue")
	plan, err := l.op.Plan(l.t.Context(), l.op.Key("default", "blue"))
	l.t.Fatalf("it does not come to rest: %v; rests=%t plan=%+v %v annotations=%v\n%s", l.violations("blue"), l.atRest(c), plan.Act, err, c.Annotations, l.story())
}

// fewer limits the number of scripts, since each takes long: more of them on demand.
func fewer(t *testing.T) {
	t.Helper()
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue {
		if err := f.Value.Set("25"); err != nil {
			t.Fatal(err)
		}
	}
}

// Random scripts of edits, faults, crashes and user actions: there are never two writers, nothing
// is created twice, and when the faults have ended the cluster is whole, without temporaries, with
// failover as the spec wants.
func TestRandomLives(t *testing.T) {
	fewer(t)
	rapid.Check(t, func(rt *rapid.T) {
		type act struct {
			action string
			n      int
		}
		var script []act
		for range rapid.IntRange(1, 12).Draw(rt, "acts") {
			script = append(script, act{rapid.SampledFrom(randomActions).Draw(rt, "action"), rapid.IntRange(0, 59).Draw(rt, "n")})
		}
		shared := rapid.Bool().Draw(rt, "shared")
		words := ""
		synctest.Test(t, func(t *testing.T) {
			words = runRandom(t, shared, func(l *harness) {
				up(l, "blue")
				for _, a := range script {
					l.perform(a.action, a.n)
					time.Sleep(time.Duration(a.n) * time.Second)
				}
				l.recoverAll()
				l.checkInvariants("blue")
			})
		})
		if words != "" {
			rt.Fatal(words)
		}
	})
}

// runRandom runs a script and returns what went wrong, so that rapid can look for a shorter
// script.
func runRandom(t *testing.T, shared bool, life func(l *harness)) (wrong string) {
	o := times()
	o.Shared = shared
	for i := range 4 {
		o.Nodes = append(o.Nodes, port.Node{Name: fmt.Sprintf("node-%d", i+1), Ready: true, Schedulable: true})
	}
	l := newHarness(panicTester{t}, setup{sim: o})
	defer func() {
		if r := recover(); r != nil {
			text, ok := r.(testFailure)
			if !ok {
				panic(r)
			}
			wrong = string(text)
		}
		l.halt()
	}()
	l.start()
	life(l)
	if never := l.sim.Violations(); len(never) > 0 {
		return "never: " + strings.Join(never, "\n") + "\n" + l.story()
	}
	return ""
}
