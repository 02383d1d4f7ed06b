package cloudstack

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/cluster"
)

// A cluster in a list has the same fields as in every other answer.
func TestPageIsWhatObjectsAre(t *testing.T) {
	at := time.Date(2030, 1, 2, 3, 4, 5, 6, time.UTC)
	full := &cluster.Cluster{
		ID: 7, UUID: "u", Name: `blue "team" <1> & more`, Description: "Ärger \u2028 \\ \x7f", Owner: cluster.Owner{AccountID: "a", DomainID: "d"}, Zone: cluster.Entity{ID: "z", Name: "zone"},
		Network: cluster.Entity{ID: "n"}, KeyPair: "k", Version: "v1", Desired: cluster.WantRunning, NodeCount: 2, ControlCount: 1, Autoscale: cluster.Autoscale{Enabled: true, Min: 1, Max: 5},
		State: cluster.Alert, Request: &cluster.Request{Job: "j"}, Reason: cluster.Reason{Code: "CAPACITY_EXHAUSTED", Step: "workers"}, RecoverNext: at, Endpoint: "https://10.1.1.9:6443/", Created: at,
	}
	nodes := []cluster.Node{{Name: "w", Role: cluster.Worker, VMID: "vm-2", Address: "10.0.0.2"}, {Name: "c", Role: cluster.Control, VMID: "vm-1"}, {Name: "x", Role: cluster.Worker}}
	for _, kube := range []bool{false, true} {
		p := &clusterPage{family: "fam", total: 12}
		var objects []object
		for _, s := range []*clusterView{
			{Cluster: full, nodes: nodes, vms: vmIDs(nodes), account: "amy", domain: "ROOT/east", reason: "it is full\n", kube: kube},
			{Cluster: &cluster.Cluster{}, vms: vmIDs(nil), kube: kube},
		} {
			p.items, objects = append(p.items, s), append(objects, s.object())
		}
		got, err := p.encode(nil, "listresponse")
		if err != nil {
			t.Fatal(err)
		}
		want, err := encodeJSON(map[string]any{"listresponse": listAnswer("fam", objects, 12)})
		if err != nil {
			t.Fatal(err)
		}
		var a, b any
		if err := json.Unmarshal(got, &a); err != nil {
			t.Fatalf("%v: %s", err, got)
		}
		if err := json.Unmarshal(want, &b); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(b, a); diff != "" {
			t.Errorf("kube %v (-object +page):\n%s", kube, diff)
		}
	}
}

// appendText encodes every text as encoding/json does.
func TestAppendText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }), rapid.StringMatching(`[ -~]*`)).Draw(t, "text")
		want, err := encodeJSON(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := appendText([]byte("before"), text); string(got) != "before"+string(want) {
			t.Fatalf("%q: %s, want %s", text, got, want)
		}
	})
}
