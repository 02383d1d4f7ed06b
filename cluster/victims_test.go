package cluster

import (
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func names(nodes []Node) (all []string) {
	for _, n := range nodes {
		all = append(all, n.Name)
	}
	return all
}

func TestVictims(t *testing.T) {
	ready := func(n Node) Node { n.ReadyAt, n.HeartbeatAt = noon, noon; return n }
	nodes := []Node{
		ready(Node{Name: "c1", VMID: "vc1", Role: Control, Ordinal: 1}),
		ready(Node{Name: "w1", VMID: "v1", Role: Worker, Ordinal: 1}),
		{Name: "w2", VMID: "v2", Role: Worker, Ordinal: 2, HeartbeatAt: noon, NotReady: "disk full"},
		ready(Node{Name: "w3", VMID: "v3", Role: Worker, Ordinal: 3}),
		{Name: "w4", VMID: "v4", Role: Worker, Ordinal: 4, ReadyAt: noon, HeartbeatAt: noon.Add(-10 * time.Minute)},
		{Name: "w9", VMID: "v9", Role: Worker, Ordinal: 9, Removed: noon},
	}
	for _, c := range []struct {
		name string
		ids  []string
		keep int
		want []string
		bad  bool
	}{
		{"nothing to do", nil, 4, nil, false},
		{"more than there are", nil, 7, nil, false},
		{"not ready first, of these the newest", nil, 3, []string{"w4"}, false},
		{"then the others that are not ready", nil, 2, []string{"w4", "w2"}, false},
		{"then the newest", nil, 1, []string{"w4", "w2", "w3"}, false},
		{"one must stay", nil, 0, nil, true},
		{"exactly these, by id and by name", []string{"v1", "w3"}, 0, []string{"w1", "w3"}, false},
		{"one named twice", []string{"v1", "w1"}, 0, []string{"w1"}, false},
		{"a control node", []string{"vc1"}, 0, nil, true},
		{"a control node among others", []string{"v1", "c1"}, 0, nil, true},
		{"one of another cluster", []string{"v1", "other"}, 0, nil, true},
		{"a removed one", []string{"v9"}, 0, nil, true},
		{"an empty id", []string{""}, 0, nil, true},
		{"all of them", []string{"v1", "v2", "v3", "v4"}, 0, nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Victims(nodes, c.ids, c.keep)
			if c.bad != errors.Is(err, ClusterInvalid) || !slices.Equal(names(got), c.want) {
				t.Errorf("got %v, %v; want %v", names(got), err, c.want)
			}
		})
	}
}

// If no node sends heartbeats, the newest nodes are removed.
func TestVictimsWithoutHeartbeats(t *testing.T) {
	got, err := Victims([]Node{{Name: "a", VMID: "1", Role: Worker, Ordinal: 1}, {Name: "b", VMID: "2", Role: Worker, Ordinal: 2}}, nil, 1)
	if err != nil || !slices.Equal(names(got), []string{"b"}) {
		t.Errorf("got %v, %v", names(got), err)
	}
}

func TestVictimsAreNeverControlNodesAndNeverAll(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		nodes := anyNodes(r)
		ids := rapid.SliceOfN(rapid.SampledFrom(append(names(nodes), "stranger")), 0, 4).Draw(r, "ids")
		keep := rapid.IntRange(0, 8).Draw(r, "keep")
		workers := len(slices.DeleteFunc(slices.Clone(nodes), func(n Node) bool { return n.Role != Worker || !n.Removed.IsZero() }))
		victims, err := Victims(nodes, ids, keep)
		if err != nil {
			return
		}
		for _, v := range victims {
			if v.Role != Worker || !v.Removed.IsZero() || len(ids) > 0 && !slices.Contains(ids, v.Name) {
				r.Fatalf("victim %+v", v)
			}
		}
		if len(victims) > 0 && len(victims) >= workers {
			r.Fatalf("all %d workers are victims", workers)
		}
		if len(ids) == 0 && len(victims) != max(0, workers-keep) {
			r.Fatalf("%d of %d go, %d should stay", len(victims), workers, keep)
		}
	})
}

func anyNodes(r *rapid.T) []Node {
	var nodes []Node
	for i := range rapid.IntRange(1, 8).Draw(r, "nodes") {
		n := Node{Role: rapid.SampledFrom([]Role{Control, Worker}).Draw(r, "role"), Ordinal: i + 1, Key: string(rune('a' + i))}
		n.Name = string(n.Role) + n.Key
		if rapid.IntRange(0, 9).Draw(r, "named") > 0 {
			n.VMID = "vm-" + n.Key
		}
		if rapid.IntRange(0, 9).Draw(r, "removed") == 0 {
			n.Removed = noon
		}
		if rapid.Bool().Draw(r, "hello") {
			n.HeartbeatAt, n.ReadyAt = noon.Add(-time.Duration(rapid.IntRange(0, 300).Draw(r, "ago"))*time.Second), noon
		}
		nodes = append(nodes, n)
	}
	return nodes
}
