package porttest

import (
	"fmt"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

var managerCases = []testCase{
	{"Manager/there is none", func(e *suite) {
		m := e.Ports.Manager
		if top, err := m.Topology(e.ctx, e.Cluster); err != nil || top.Present {
			e.t.Errorf("topology: %+v, %v", top, err)
		}
		e.refused("add", m.Add(e.ctx, e.Cluster, port.Member{Name: "a", ID: "a"}), port.ManagerUnreachable)
		e.refused("failover", m.SetHA(e.ctx, e.Cluster, true, time.Time{}), port.ManagerUnreachable)
		for range 2 {
			top, err := m.Ensure(e.ctx, e.Cluster, port.ManagerSpec{})
			if err != nil || top.Present {
				e.t.Errorf("removed: %+v, %v", top, err)
			}
		}
	}},
	{"Manager/members", func(e *suite) {
		e.writer("w")
		e.readers("w", "r")
		spec := e.manage("strict", "w")
		m := e.Ports.Manager
		e.expectMembers("w")
		r := e.member("r")
		for range 2 {
			e.must("add", m.Add(e.ctx, e.Cluster, r))
		}
		e.expectMembers("r", "w")
		r.Routed, r.ID = false, "7"
		e.must("change", m.Add(e.ctx, e.Cluster, r))
		if top := e.expectMembers("r", "w"); top.Members[0].Routed || top.Members[0].ID != "7" {
			e.t.Errorf("the entry was not changed: %+v", top.Members[0])
		}
		_, err := e.Reopen(e.t).Manager.Ensure(e.ctx, e.Cluster, spec) // members count at creation
		e.must("ensure again", err)
		e.expectMembers("r", "w")
		for range 2 {
			e.must("remove", m.Remove(e.ctx, e.Cluster, "r"))
		}
		e.must("remove one that never was", m.Remove(e.ctx, e.Cluster, "never"))
		e.expectMembers("w")
		top, err := m.Ensure(e.ctx, e.Cluster, port.ManagerSpec{})
		if err != nil || top.Present {
			e.t.Errorf("after it was removed: %+v, %v", top, err)
		}
	}},
	{"Manager/failover is off until its end and comes back by itself", func(e *suite) {
		e.writer("w")
		spec := e.manage("strict", "w")
		m := e.Ports.Manager
		e.expectHA(true)
		until := e.Now().Add(10 * time.Second)
		for range 2 {
			e.must("off", m.SetHA(e.ctx, e.Cluster, false, until))
		}
		if top := e.expectHA(false); top.Until.Sub(until).Abs() > time.Second { // a manager on another machine is told how long, as clocks differ
			e.t.Errorf("it is off until %s, want %s", top.Until, until)
		}
		_, err := m.Ensure(e.ctx, e.Cluster, spec)
		e.must("ensure", err)
		if e.Now().Before(until) {
			e.expectHA(false) // Ensure does not switch it on
		}
		longer := e.Now().Add(20 * time.Second)
		e.must("longer", m.SetHA(e.ctx, e.Cluster, false, longer))
		e.await("failover is back", func() error {
			top, err := m.Topology(e.ctx, e.Cluster)
			if err == nil && !top.HA {
				err = fmt.Errorf("off until %s", top.Until)
			}
			return err
		})
		if e.Now().Before(longer) {
			e.t.Errorf("it came back %s before its end", longer.Sub(e.Now()))
		}
		e.must("off without an end", m.SetHA(e.ctx, e.Cluster, false, time.Time{}))
		if top := e.expectHA(false); !top.Until.IsZero() {
			e.t.Errorf("it is off until %s, want no end", top.Until)
		}
		e.must("on", m.SetHA(e.ctx, e.Cluster, true, time.Time{}))
		if top := e.expectHA(true); !top.Until.IsZero() {
			e.t.Errorf("it is on and has an end, %s", top.Until)
		}
		e.must("off until what is over", m.SetHA(e.ctx, e.Cluster, false, e.Now().Add(-time.Second)))
		e.expectHA(true)
	}},
	{"Manager/stands apart from the writer", func(e *suite) {
		e.writer("w")
		e.manage("strict", "w")
		w, _ := e.find("w")
		if top := e.topology(); top.Node == "" || top.Node == w.Node {
			e.t.Errorf("it stands on %q, the writer on %q", top.Node, w.Node)
		}
	}},
	{"Manager/leaves the node of a new writer, and forgets nothing", func(e *suite) {
		e.writer("w")
		e.readers("w", "r")
		spec := e.manage("strict", "w", "r")
		m := e.Ports.Manager
		e.must("remove", m.Remove(e.ctx, e.Cluster, "r"))
		e.must("off", m.SetHA(e.ctx, e.Cluster, false, time.Time{}))
		was := e.topology().Node
		spec.AwayFrom = was
		for range 2 {
			e.await("it stands elsewhere", func() error {
				top, err := e.Reopen(e.t).Manager.Ensure(e.ctx, e.Cluster, spec)
				if err == nil && (!top.Ready || top.Node == was || top.Node == "") {
					err = fmt.Errorf("ready %t, on %q", top.Ready, top.Node)
				}
				return err
			})
		}
		e.expectMembers("w")
		e.expectHA(false)
	}},
	{"Manager/works with the durability it was told last", func(e *suite) {
		e.writer("w")
		e.readers("w", "r")
		spec := e.manage("", "w", "r")
		for _, durability := range []string{"strict", "available", "available", "strict"} {
			spec.Durability = durability
			_, err := e.Reopen(e.t).Manager.Ensure(e.ctx, e.Cluster, spec)
			e.must("ensure", err)
			e.await("it works with "+durability, func() error {
				top, err := e.Ports.Manager.Topology(e.ctx, e.Cluster)
				if err == nil && top.Durability != durability {
					err = fmt.Errorf("%q", top.Durability)
				}
				return err
			})
		}
	}},
	{"Manager/fails over when the writer is lost, and takes it back", func(e *suite) {
		e.writer("a")
		e.readers("a", "b", "c")
		e.manage("strict", "a", "b", "c")
		e.insert("a", "one")
		old := e.epoch
		e.Kill(e.t, e.Cluster.Of("a"))
		top := e.failover("a")
		if top.Epoch <= old {
			e.t.Errorf("epoch %d follows %d", top.Epoch, old)
		}
		v, err := e.Ports.Storage.Observe(e.ctx, e.Cluster)
		e.must("look", err)
		if v.Writer != top.Writer || v.Epoch != top.Epoch {
			e.t.Errorf("the grant is of epoch %d to %s, the manager says %d and %s", v.Epoch, v.Writer, top.Epoch, top.Writer)
		}
		e.refused("the old grant", e.Ports.Storage.Grant(e.ctx, e.Cluster, "a", old), port.SwitchRefused)
		e.insert(top.Writer, "two")
		e.revive("a", port.Writer)
		for _, name := range []string{"a", "b", "c"} {
			if name != top.Writer {
				e.streams(name, top.Writer)
			}
			e.have(e.Cluster.Of(name), "one", "two")
		}
		e.expectMembers("a", "b", "c")
	}},
	{"Manager/fails over when the writer's node is lost, to another node", func(e *suite) {
		e.writer("a")
		e.readers("a", "b", "c")
		e.manage("strict", "a", "b", "c")
		a, _ := e.find("a")
		e.Break(e.t, a.Node)
		top := e.failover("a")
		if b, _ := e.find(top.Writer); b.Node == a.Node {
			e.t.Errorf("%s is on the node of the writer that was lost", b.Name)
		}
	}},
	{"Manager/does not fail over while that is off", func(e *suite) {
		e.writer("a")
		e.readers("a", "b")
		e.manage("strict", "a", "b")
		until := e.Now().Add(20 * time.Second)
		e.must("off", e.Ports.Manager.SetHA(e.ctx, e.Cluster, false, until))
		e.Kill(e.t, e.Cluster.Of("a"))
		e.failover("a")
		if e.Now().Before(until) {
			e.t.Errorf("it failed over %s before the end of the time without", until.Sub(e.Now()))
		}
	}},
	{"Manager/no failover that could lose a row", func(e *suite) {
		e.writer("a")
		e.readers("a", "b", "c")
		e.manage("strict", "a", "b", "c")
		if top := e.topology(); !slices.Equal(top.Sync, []string{"b", "c"}) {
			e.t.Errorf("the list of readers is %v", top.Sync)
		}
		e.Kill(e.t, e.Cluster.Of("b"))
		e.Kill(e.t, e.Cluster.Of("a"))
		e.await("it says why not", func() error {
			top, err := e.Ports.Manager.Topology(e.ctx, e.Cluster)
			if err == nil && (top.Code != string(port.FailoverUnsafe.Code) || top.Message == "") {
				err = fmt.Errorf("%q %q", top.Code, top.Message)
			}
			return err
		})
		v, err := e.Ports.Storage.Observe(e.ctx, e.Cluster)
		e.must("look", err)
		if v.Writer == "c" || v.Writer == "b" {
			e.t.Errorf("%s has the grant", v.Writer)
		}
		e.revive("b", port.Reader)
		e.failover("a")
	}},
}

func (e *suite) member(name string) port.Member {
	e.t.Helper()
	i, there := e.find(name)
	if !there {
		e.t.Fatalf("there is no instance %s", name)
	}
	return port.Member{Name: i.Name, ID: i.ID, Node: i.Node, Address: i.Address, Port: i.Port, Routed: true}
}

// updateMember tells the manager the present address of a member, as an operator does.
func (e *suite) updateMember(name string) {
	e.t.Helper()
	e.await("the manager knows where "+name+" is", func() error {
		top, err := e.Ports.Manager.Topology(e.ctx, e.Cluster)
		if err != nil || !slices.ContainsFunc(top.Members, func(m port.Member) bool { return m.Name == name }) {
			return err
		}
		return e.Ports.Manager.Add(e.ctx, e.Cluster, e.member(name))
	})
}

// manage creates the manager, and waits until it sees the writer and counts on all readers.
func (e *suite) manage(durability string, names ...string) port.ManagerSpec {
	e.t.Helper()
	spec := port.ManagerSpec{Present: true, HA: true, Durability: durability}
	for _, name := range names {
		spec.Members = append(spec.Members, e.member(name))
	}
	writer, _ := e.find(names[0])
	spec.AwayFrom = writer.Node
	e.await("the manager sees the cluster", func() error {
		top, err := e.Ports.Manager.Ensure(e.ctx, e.Cluster, spec)
		if err == nil && (!top.Present || !top.Ready || top.Writer != names[0] || top.Epoch != e.epoch || len(top.Sync) != len(names)-1 || top.Code != "") {
			err = fmt.Errorf("%+v", top)
		}
		return err
	})
	return spec
}

func (e *suite) topology() port.Topology {
	e.t.Helper()
	top, err := e.Ports.Manager.Topology(e.ctx, e.Cluster)
	e.must("topology", err)
	return top
}

// expectMembers checks that the members are exactly these.
func (e *suite) expectMembers(names ...string) port.Topology {
	e.t.Helper()
	top := e.topology()
	var got []string
	for _, m := range top.Members {
		got = append(got, m.Name)
	}
	if !slices.Equal(got, names) {
		e.t.Fatalf("the members are %v, want %v", got, names)
	}
	return top
}

func (e *suite) expectHA(want bool) port.Topology {
	e.t.Helper()
	top := e.topology()
	if top.HA != want {
		e.t.Errorf("failover is %t, want %t (until %s)", top.HA, want, top.Until)
	}
	return top
}

// failover waits for another writer than this one.
func (e *suite) failover(old string) port.Topology {
	e.t.Helper()
	var top port.Topology
	e.await("a failover from "+old, func() (err error) {
		if top, err = e.Ports.Manager.Topology(e.ctx, e.Cluster); err == nil && (top.Writer == "" || top.Writer == old) {
			err = fmt.Errorf("%s: %s %s", top.Writer, top.Code, top.Message)
		}
		return err
	})
	e.epoch = top.Epoch
	e.writes(top.Writer, top.Epoch)
	return top
}
