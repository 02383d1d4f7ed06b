package foundationdb

import (
	"testing"

	"github.com/pawl-dev/pawl/chain"
)

func TestHolds(t *testing.T) {
	for text, want := range map[string]map[string]bool{
		"StartBackup":               {"StartBackup": true, "StopBackup": false},
		" StartBackup , StopBackup": {"StartBackup": true, "StopBackup": true, "ModifyBackup": false},
		"*":                         {"StartBackup": true, "ModifyBackup": true},
	} {
		holds := Holds(map[string]string{HoldAnnotation: text})
		for link, held := range want {
			if holds(link) != held {
				t.Errorf("%q holds %s: %t", text, link, !held)
			}
		}
	}
	for _, text := range []string{"", " , "} {
		if Holds(map[string]string{HoldAnnotation: text}) != nil {
			t.Errorf("%q holds something", text)
		}
	}
}

// A hash stands for exactly these acts on these targets.
func TestPlanHash(t *testing.T) {
	plan := func(link, act, target string) []chain.Planned {
		return []chain.Planned{{Link: "First"}, {Link: link, Acts: []chain.PlannedAct{{Name: act, Targets: []string{target}}}}}
	}
	hash := PlanHash(plan("A", "start", "x"))
	if hash == "" || PlanHash(plan("A", "start", "x")) != hash {
		t.Errorf("the hash is %q once", hash)
	}
	for _, other := range [][]chain.Planned{plan("B", "start", "x"), plan("A", "stop", "x"), plan("A", "start", "y")} {
		if PlanHash(other) == hash {
			t.Errorf("%v has the hash of another plan", other)
		}
	}
	if PlanHash([]chain.Planned{{Link: "A"}}) != "" {
		t.Error("a plan without acts has a hash")
	}
}
