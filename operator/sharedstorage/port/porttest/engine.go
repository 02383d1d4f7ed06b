package porttest

import (
	"maps"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

var engineCases = []testCase{
	{"Engine/nobody to ask", func(e *suite) {
		if _, err := e.Ports.Engine.Status(e.ctx, e.Cluster.Of("nobody")); err == nil {
			e.t.Error("an engine that is not there was asked")
		}
	}},
	{"Engine/no start without data", func(e *suite) {
		e.volume()
		e.up(e.instance("w", port.Writer))
		e.refused("start", e.Ports.Engine.Start(e.ctx, e.Cluster.Of("w")), port.StartFailed)
		if s := e.until("w", "answers", func(port.Status) bool { return true }); s.Installed || s.Running {
			e.t.Errorf("an empty instance is %+v", s)
		}
	}},
	{"Engine/installed once, started, stopped and kept so", func(e *suite) {
		e.writer("w")
		e.insert("w", "one")
		w, engine := e.Cluster.Of("w"), e.Reopen(e.t).Engine
		before := e.writes("w", 1)
		e.must("install again", engine.Install(e.ctx, w, port.Source{}, "install w"))
		e.must("start again", engine.Start(e.ctx, w))
		if s := e.writes("w", 1); s.Position < before.Position || !s.Started.Equal(before.Started) {
			e.t.Errorf("repeated calls made %+v of %+v", s, before)
		}
		for range 2 {
			e.must("stop", engine.Stop(e.ctx, w, port.Fast))
		}
		end := e.until("w", "is stopped", func(s port.Status) bool { return !s.Running })
		if !end.Clean || end.Ready || end.Role != port.NoRole || end.Position < before.Position || !end.Installed {
			e.t.Errorf("stopped fast it is %+v; it wrote up to %d", end, before.Position)
		}
		e.must("ensure", func() error {
			_, err := e.Ports.Instances.Ensure(e.ctx, e.Cluster, e.instance("w", port.Writer))
			return err
		}())
		if s := e.until("w", "answers", func(port.Status) bool { return true }); s.Running {
			e.t.Error("a stopped engine runs again by itself")
		}
		e.must("start", engine.Start(e.ctx, w))
		if s := e.writes("w", 1); s.Timeline != before.Timeline {
			e.t.Errorf("a start changed the timeline from %d to %d", before.Timeline, s.Timeline)
		}
		e.have(w, "one")
	}},
	{"Engine/without the grant a start is that of a follower", func(e *suite) {
		e.writer("w")
		e.readers("w", "r")
		e.must("stop", e.Ports.Engine.Stop(e.ctx, e.Cluster.Of("w"), port.Fast))
		e.until("w", "is stopped", func(s port.Status) bool { return !s.Running })
		e.grant("r")
		e.must("start", e.Ports.Engine.Start(e.ctx, e.Cluster.Of("w")))
		s := e.until("w", "runs", func(s port.Status) bool { return s.Running && s.Ready })
		if s.Role != port.Follower {
			e.t.Errorf("without the grant it is %s", s.Role)
		}
	}},
	{"Engine/a writer that loses the grant stops writing by itself", func(e *suite) {
		e.writer("w")
		e.readers("w", "r")
		e.grant("r")
		e.until("w", "does not write", func(s port.Status) bool { return s.Role != port.Primary })
	}},
	{"Engine/rows reach the readers", func(e *suite) {
		e.writer("w")
		e.readers("w", "r1", "r2")
		e.insert("w", "one")
		e.insert("w", "two")
		for _, name := range []string{"r1", "r2"} {
			e.have(e.Cluster.Of(name), "one", "two")
			s := e.until(name, "has caught up", func(s port.Status) bool { return s.Lag >= 0 && s.Lag < 1<<20 })
			if s.Epoch != 0 || s.Position == 0 || s.Received < s.Position {
				e.t.Errorf("a reader is %+v", s)
			}
		}
		if e.Insert != nil && e.Insert(e.Cluster.Of("r1"), "three") == nil {
			e.t.Error("a reader took a row")
		}
	}},
	{"Engine/no promotion without the grant of that epoch", func(e *suite) {
		e.writer("w")
		e.readers("w", "r")
		engine := e.Ports.Engine
		e.refused("without a grant", engine.Promote(e.ctx, e.Cluster.Of("r"), 1), port.SwitchRefused)
		e.refused("under an epoch to come", engine.Promote(e.ctx, e.Cluster.Of("r"), 2), port.SwitchRefused)
		e.must("the writer of this epoch", engine.Promote(e.ctx, e.Cluster.Of("w"), 1))
		e.refused("the writer under another", engine.Promote(e.ctx, e.Cluster.Of("w"), 2), port.SwitchRefused)
		e.refused("a writer with the grant follows", engine.Follow(e.ctx, e.Cluster.Of("w"), "r"), port.SwitchRefused)
		e.streams("r", "w")
		e.writes("w", 1)
	}},
	{"Engine/a planned switch, there and back", func(e *suite) {
		e.writer("a")
		e.readers("a", "b", "c")
		rows := []string{}
		for _, turn := range []struct{ from, to, row string }{{"a", "b", "1"}, {"b", "a", "2"}} {
			e.insert(turn.from, turn.row)
			rows = append(rows, turn.row)
			engine := e.Reopen(e.t).Engine
			before := e.writes(turn.from, e.epoch)
			e.must("stop", engine.Stop(e.ctx, e.Cluster.Of(turn.from), port.Fast))
			end := e.until(turn.from, "is stopped", func(s port.Status) bool { return !s.Running && s.Clean })
			e.until(turn.to, "has everything", func(s port.Status) bool { return s.Position >= end.Position })
			old := e.epoch
			e.grant(turn.to)
			e.refused("an old epoch", engine.Promote(e.ctx, e.Cluster.Of(turn.to), old), port.SwitchRefused)
			for range 2 {
				e.must("promote", engine.Promote(e.ctx, e.Cluster.Of(turn.to), e.epoch))
			}
			if s := e.writes(turn.to, e.epoch); s.Timeline <= before.Timeline {
				e.t.Errorf("timeline %d follows %d", s.Timeline, before.Timeline)
			}
			e.must("promote the writer", engine.Promote(e.ctx, e.Cluster.Of(turn.to), e.epoch))
			for _, name := range []string{"c", turn.from} { // the old writer is stopped: Follow also starts it
				for range 2 {
					e.must("follow", engine.Follow(e.ctx, e.Cluster.Of(name), turn.to))
				}
			}
			for _, name := range []string{"c", turn.from} {
				e.streams(name, turn.to)
				e.have(e.Cluster.Of(name), rows...)
			}
		}
	}},
	{"Engine/a writer that went further is rewound to follow", func(e *suite) {
		e.writer("a")
		e.readers("a", "b")
		e.insert("a", "kept")
		e.have(e.Cluster.Of("b"), "kept")
		e.must("stop", e.Ports.Engine.Stop(e.ctx, e.Cluster.Of("b"), port.Fast))
		e.until("b", "is stopped", func(s port.Status) bool { return !s.Running })
		e.insert("a", "only on a")
		e.Kill(e.t, e.Cluster.Of("a"))
		e.grant("b")
		e.must("start", e.Ports.Engine.Start(e.ctx, e.Cluster.Of("b")))
		e.writes("b", e.epoch)
		e.revive("a", port.Writer)
		e.must("follow", e.Ports.Engine.Follow(e.ctx, e.Cluster.Of("a"), "b"))
		e.streams("a", "b")
		e.have(e.Cluster.Of("a"), "kept")
	}},
	{"Engine/a killed writer comes back as it was", func(e *suite) {
		e.writer("w")
		e.insert("w", "one")
		e.Kill(e.t, e.Cluster.Of("w"))
		if s, err := e.Ports.Engine.Status(e.ctx, e.Cluster.Of("w")); err == nil && s.Running {
			e.t.Error("it was killed and runs")
		}
		e.revive("w", port.Writer)
		e.writes("w", 1)
		e.have(e.Cluster.Of("w"), "one")
	}},
	{"Engine/parameters", func(e *suite) {
		if e.Reload == nil {
			e.t.Skip("this fixture has no parameters")
		}
		e.writer("w")
		w, engine := e.Cluster.Of("w"), e.Ports.Engine
		hash := func(params map[string]string) {
			e.t.Helper()
			if s := e.writes("w", 1); s.Parameters != port.Hash(params) {
				e.t.Errorf("the hash is %s, want that of %v", s.Parameters, params)
			}
		}
		apply := func(params map[string]string, restart bool) {
			e.t.Helper()
			got, err := engine.Apply(e.ctx, w, params)
			e.must("apply", err)
			if got != restart {
				e.t.Errorf("apply of %v says restart %t, want %t", params, got, restart)
			}
			e.until("w", "has taken the parameters", func(s port.Status) bool { return s.Restart == restart })
			hash(params)
		}
		both := maps.Clone(e.Reload)
		maps.Copy(both, e.Restart)
		apply(e.Reload, false)
		apply(e.Reload, false)
		apply(both, true)
		_, err := engine.Apply(e.ctx, w, e.Wrong)
		e.refused("a wrong parameter", err, port.ParameterInvalid)
		hash(both)
		e.must("stop", engine.Stop(e.ctx, w, port.Fast))
		e.until("w", "is stopped", func(s port.Status) bool { return !s.Running })
		e.must("start", engine.Start(e.ctx, w))
		e.writes("w", 1)
		apply(both, false)
		apply(nil, true) // both back to their defaults
	}},
}
