package flowfile

import (
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/workflow"
)

const healing = "flowName: Heal\nsteps: [{uses: Do}]\n"

func faultsFile(remedy string) File {
	return File{"t_faults.yaml", []byte(`faults:
- code: FILE_TEST_LOST
  class: blocked
  title: lost in a test
  remedy: ` + remedy + `
  guide: "node {{.node}}"
  healer: {flow: Heal, undo: true, limits: {attempts: 2, first: 1s, longest: 1m, within: 1d}}
- {code: FILE_TEST_SLOW, class: transient, title: slow, remedy: Wait., free: true}
`)}
}

func TestFaultsAreRegistered(t *testing.T) {
	options := Options{Actions: actions("Do")}
	if _, err := Parse([]File{{"h.yaml", []byte(healing)}, faultsFile("First."), {"bad.yaml", []byte("flowName: 1")}}, options); err == nil {
		t.Fatal("a bad set loads")
	}
	if _, ok := fault.Lookup("FILE_TEST_LOST"); ok {
		t.Fatal("a set that does not load has registered a fault")
	}
	options.Check = true
	if _, err := Parse([]File{{"h.yaml", []byte(healing)}, faultsFile("First.")}, options); err != nil {
		t.Fatal(err)
	}
	if _, ok := fault.Lookup("FILE_TEST_LOST"); ok {
		t.Fatal("a check has registered a fault")
	}
	options.Check = false
	for _, remedy := range []string{"First.", "Second."} {
		set, err := Parse([]File{{"h.yaml", []byte(healing)}, faultsFile(remedy)}, options)
		if err != nil {
			t.Fatal(err)
		}
		kind, ok := fault.Lookup("FileTestLost")
		if !ok || kind.Remedy != remedy || kind.Class != fault.Blocked || kind.Source != "t_faults.yaml" || kind.Guide != "node {{.node}}" {
			t.Errorf("%+v", kind)
		}
		if slow, _ := fault.Lookup("FILE_TEST_SLOW"); slow == nil || !slow.Uncharged || slow.Class != fault.Transient {
			t.Errorf("%+v", slow)
		}
		want := workflow.Healer{Flow: "Heal", Undo: true, Limits: workflow.Limits{Attempts: 2, First: time.Second, Longest: time.Minute, Within: 24 * time.Hour}}
		if got := set.Healers()["FILE_TEST_LOST"]; got.Flow != want.Flow || got.Undo != want.Undo || got.Limits != want.Limits || len(set.Healers()) != 1 {
			t.Errorf("healers %+v", set.Healers())
		}
		if len(set.Faults()) != 2 {
			t.Errorf("faults %+v", set.Faults())
		}
	}
	other := faultsFile("Third.")
	other.Name = "other_faults.yaml"
	_, err := Parse([]File{{"h.yaml", []byte(healing)}, other}, options)
	if err == nil || !strings.Contains(err.Error(), "other_faults.yaml:2:9: FILE_TEST_LOST is declared already, by t_faults.yaml") {
		t.Errorf("another file: %v", err)
	}
}

func TestHealerOfAFlowInGo(t *testing.T) {
	file := []File{{"h_faults.yaml", []byte("faults: [{code: FILE_TEST_GO, class: blocked, title: t, remedy: r., healer: {flow: InGo}}]")}}
	if _, err := Parse(file, Options{Check: true}); err == nil {
		t.Error("a healer without its flow loads")
	}
	if _, err := Parse(file, Options{Check: true, Flows: []string{"InGo"}}); err != nil {
		t.Error(err)
	}
}
