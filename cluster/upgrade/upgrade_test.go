package upgrade_test

import (
	"fmt"
	"testing"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/settings"
	"github.com/pawl-dev/pawl/cluster/upgrade"
	"github.com/pawl-dev/pawl/fault"
)

// capable is a provider that only has capabilities.
type capable struct {
	cluster.Provider
	sendsHeartbeats bool
}

func (p capable) Capabilities() cluster.Capabilities {
	return cluster.Capabilities{SendsHeartbeats: p.sendsHeartbeats}
}

// only finds one provider, whatever its name.
type only struct{ provider cluster.Provider }

func (p only) Provider(string) (cluster.Provider, error) { return p.provider, nil }

var versions = settings.Versions{{ID: "v1", Semantic: "1.0.0"}, {ID: "v2", Semantic: "1.1.0"}}

// record returns a cluster with control nodes and workers of version 1.0.0. The last
// worker is upgraded already, the first one was removed.
func record(control, workers int) *cluster.Record {
	b := &cluster.Record{Cluster: cluster.Cluster{ControlCount: control, NodeCount: workers, Template: cluster.Entity{ID: "image"}}}
	add := func(role cluster.Role, n int, version string) {
		b.Nodes = append(b.Nodes, cluster.Node{Name: fmt.Sprint(role, n), Role: role, Ordinal: n, Version: version, Template: cluster.Entity{ID: "image"}})
	}
	for n := range workers {
		add(cluster.Worker, n+1, "1.0.0")
	}
	b.Nodes[0].Removed = b.Nodes[0].Removed.AddDate(1, 0, 0)
	b.Nodes[workers-1].Version = "v1.1.0"
	for n := range control {
		add(cluster.Control, n+1, "v1")
	}
	return b
}

func TestOrder(t *testing.T) {
	for _, c := range []struct {
		name            string
		control, surge  int
		consent         bool
		sendsHeartbeats bool
		want            string
	}{
		{"control nodes first, one at a time", 2, 0, false, true, "[{control [control1] false} {control [control2] false} {worker [worker2] false} {worker [worker3] false}]"},
		{"workers by surge", 2, 5, false, true, "[{control [control1] false} {control [control2] false} {worker [worker2 worker3] false}]"},
		{"the only control node keeps its VM", 1, 2, false, true, "[{control [control1] true} {worker [worker2 worker3] false}]"},
		{"unless the caller gives up its data", 1, 2, true, true, "[{control [control1] false} {worker [worker2 worker3] false}]"},
		{"or nothing tells it to upgrade itself", 1, 2, false, false, "[{control [control1] false} {worker [worker2 worker3] false}]"},
	} {
		p := upgrade.New(versions, only{capable{sendsHeartbeats: c.sendsHeartbeats}})
		got := fmt.Sprint(p.Order(record(c.control, 4), &cluster.Request{Version: "v2", Surge: c.surge, Consent: c.consent}))
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestMayUpgradeControl(t *testing.T) {
	for _, c := range []struct {
		name            string
		control         int
		sendsHeartbeats bool
		ask             cluster.Request
		want            *fault.Kind
	}{
		{"several control nodes", 3, true, cluster.Request{Version: "v2"}, nil},
		{"nothing to upgrade", 1, true, cluster.Request{Version: "v1"}, nil},
		{"downtime not allowed", 1, true, cluster.Request{Version: "v2"}, cluster.DowntimeRefused},
		{"downtime allowed", 1, true, cluster.Request{Version: "v2", Downtime: true}, nil},
		{"only replaceable", 1, false, cluster.Request{Version: "v2", Downtime: true}, cluster.LastControl},
		{"with consent", 1, false, cluster.Request{Version: "v2", Consent: true}, nil},
	} {
		err := upgrade.New(versions, only{capable{sendsHeartbeats: c.sendsHeartbeats}}).MayUpgradeControl(record(c.control, 2), &c.ask)
		if c.want == nil && err != nil || c.want != nil && fault.Of(err) != c.want {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}
