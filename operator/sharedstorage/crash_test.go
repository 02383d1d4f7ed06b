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

// tale is a flow through which processes die.
type tale struct {
	shared  bool
	prepare func(l *lab)
	act     func(l *lab)
	end     func(l *lab)
	most    int // instances that may be made for it
}

func wish(edit func(s *v1alpha1.SharedStorageClusterSpec)) func(l *lab) {
	return func(l *lab) { l.edit("blue", edit) }
}

// requested asks for something of a place: rw is the writer's, ro a reader's.
func requested(kind, args string) func(l *lab) {
	return func(l *lab) {
		switch args {
		case "ro":
			args, _ := l.reader("blue")
			l.ask("blue", kind, args)
		case "rw":
			args, _ := l.writer("blue")
			l.ask("blue", kind, args)
		default:
			l.ask("blue", kind, args)
		}
	}
}

func isDone(kind string) func(l *lab) { return func(l *lab) { l.done("blue", kind) } }

// tales are all flows.
func tales() map[string]tale {
	prepared := func(l *lab) { up(l, "blue") }
	deleted := func(l *lab) {
		l.gone("blue", time.Hour)
		if left := l.world.Instances(ref("blue")); len(left) > 0 {
			l.t.Errorf("%+v\n%s", left, l.story())
		}
	}
	return map[string]tale{
		"CreateSharedStorageCluster": {act: func(l *lab) { l.create("blue", nil) }, most: 3},
		"CloneSharedStorageCluster": {prepare: func(l *lab) { up(l, "source") }, most: 6, act: func(l *lab) {
			l.create("blue", func(s *v1alpha1.SharedStorageClusterSpec) { s.CloneFrom = "source" })
		}},
		"ModifyClass":         {prepare: prepared, act: wish(func(s *v1alpha1.SharedStorageClusterSpec) { s.Class.Name = "large" }), most: 6},
		"UpgradeMinorVersion": {prepare: prepared, act: wish(func(s *v1alpha1.SharedStorageClusterSpec) { s.Engine.Version = "15.5" }), most: 6},
		"AddReaders":          {prepare: prepared, act: wish(readers(4)), most: 5},
		"RemoveReader":        {prepare: prepared, act: wish(readers(1)), most: 3},
		"ExtendStorage": {prepare: prepared, most: 3, act: wish(func(s *v1alpha1.SharedStorageClusterSpec) { size := resource.MustParse("20Gi"); s.Storage.Size = &size }),
			end: func(l *lab) {
				if v := l.world.Volume(ref("blue")); v.Size != 20<<30 || v.State != port.VolumeReady {
					l.t.Errorf("%+v", v)
				}
			}},
		"RebuildCluster":  {prepare: prepared, act: requested("rebuild", "cluster"), end: isDone("rebuild"), most: 5},
		"RebuildReader":   {prepare: prepared, act: requested("rebuild", "ro"), end: isDone("rebuild"), most: 4},
		"RestartCluster":  {prepare: prepared, act: requested("restart", "cluster"), end: isDone("restart"), most: 3},
		"RestartInstance": {prepare: prepared, act: requested("restart", "ro"), end: isDone("restart"), most: 3},
		"SwitchWriter":    {prepare: prepared, act: requested("switch-writer", "ro"), end: isDone("switch-writer"), most: 3},
		"MigrateReader": {prepare: prepared, most: 4, end: isDone("migrate"), act: func(l *lab) {
			id, _ := l.reader("blue")
			l.ask("blue", "migrate", id+"|node-4")
		}},
		"MigrateWriter": {prepare: prepared, most: 4, end: isDone("migrate"), act: func(l *lab) {
			id, _ := l.writer("blue")
			l.ask("blue", "migrate", id+"|node-4")
		}},
		"FlushParameters": {prepare: prepared, most: 3, act: wish(func(s *v1alpha1.SharedStorageClusterSpec) {
			s.Parameters = map[string]string{"max_connections": "200"}
		}), end: func(l *lab) {
			for _, i := range l.world.Instances(ref("blue")) {
				if p := l.world.Parameters(ref("blue"), i.Name); p["max_connections"] != "200" {
					l.t.Errorf("%s runs with %v\n%s", i.Name, p, l.story())
				}
			}
		}},
		"DeleteCluster": {prepare: prepared, act: func(l *lab) { l.remove("blue") }, end: deleted, most: 3},
	}
}

func (s tale) world() sim.Options {
	o := times()
	for i := range 4 {
		o.Nodes = append(o.Nodes, port.Node{Name: fmt.Sprintf("node-%d", i+1), Ready: true, Schedulable: true})
	}
	o.Shared = s.shared
	return o
}

// crashStep is how many points lie between two crashes; PAWL_CRASH_STEP=1: none.
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

// A process dies before and after each of its saves and calls, in every flow;
// the next one comes to the same end, nothing is made twice or left behind, and
// failover is as wanted.
func TestCrashes(t *testing.T) {
	step := crashStep(t, 9)
	for name, s := range tales() {
		t.Run(name, func(t *testing.T) {
			for at := 1 + len(name)%step; ; at += step {
				over := false
				t.Run(fmt.Sprint(at), func(t *testing.T) {
					inLab(t, setup{sim: s.world()}, func(l *lab) {
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

// ended looks at what has come of a tale.
func (s tale) ended(l *lab) {
	l.t.Helper()
	if l.observe("blue") != nil && l.observe("blue").DeletedAt.IsZero() {
		l.rests("blue", 2*time.Hour)
		l.sane("blue")
	}
	if s.end != nil {
		s.end(l)
	}
	if n := l.made(); s.most > 0 && n > s.most {
		l.t.Errorf("%d instances were made, at most %d are needed\n%s", n, s.most, l.story())
	}
}

// made is how many instances were made in all.
func (l *lab) made() int {
	names := map[string]bool{}
	for _, c := range l.world.Calls() {
		if c.Method == "Ensure" && c.Port == "Instances" && c.Err == "" {
			names[c.Ref.Instance] = true
		}
	}
	return len(names)
}

// arm lets the process die at its nth point from now.
func (l *lab) arm(at int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.at, l.points = at, 0
}

// survive waits until the process dies or blue rests; one that died is followed
// by another. It reports whether it died.
func (l *lab) survive(most time.Duration) bool {
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
