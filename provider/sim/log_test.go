package sim_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/provider/sim"
)

// The log contains the calls with their results, and the mutations.
func TestLog(t *testing.T) {
	cloud := open(t, sim.Options{})
	one := mustMake(t, cloud, vm("one"))
	if _, err := cloud.As("other").Get(t.Context(), cluster.Ref{Kind: cluster.VM, ID: "nobody"}); err == nil {
		t.Fatal("found")
	}
	if _, err := cloud.Act(t.Context(), one.Ref(), cluster.Destroy); err != nil {
		t.Fatal(err)
	}
	var calls, mutations []string
	last := int64(0)
	for _, e := range cloud.Calls() {
		calls = append(calls, fmt.Sprintf("%s of %s: %s", e, e.Installation, e.Code))
		if e.Seq <= last {
			t.Error("the log is out of order")
		}
		last = e.Seq
	}
	want := []string{
		"create vm one of pawl: ", "get vm one of pawl: ",
		"get vm : vm  nobody: cluster: the resource is gone of other: UNKNOWN", "destroy vm one of pawl: ",
	}
	if !slices.Equal(calls, want) {
		t.Errorf("calls %q", calls)
	}
	for _, d := range cloud.Mutations() {
		mutations = append(mutations, fmt.Sprintf("%s %s by %s of %s %s", d.Op, d.Name, d.By, d.Installation, d.Cluster))
	}
	if want := []string{"made one by call of pawl c1", "destroyed one by call of pawl c1"}; !slices.Equal(mutations, want) {
		t.Errorf("deeds %q", mutations)
	}
	if e := cloud.Calls()[0]; e.Key != "key/one" || e.CallID != "call-one" || e.Cluster != "c1" || e.ID != one.ID {
		t.Errorf("%+v", e)
	}
	cloud.ClearLog()
	if len(cloud.Calls())+len(cloud.Mutations()) > 0 {
		t.Error("it is not cleared")
	}
}

// A full log keeps the newest entries and counts the dropped ones.
func TestLogLimit(t *testing.T) {
	for most, kept := range map[int]int{10: 10, -1: 0} {
		cloud := open(t, sim.Options{Log: most})
		for i := range 100 {
			mustMake(t, cloud, vm(fmt.Sprint(i))) // two calls, one mutation
		}
		calls, mutations := cloud.Calls(), cloud.Mutations()
		lostCalls, lostMutations := cloud.Dropped()
		if len(calls) < kept || len(calls) > 2*kept || len(calls)+lostCalls != 200 || len(mutations)+lostMutations != 100 {
			t.Errorf("at most %d: %d calls and %d forgotten, %d deeds and %d forgotten", most, len(calls), lostCalls, len(mutations), lostMutations)
		}
		if kept > 0 && calls[len(calls)-1].Name != "99" {
			t.Errorf("the newest is %s", calls[len(calls)-1])
		}
	}
}

func TestQuotaChanges(t *testing.T) {
	cloud := open(t, sim.Options{Quota: sim.Quota{VMs: 1}})
	mustMake(t, cloud, vm("one"))
	refused := func() bool {
		found, err := cloud.Check(t.Context(), cluster.Need{Owner: owner, Zone: "zone-1", Offering: "small", Template: "node-image", Nodes: 2})
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(found, func(f cluster.Finding) bool { return f.Code == cluster.QuotaExceeded.Code })
	}
	if !refused() {
		t.Error("one of one is taken")
	}
	cloud.SetQuota(owner.AccountID, sim.Quota{VMs: 3})
	if refused() {
		t.Error("the owner may have three")
	}
	cloud.SetQuota(owner.AccountID, sim.Quota{VMs: 2})
	cloud.SetQuota("", sim.Quota{})
	if !refused() {
		t.Error("the owner has a quota of its own")
	}
}

// Check returns all findings.
func TestCheck(t *testing.T) {
	cloud := open(t, sim.Options{Zones: []sim.Zone{{ID: "zone-1"}, {ID: "off", Disabled: true}}})
	found, err := cloud.Check(t.Context(), cluster.Need{Owner: owner, Zone: "off", Offering: "x", Template: "x", Network: "x", KeyPair: "x", Nodes: 1})
	if err != nil || len(found) != 5 {
		t.Fatalf("%+v, %v", found, err)
	}
	for _, f := range found {
		if f.Code != cluster.EntityRefused.Code || f.Type != cluster.PlanObstacle {
			t.Errorf("%+v", f)
		}
	}
}
