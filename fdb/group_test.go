package fdb_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/fdb"
)

var classes = []fdb.Class{
	fdb.ClassUnset, fdb.ClassStorage, fdb.ClassTransaction, fdb.ClassResolution, fdb.ClassTest, fdb.ClassProxy, fdb.ClassCommitProxy,
	fdb.ClassGRVProxy, fdb.ClassMaster, fdb.ClassStateless, fdb.ClassLog, fdb.ClassClusterController, fdb.ClassRouter, fdb.ClassFastRestore,
	fdb.ClassDataDistributor, fdb.ClassCoordinator, fdb.ClassRatekeeper, fdb.ClassStorageCache, fdb.ClassBackup, fdb.ClassGeneral,
}

func TestParseGroupID(t *testing.T) {
	for _, test := range []struct {
		text string
		want fdb.GroupID
	}{
		{"storage-1", fdb.GroupID{Class: fdb.ClassStorage, Number: 1}},
		{"cluster_controller-99999", fdb.GroupID{Class: fdb.ClassClusterController, Number: 99999}},
		{"dc1-log-4", fdb.GroupID{Prefix: "dc1", Class: fdb.ClassLog, Number: 4}},
		{"a-b.c_D-stateless-12", fdb.GroupID{Prefix: "a-b.c_D", Class: fdb.ClassStateless, Number: 12}},
		{"storage-1-storage-2", fdb.GroupID{Prefix: "storage-1", Class: fdb.ClassStorage, Number: 2}},
	} {
		got, err := fdb.ParseGroupID(test.text)
		if err != nil || got != test.want || got.String() != test.text {
			t.Errorf("%q is %+v and written as %s, with %v", test.text, got, got, err)
		}
	}
	for _, text := range []string{
		"", "*", "storage", "storage-", "storage-0", "storage-01", "storage--1", "-storage-1", "1", "-1", "Storage-1", "storage-1 ", "storage-x",
		"storage-99999999999", "a;b-storage-1", "a b-storage-1", "a\"-storage-1", "cluster-controller_-1", "_-1", "storage-1\n",
	} {
		if g, err := fdb.ParseGroupID(text); fault.Of(err) != fdb.GroupIDInvalid {
			t.Errorf("%q is read as %+v, with %v", text, g, err)
		}
	}
	if got := (fdb.GroupID{Prefix: "dc1", Class: fdb.ClassLog, Number: 4}).Exclusion(); got != "locality_instance_id:dc1-log-4" {
		t.Errorf("it is excluded as %s", got)
	}
}

func TestGroupIDRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := fdb.GroupID{
			Prefix: rapid.StringMatching(`([a-z0-9]([a-z0-9-]{0,40}[a-z0-9])?)?`).Draw(t, "prefix"),
			Class:  rapid.SampledFrom(classes).Draw(t, "class"),
			Number: rapid.IntRange(1, 99999).Draw(t, "number"),
		}
		if read, err := fdb.ParseGroupID(g.String()); err != nil || read != g {
			t.Fatalf("%+v is read as %+v, with %v", g, read, err)
		}
		if fdb.CheckWord(fdb.WordLocality, g.Exclusion()) != nil {
			t.Fatalf("%s is no locality", g.Exclusion())
		}
	})
}

func FuzzParseGroupID(f *testing.F) {
	for _, text := range []string{"storage-1", "a-b-log-17", "--", "-1-1", "a-_-1"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if g, err := fdb.ParseGroupID(text); err == nil && (g.String() != text || g.Number < 1 || strings.ContainsAny(text, "* ;\"'\\")) {
			t.Fatalf("%q is read as %+v", text, g)
		}
	})
}

func TestClasses(t *testing.T) {
	for _, class := range classes {
		stateful := class == fdb.ClassStorage || class == fdb.ClassLog || class == fdb.ClassTransaction || class == fdb.ClassCoordinator
		logs := class == fdb.ClassLog || class == fdb.ClassTransaction
		if class.Stateful() != stateful || class.CoordinatorEligible() != stateful {
			t.Errorf("%s is stateful: %t, eligible: %t", class, class.Stateful(), class.CoordinatorEligible())
		}
		if class.LogLike() != logs || (class.CoordinatorPriority() > fdb.ClassStorage.CoordinatorPriority()) != logs {
			t.Errorf("%s is log-like: %t, with priority %d", class, class.LogLike(), class.CoordinatorPriority())
		}
		if want := class != fdb.ClassStorage && class != fdb.ClassGeneral; class.Transaction() != want {
			t.Errorf("%s is of the transaction system: %t", class, class.Transaction())
		}
	}
	for class, want := range map[fdb.Class]string{fdb.ClassStorage: "STORAGE_SERVERS_PER_POD", fdb.ClassLog: "LOG_SERVERS_PER_POD", fdb.ClassGRVProxy: "GRV_PROXY_SERVERS_PER_POD"} {
		if got := class.ServersVariable(); got != want {
			t.Errorf("%s has the variable %s", class, got)
		}
	}
}

func TestRedundancies(t *testing.T) {
	for _, test := range []struct {
		mode                             fdb.Redundancy
		tolerance, domains, coordinators int
	}{
		{fdb.Single, 0, 1, 1},
		{fdb.Double, 1, 2, 3},
		{"", 1, 2, 3},
		{fdb.Triple, 2, 3, 5},
		{fdb.ThreeDataHall, 2, 3, 9},
		{"three_datacenter", 0, 1, 1}, // not ours
	} {
		if f, d := test.mode.FaultTolerance(), test.mode.FaultDomains(); f != test.tolerance || d != test.domains {
			t.Errorf("%q has F %d and %d fault domains", test.mode, f, d)
		}
		for regions, want := range map[int]int{0: test.coordinators, 1: test.coordinators, 2: 9, 3: 9} {
			if got := fdb.CoordinatorCount(test.mode, regions); got != want {
				t.Errorf("%q with %d regions has %d coordinators, not %d", test.mode, regions, got, want)
			}
		}
		if test.mode.Known() != (test.mode != "three_datacenter") {
			t.Errorf("%q is known: %t", test.mode, test.mode.Known())
		}
	}
}
