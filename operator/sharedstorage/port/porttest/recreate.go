package porttest

import (
	"fmt"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

var recreateCases = []testCase{
	{"Instances/recreated on its data", func(e *suite) {
		e.writer("a")
		e.readers("a", "b")
		e.manage("strict", "a", "b")
		e.insert("a", "1")
		e.have(e.Cluster.Of("b"), "1")
		before, _ := e.find("b")
		want := before
		want.Class, want.Template, want.ID, want.Type, want.Port = port.Class{Name: "large", Memory: 1 << 30}, "other", "9", port.Writer, 0
		e.recreate(want)
		got, _ := e.find("b")
		if got.ID != before.ID || got.Type != before.Type || got.Class.Name != "large" || got.Class.Memory != 1<<30 || got.Version != before.Version {
			e.t.Errorf("it was %+v and is %+v", before, got)
		}
		e.updateMember("b") // it may have got another address
		if st, err := e.Ports.Engine.Status(e.ctx, e.Cluster.Of("b")); err != nil || !st.Installed {
			e.t.Errorf("its data are gone: %+v %v", st, err)
		}
		e.await("b follows again", func() error { return e.Ports.Engine.Follow(e.ctx, e.Cluster.Of("b"), "a") })
		e.streams("b", "a")
		e.insert("a", "2")
		e.have(e.Cluster.Of("b"), "1", "2")
		started := e.until("b", "is ready", func(s port.Status) bool { return s.Ready }).Started
		e.recreate(want)
		if again := e.until("b", "is ready", func(s port.Status) bool { return s.Ready }).Started; !again.Equal(started) {
			e.t.Errorf("it was recreated again, at %s, and runs since %s", again, started)
		}
		e.recreate(before)
		e.updateMember("b")
		e.streams("b", "a")
		if got, _ := e.find("b"); got.Class.Name != before.Class.Name || got.Template != before.Template {
			e.t.Errorf("it was %+v and is %+v", before, got)
		}
	}},
	{"Instances/an only writer is recreated and writes on", func(e *suite) {
		e.writer("a")
		e.insert("a", "1")
		want, _ := e.find("a")
		want.Template = "other"
		e.recreate(want)
		e.writes("a", e.epoch)
		e.insert("a", "2")
		e.have(e.Cluster.Of("a"), "1", "2")
	}},
	{"Instances/one that is not there is not recreated", func(e *suite) {
		e.volume()
		_, err := e.Ports.Instances.Recreate(e.ctx, e.Cluster, e.instance("never", port.Reader))
		e.refused("one that never was", err, port.PodLost)
		if n := len(e.list()); n != 0 {
			e.t.Errorf("%d instances", n)
		}
	}},
}

// recreate recreates an instance and waits until its agent answers.
func (e *suite) recreate(want port.Instance) {
	e.t.Helper()
	e.await("instance "+want.Name+" is recreated", func() error {
		got, err := e.Ports.Instances.Recreate(e.ctx, e.Cluster, want)
		if err == nil && (got.State != port.Up || !got.RunsAs(want)) {
			err = fmt.Errorf("%s %s %s", got.State, got.Class.Name, got.Message)
		}
		return err
	})
}
