package sim_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/fdb"
)

// disturb lets a database live through random accidents that lose no data.
func disturb(rt *rapid.T, l *life) {
	for _, s := range drawSteps(rt, []string{
		"advance", "advance", "crash", "cut", "heal", "stop", "come back", "add", "exclude", "exclude", "kill", "coordinators", "fault", "clear",
	}) {
		l.take(s)
	}
	l.Clear("")
}

// TestRemovable: what fdb.Removable holds for safe can be deleted: nothing is held there, and nothing is lost.
func TestRemovable(t *testing.T) {
	removed := 0
	rapid.Check(t, func(rt *rapid.T) {
		l := newLife(t, rapid.Uint64().Draw(rt, "seed"))
		disturb(rt, l)
		l.Advance(time.Duration(rapid.IntRange(0, 10).Draw(rt, "quiet")) * time.Minute)
		var targets []string
		for _, server := range l.servers {
			targets = append(targets, "locality_instance_id:"+server.Name+","+server.Addresses[0].WithoutFlags())
		}
		s := l.status()
		notSafe := fdb.Removable(s, targets, fdb.Limits{}, func(names []string) fdb.Result {
			call := fdb.Exclude(names, false)
			call.Timeout = 10 * time.Second
			a := l.Call(call, l.Protocol(), l.Connection())
			return fdb.Judge(call, l.Protocol(), a.Exit, a.Stdout, a.Stderr)
		})
		for i, server := range l.servers {
			if slices.Contains(notSafe, targets[i]) {
				continue
			}
			removed++
			l.By("operator", func() {
				l.Stop(server.Name)
				l.Erase(server.Folder)
			})
		}
		for _, v := range l.Violations() {
			rt.Fatalf("%s\n%s", v, l.lines())
		}
	})
	if removed == 0 {
		t.Error("nothing was ever safe to remove")
	}
}

// TestFullFaultTolerance: with it, the loss of any one server with its folder loses no data, and the
// database recovers.
func TestFullFaultTolerance(t *testing.T) {
	open := 0
	rapid.Check(t, func(rt *rapid.T) {
		l := newLife(t, rapid.Uint64().Draw(rt, "seed"))
		disturb(rt, l)
		l.Advance(time.Duration(rapid.IntRange(0, 10).Draw(rt, "quiet")) * time.Minute)
		if !fdb.FullFaultTolerance(l.status()).Open {
			return
		}
		open++
		server := l.servers[rapid.IntRange(0, len(l.servers)-1).Draw(rt, "lost")]
		l.Stop(server.Name)
		l.Erase(server.Folder)
		l.Advance(time.Minute)
		for _, v := range l.Violations() {
			rt.Fatalf("%s\n%s", v, l.lines())
		}
		if w := l.Written("10.9.0.1:5000"); len(w.Missing) > 0 {
			rt.Fatalf("%d keys are missing\n%s", len(w.Missing), l.lines())
		}
	})
	if open == 0 {
		t.Error("it was never full")
	}
}

// TestGates: an open gate means in the model what it promises.
func TestGates(t *testing.T) {
	opened := map[fdb.Gate]int{}
	rapid.Check(t, func(rt *rapid.T) {
		l := newLife(t, rapid.Uint64().Draw(rt, "seed"))
		disturb(rt, l)
		l.Advance(time.Duration(rapid.IntRange(0, 1000).Draw(rt, "quiet")) * time.Second)
		s := l.status()
		for _, gate := range []fdb.Gate{fdb.GateBounce, fdb.GateExclude, fdb.GateInclude, fdb.GateConfigure, fdb.GateMaintenanceOff} {
			if !fdb.Open(gate, s, fdb.Limits{}, l.Protocol()).Open {
				continue
			}
			opened[gate]++
			if !l.Available() {
				rt.Fatalf("%s is open, and the database is unavailable\n%s", gate, l.lines())
			}
			if gate == fdb.GateBounce && !l.FullyRecovered() {
				rt.Fatalf("%s is open, and old logs are in use\n%s", gate, l.lines())
			}
		}
	})
	for _, gate := range []fdb.Gate{fdb.GateBounce, fdb.GateExclude, fdb.GateInclude, fdb.GateConfigure} {
		if opened[gate] == 0 {
			t.Errorf("%s was never open", gate)
		}
	}
}

// TestCoordinatorsChosen: what fdb.SelectCoordinators chooses is accepted, and is valid afterwards.
func TestCoordinatorsChosen(t *testing.T) {
	changed := 0
	rapid.Check(t, func(rt *rapid.T) {
		l := newLife(t, rapid.Uint64().Draw(rt, "seed"))
		disturb(rt, l)
		for _, server := range l.servers {
			l.Cut(server.Name, false)
		}
		l.Advance(10 * time.Minute)
		if !l.Available() {
			return
		}
		wish := fdb.CoordinatorWish{Configuration: fdb.Configuration{}}
		chosen, err := fdb.SelectCoordinators(l.status(), wish)
		if err != nil {
			return
		}
		call := fdb.Coordinators(chosen)
		call.Timeout = time.Minute
		a := l.Call(call, l.Protocol(), l.Connection())
		if r := fdb.Judge(call, l.Protocol(), a.Exit, a.Stdout, a.Stderr); r.Outcome != fdb.Ok {
			rt.Fatalf("%v: %s\n%s%s\n%s", chosen, r, a.Stdout, a.Stderr, l.lines())
		}
		changed++
		if v, err := fdb.JudgeCoordinators(l.status(), wish); err != nil || !v.Valid {
			rt.Fatalf("%+v %v\n%s", v, err, l.lines())
		}
	})
	if changed == 0 {
		t.Error("never changed")
	}
}
