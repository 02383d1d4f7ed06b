package porttest

import (
	"fmt"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

var storageCases = []testCase{
	{"Storage/one volume for a cluster, whatever the key", func(e *suite) {
		s := e.Ports.Storage
		if v, err := s.Observe(e.ctx, e.Cluster); err != nil || v.State != "" {
			e.t.Errorf("a volume before there is one: %+v, %v", v, err)
		}
		first, err := s.Ensure(e.ctx, e.Cluster, port.Volume{Size: 1 << 30}, "a")
		e.must("ensure", err)
		for _, key := range []string{"a", "b"} {
			again, err := e.Reopen(e.t).Storage.Ensure(e.ctx, e.Cluster, port.Volume{Size: 1 << 30}, key)
			e.must("again", err)
			if again.ID != first.ID || first.ID == "" {
				e.t.Errorf("key %s: volume %q, and %q before", key, again.ID, first.ID)
			}
		}
		e.volume()
		v, err := s.Observe(e.ctx, e.Cluster)
		e.must("look", err)
		if v.ID != first.ID || v.Size != 1<<30 || v.State != port.VolumeReady {
			e.t.Errorf("look gives %+v", v)
		}
	}},
	{"Storage/grows and does not shrink", func(e *suite) {
		e.volume()
		s := e.Ports.Storage
		e.await("it grows", func() error {
			v, err := s.Ensure(e.ctx, e.Cluster, port.Volume{Size: 2 << 30}, "grow")
			if err == nil && (v.Size != 2<<30 || v.State != port.VolumeReady) {
				err = fmt.Errorf("%+v", v)
			}
			return err
		})
		_, err := s.Ensure(e.ctx, e.Cluster, port.Volume{Size: 1 << 30}, "shrink")
		e.refused("shrinking", err, port.StorageShrink)
		if v, err := s.Observe(e.ctx, e.Cluster); err != nil || v.Size != 2<<30 {
			e.t.Errorf("after the refusal: %+v, %v", v, err)
		}
	}},
	{"Storage/only a newer epoch takes the grant", func(e *suite) {
		e.volume()
		s := e.Ports.Storage
		for _, step := range []struct {
			writer string
			epoch  int64
			ok     bool
			holder string
			holds  int64
		}{
			{"a", 1, true, "a", 1},
			{"a", 1, true, "a", 1},  // repeating it changes nothing
			{"b", 1, false, "a", 1}, // not newer
			{"b", 3, true, "b", 3},
			{"a", 2, false, "b", 3}, // lower
			{"b", 2, false, "b", 3}, // lower, for the holder too
			{"", 2, false, "b", 3},  // lower, for nobody too
			{"b", 4, true, "b", 4},  // the holder may get a newer one
			{"", 4, true, "", 4},    // revoked
			{"", 4, true, "", 4},
			{"b", 4, false, "", 4}, // an old call does not give a revoked grant back
			{"a", 5, true, "a", 5},
		} {
			what := fmt.Sprintf("grant of epoch %d to %q", step.epoch, step.writer)
			switch err := s.Grant(e.ctx, e.Cluster, step.writer, step.epoch); {
			case step.ok:
				e.must(what, err)
			default:
				e.refused(what, err, port.SwitchRefused)
			}
			v, err := e.Reopen(e.t).Storage.Observe(e.ctx, e.Cluster)
			e.must("look", err)
			if v.Writer != step.holder || v.Epoch != step.holds {
				e.t.Errorf("after the %s: %q has epoch %d, want %q and %d", what, v.Writer, v.Epoch, step.holder, step.holds)
			}
		}
	}},
	{"Storage/release of what is gone", func(e *suite) {
		s := e.Ports.Storage
		e.must("of nothing", s.Release(e.ctx, e.Cluster, false))
		e.must("of nothing, kept", s.Release(e.ctx, e.Cluster, true))
		e.volume()
		for range 2 {
			e.await("release", func() error { return s.Release(e.ctx, e.Cluster, false) })
		}
		if v, err := s.Observe(e.ctx, e.Cluster); err != nil || v.State != "" {
			e.t.Errorf("after the release: %+v, %v", v, err)
		}
	}},
	{"Storage/a clone of what is not there", func(e *suite) {
		_, err := e.Ports.Storage.Clone(e.ctx, port.Ref{Namespace: e.Cluster.Namespace, Name: "nowhere"}, e.Cluster, "clone")
		e.refused("clone", err, port.CloneSourceMissing)
	}},
	{"Storage/a clone has the rows of its source and goes its own way", func(e *suite) {
		e.writer("w")
		e.insert("w", "one")
		to := port.Ref{Namespace: e.Cluster.Namespace, Name: "copy", UID: "2"}
		e.await("the clone is ready", func() error {
			v, err := e.Reopen(e.t).Storage.Clone(e.ctx, e.Cluster, to, "clone")
			if err == nil && v.State != port.VolumeReady {
				err = fmt.Errorf("%s %s", v.State, v.Message)
			}
			return err
		})
		if _, err := e.Ports.Storage.Ensure(e.ctx, to, port.Volume{Size: 1 << 30}, "volume"); err != nil {
			e.t.Errorf("ensure of a clone: %v", err)
		}
		e.await("its instance", func() error {
			i, err := e.Ports.Instances.Ensure(e.ctx, to, e.instance("w", port.Writer))
			if err == nil && i.State != port.Up {
				err = fmt.Errorf("%s", i.State)
			}
			return err
		})
		e.must("install", e.Ports.Engine.Install(e.ctx, to.Of("w"), port.Source{}, "install"))
		e.must("grant", e.Ports.Storage.Grant(e.ctx, to, "w", 1))
		e.await("its engine writes", func() error {
			if err := e.Ports.Engine.Start(e.ctx, to.Of("w")); err != nil {
				return err
			}
			s, err := e.Ports.Engine.Status(e.ctx, to.Of("w"))
			if err == nil && (!s.Ready || s.Role != port.Primary) {
				err = fmt.Errorf("%+v", s)
			}
			return err
		})
		if e.Insert == nil {
			return
		}
		e.must("insert", e.Insert(to.Of("w"), "two"))
		e.have(to.Of("w"), "one", "two")
		e.have(e.Cluster.Of("w"), "one")
	}},
}
