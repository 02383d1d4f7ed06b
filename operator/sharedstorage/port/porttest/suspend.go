package porttest

import (
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

var suspendCases = []testCase{
	{"Instances/suspended with its data", func(e *suite) {
		e.writer("a")
		e.readers("a", "b")
		e.manage("strict", "a", "b")
		e.insert("a", "1")
		e.have(e.Cluster.Of("b"), "1")
		before, _ := e.find("a")
		if _, err := e.Ports.Manager.Ensure(e.ctx, e.Cluster, port.ManagerSpec{}); err != nil {
			e.t.Fatal(err)
		}
		e.suspend("b")
		e.suspend("a")
		e.Ports = e.Reopen(e.t)
		if got, _ := e.find("a"); got.State != port.Suspended || got.ID != before.ID || got.Type != before.Type || got.Class.Name != before.Class.Name {
			e.t.Errorf("it was %+v and is %+v", before, got)
		}
		if _, err := e.Ports.Engine.Status(e.ctx, e.Cluster.Of("a")); err == nil {
			e.t.Error("a suspended instance answers")
		}
		if v, err := e.Ports.Storage.Observe(e.ctx, e.Cluster); err != nil || v.Writer != "a" || v.Epoch != e.epoch {
			e.t.Errorf("the grant is %+v %v", v, err)
		}
		e.resume("a")
		e.writes("a", e.epoch)
		e.have(e.Cluster.Of("a"), "1")
		e.resume("b")
		e.await("b follows again", func() error { return e.Ports.Engine.Follow(e.ctx, e.Cluster.Of("b"), "a") })
		e.streams("b", "a")
		e.insert("a", "2")
		e.have(e.Cluster.Of("b"), "1", "2")
	}},
	{"Instances/a stopped engine stays stopped after a suspension", func(e *suite) {
		e.writer("a")
		e.insert("a", "1")
		if err := e.Ports.Engine.Stop(e.ctx, e.Cluster.Of("a"), port.Fast); err != nil {
			e.t.Fatal(err)
		}
		e.until("a", "is stopped", func(s port.Status) bool { return !s.Running && s.Clean })
		e.suspend("a")
		e.resume("a")
		if st := e.until("a", "answers", func(s port.Status) bool { return s.Installed }); st.Running {
			e.t.Errorf("its engine was started: %+v", st)
		}
		if err := e.Ports.Engine.Start(e.ctx, e.Cluster.Of("a")); err != nil {
			e.t.Fatal(err)
		}
		e.writes("a", e.epoch)
		e.have(e.Cluster.Of("a"), "1")
	}},
	{"Instances/recreated while it is suspended", func(e *suite) {
		e.writer("a")
		e.insert("a", "1")
		e.suspend("a")
		want, _ := e.find("a")
		want.Template = "other"
		e.recreate(want)
		e.writes("a", e.epoch)
		e.have(e.Cluster.Of("a"), "1")
	}},
	{"Instances/removed while it is suspended", func(e *suite) {
		e.writer("a")
		e.readers("a", "b")
		e.suspend("b")
		e.await("b is gone", func() error {
			if err := e.Ports.Instances.Remove(e.ctx, e.Cluster, "b"); err != nil {
				return err
			}
			if all := e.list(); slices.ContainsFunc(all, func(i port.Instance) bool { return i.Name == "b" }) {
				return fmt.Errorf("%+v", all)
			}
			return nil
		})
		if _, err := e.Ports.Instances.Suspend(e.ctx, e.Cluster, "b"); err == nil {
			e.t.Error("one that is not there was suspended")
		}
	}},
}

// suspend suspends an instance, twice, and waits until it has ended.
func (e *suite) suspend(name string) {
	e.t.Helper()
	for range 2 {
		e.await("instance "+name+" is suspended", func() error {
			got, err := e.Ports.Instances.Suspend(e.ctx, e.Cluster, name)
			if err == nil && got.State != port.Suspended {
				err = fmt.Errorf("%s %s", got.State, got.Message)
			}
			return err
		})
	}
}

// resume lets a suspended instance run again, and waits until its agent answers.
func (e *suite) resume(name string) {
	e.t.Helper()
	want, _ := e.find(name)
	e.await("instance "+name+" runs again", func() error {
		got, err := e.Ports.Instances.Ensure(e.ctx, e.Cluster, want)
		if err == nil && got.State != port.Up {
			err = fmt.Errorf("%s %s", got.State, got.Message)
		}
		return err
	})
}
