package porttest

import (
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

var instanceCases = []testCase{
	{"Instances/made once", func(e *suite) {
		e.volume()
		first := e.up(e.instance("b", port.Reader))
		again, err := e.Reopen(e.t).Instances.Ensure(e.ctx, e.Cluster, e.instance("b", port.Reader))
		e.must("again", err)
		if again.Address != first.Address || again.Port != first.Port || again.Node != first.Node || first.Address == "" || first.Port == 0 || first.Node == "" {
			e.t.Errorf("made as %+v, then %+v", first, again)
		}
		e.up(e.instance("a", port.Writer))
		var names []string
		for _, i := range e.list() {
			names = append(names, i.Name)
		}
		if !slices.Equal(names, []string{"a", "b"}) {
			e.t.Errorf("the list is %v, want a and b by name", names)
		}
		if got, _ := e.find("b"); got.Address != first.Address || got.ID != "b" || got.Type != port.Reader || got.State != port.Up {
			e.t.Errorf("the list has %+v, made was %+v", got, first)
		}
		others, err := e.Ports.Instances.List(e.ctx, port.Ref{Namespace: e.Cluster.Namespace, Name: "other"})
		if err != nil || len(others) > 0 {
			e.t.Errorf("another cluster has %v, %v", others, err)
		}
	}},
	{"Instances/a lost answer", func(e *suite) {
		if e.Lose == nil {
			e.t.Skip("this fixture loses no answers")
		}
		e.volume()
		e.Lose(e.t)
		if _, err := e.Ports.Instances.Ensure(e.ctx, e.Cluster, e.instance("a", port.Reader)); err == nil {
			e.t.Error("the answer was not lost")
		}
		e.up(e.instance("a", port.Reader))
		if n := len(e.list()); n != 1 {
			e.t.Errorf("%d instances", n)
		}
	}},
	{"Instances/an id is taken over, and nothing else changes", func(e *suite) {
		e.volume()
		first := e.up(port.Instance{Name: "x", ID: "t-1", Type: port.Temporary, Class: port.Class{Name: "small"}})
		other := slices.IndexFunc(e.nodes(), func(n port.Node) bool { return n.Name != first.Node })
		want := port.Instance{Name: "x", ID: "1", Type: port.Reader, Class: port.Class{Name: "large", CPU: 8000}, Node: e.nodes()[other].Name, Port: first.Port + 7}
		for range 2 {
			got, err := e.Ports.Instances.Ensure(e.ctx, e.Cluster, want)
			e.must("adopt", err)
			first.ID, first.Type = "1", port.Reader
			if got.ID != "1" || got.Type != port.Reader || got.Node != first.Node || got.Address != first.Address || got.Port != first.Port || got.Class.Name != "small" || got.Version != first.Version {
				e.t.Errorf("got %+v, want %+v", got, first)
			}
		}
	}},
	{"Instances/removed, and gone is no error", func(e *suite) {
		e.volume()
		e.up(e.instance("a", port.Reader))
		e.up(e.instance("b", port.Reader))
		e.must("of one that never was", e.Ports.Instances.Remove(e.ctx, e.Cluster, "never"))
		e.must("remove", e.Ports.Instances.Remove(e.ctx, e.Cluster, "a"))
		e.await("it is gone", func() error {
			got, there := e.find("a")
			switch {
			case there && got.State != port.Leaving:
				e.t.Errorf("what was removed is %s", got.State)
			case there:
				return fmt.Errorf("%s", got.State)
			}
			return nil
		})
		e.must("again", e.Ports.Instances.Remove(e.ctx, e.Cluster, "a"))
		if got, there := e.find("b"); !there || got.State != port.Up {
			e.t.Errorf("the other one is %+v", got)
		}
	}},
	{"Instances/on the node that is named, or none", func(e *suite) {
		e.volume()
		node := e.nodes()[1].Name
		want := e.instance("a", port.Reader)
		want.Node = node
		if got := e.up(want); got.Node != node {
			e.t.Errorf("it is on %s, %s was named", got.Node, node)
		}
		want = e.instance("b", port.Reader)
		want.Node = "nowhere"
		_, err := e.Ports.Instances.Ensure(e.ctx, e.Cluster, want)
		e.refused("an unknown node", err, port.TargetNodeUnavailable)
		broken := e.nodes()[2].Name
		e.Break(e.t, broken)
		e.await("the node is not ready", func() error {
			if i := slices.IndexFunc(e.nodes(), func(n port.Node) bool { return n.Name == broken && n.Ready }); i >= 0 {
				return fmt.Errorf("%s is ready", broken)
			}
			return nil
		})
		want.Node = broken
		_, err = e.Ports.Instances.Ensure(e.ctx, e.Cluster, want)
		e.refused("a broken node", err, port.TargetNodeUnavailable)
		if _, there := e.find("b"); there {
			e.t.Error("a refused instance is in the list")
		}
	}},
	{"Instances/spread over nodes", func(e *suite) {
		e.volume()
		used := map[string]bool{}
		for _, name := range []string{"a", "b", "c"} {
			want := e.instance(name, port.Reader)
			want.Spread = "kubernetes.io/hostname"
			used[e.up(want).Node] = true
		}
		if len(used) != 3 {
			e.t.Errorf("three instances stand on %d nodes", len(used))
		}
	}},
	{"Instances/a node that fails and comes back", func(e *suite) {
		e.volume()
		got := e.up(e.instance("a", port.Reader))
		e.Break(e.t, got.Node)
		e.await("it is lost", func() error {
			if i, there := e.find("a"); !there || i.State != port.Lost {
				return fmt.Errorf("%t %s", there, i.State)
			}
			return nil
		})
		if _, err := e.Ports.Engine.Status(e.ctx, e.Cluster.Of("a")); err == nil {
			e.t.Error("an engine on a lost node was asked")
		}
		e.Repair(e.t, got.Node)
		if again := e.up(e.instance("a", port.Reader)); again.Node != got.Node {
			e.t.Errorf("it was on %s and is on %s", got.Node, again.Node)
		}
	}},
}

// nodes returns the nodes, at least three, sorted by name.
func (e *suite) nodes() []port.Node {
	e.t.Helper()
	nodes, err := e.Ports.Instances.Nodes(e.ctx, e.Cluster)
	e.must("nodes", err)
	if len(nodes) < 3 || !slices.IsSortedFunc(nodes, func(a, b port.Node) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	}) {
		e.t.Fatalf("the suite needs three nodes by name, and has %v", nodes)
	}
	return nodes
}
