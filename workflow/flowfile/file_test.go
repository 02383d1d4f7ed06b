package flowfile

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl/workflow"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares with a file of testdata/golden.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", "golden", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got; -update writes it anew):\n%s", path, diff)
	}
}

func actions(names ...string) []workflow.Action {
	var all []workflow.Action
	for _, name := range names {
		all = append(all, workflow.Action{Name: name})
	}
	return all
}

var fleetActions = actions("InspectCluster", "DisableHA", "EnableHA", "CreateReader", "RemoveReader", "SwitchTraffic",
	"RunQuery", "exec", "approval", "http", "ForgetOld")

var classicActions = actions("workflow_shared.InitMeta", "workflow_shared.CreateRwPod", "workflow_shared.CreateRoPods",
	"workflow_shared.UpdateRunningStatus", "workflow_shared.PrepareStorage", "workflow_shared.GenerateParams",
	"workflow_shared.CheckPods", "workflow_shared.CheckDatabase", "workflow_shared.StopReader")

func fleet(t testing.TB) *Set {
	t.Helper()
	set, err := Load([]string{"testdata/fleet"}, Options{Actions: fleetActions, Check: true})
	if err != nil {
		t.Fatalf("the fleet does not load:\n%v", err)
	}
	return set
}

// instances returns the instance names of a flow as the engine forms them, with the kind of each
// step.
func instances(steps []workflow.Step, prefix string) []string {
	var all []string
	for _, s := range steps {
		what := s.Uses
		switch {
		case s.Flow != "":
			what = "flow " + s.Flow
		case s.Steps != nil && s.Parallel > 0:
			what = "parallel"
		case s.Steps != nil:
			what = "steps"
		case s.Uses == "":
			what = "wait"
		}
		name := prefix + s.Name
		all = append(all, name+": "+what)
		if s.ForEach != nil {
			name += "[]"
		}
		for _, part := range [][]workflow.Step{one(s.Open), s.Steps, one(s.Close)} {
			all = append(all, instances(part, name+"/")...)
		}
	}
	return all
}

func one(s *workflow.Step) []workflow.Step {
	if s == nil {
		return nil
	}
	return []workflow.Step{*s}
}

func TestClassicFilesLoadUnchanged(t *testing.T) {
	set, err := Load([]string{"testdata/classic"}, Options{Actions: classicActions})
	if err != nil {
		t.Fatal(err)
	}
	create, ok := set.Flow("CreateSharedStorageCluster")
	if !ok || create.RecoverFromFirstStep {
		t.Fatalf("found %t, from first step %t", ok, create.RecoverFromFirstStep)
	}
	if rebuild, _ := set.Flow("RebuildReader"); !rebuild.RecoverFromFirstStep {
		t.Error("recoverFromFirstStep was not read")
	}
	want := []string{
		"InitMeta: workflow_shared.InitMeta",
		"PrepareAll: steps",
		"PrepareAll/PrepareStorage: workflow_shared.PrepareStorage",
		"PrepareAll/GenerateParams: workflow_shared.GenerateParams",
		"CreateRwPod: workflow_shared.CreateRwPod",
		"CheckAll: steps",
		"CheckAll/CheckPods: workflow_shared.CheckPods",
		"CheckAll/CheckDatabase: workflow_shared.CheckDatabase",
		"CreateRoPods: workflow_shared.CreateRoPods",
		"CheckAll#2: steps",
		"CheckAll#2/CheckPods: workflow_shared.CheckPods",
		"CheckAll#2/CheckDatabase: workflow_shared.CheckDatabase",
		"workflow_shared.UpdateRunningStatus: workflow_shared.UpdateRunningStatus",
	}
	if diff := cmp.Diff(want, instances(create.Steps, "")); diff != "" {
		t.Error(diff)
	}
}

func TestFleetExpands(t *testing.T) {
	set := fleet(t)
	flow, _ := set.Flow("ReplaceReaders")
	all := append(instances(flow.Steps, ""), instances(flow.Finally, "")...)
	golden(t, "fleet.instances", []byte(strings.Join(all, "\n")+"\n"))
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, flow.Source, "", "  "); err != nil {
		t.Fatal(err)
	}
	golden(t, "fleet.source.json", append(pretty.Bytes(), '\n'))
}

func TestSourceRoundTrip(t *testing.T) {
	for _, folder := range []string{"testdata/fleet", "testdata/classic"} {
		set, err := Load([]string{folder}, Options{Actions: append(fleetActions, classicActions...), Check: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, flow := range set.Flows() {
			again, err := FromSource(flow.Source, Options{})
			if err != nil {
				t.Fatalf("%s: %v", flow.Name, err)
			}
			if diff := cmp.Diff(string(flow.Source), string(again.Source)); diff != "" {
				t.Errorf("%s: the source of the source differs:\n%s", flow.Name, diff)
			}
			first, err := workflow.Hash(flow)
			if err != nil {
				t.Fatal(err)
			}
			if second, _ := workflow.Hash(again); first != second {
				t.Errorf("%s: hash %s became %s", flow.Name, first, second)
			}
		}
	}
}

func TestErrorsAreAllReported(t *testing.T) {
	_, err := Load([]string{"testdata/bad"}, Options{Actions: fleetActions, Check: true})
	if err == nil {
		t.Fatal("the bad files load")
	}
	golden(t, "bad.errors", []byte(strings.ReplaceAll(err.Error(), `\`, "/")+"\n"))
}

func TestDirectoryIsAllOrNothing(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("a.yaml", "flowName: A\nsteps: [{className: http}]\n")
	write("b.yml", "flowName: B\nsteps: [{className: nope}]\n")
	write("readme.txt", "no flow")
	write("machine.yaml", "machine: Cluster\n")
	if err := os.Mkdir(filepath.Join(dir, "deeper.yaml"), 0o755); err != nil {
		t.Fatal(err)
	}
	if set, err := Load([]string{dir}, Options{Actions: fleetActions}); set != nil || err == nil || len(err.(Problems)) != 1 {
		t.Fatalf("set %v, error %v", set, err)
	}
	write("b.yml", "flowName: B\nsteps: [{className: http}]\n")
	set, err := Load([]string{dir}, Options{Actions: fleetActions})
	if err != nil || len(set.Flows()) != 2 {
		t.Fatalf("flows %v, error %v", set, err)
	}
	if _, err := Load([]string{t.TempDir()}, Options{}); err == nil {
		t.Error("an empty folder loads")
	}
	if _, err := Load([]string{filepath.Join(dir, "none.yaml")}, Options{}); err == nil {
		t.Error("a missing file loads")
	}
}

func TestNamedFileBringsWhatItNeeds(t *testing.T) {
	set, err := Load([]string{"testdata/fleet/replace_readers.yaml"}, Options{Actions: fleetActions, Check: true})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(set.Flows()); n != 2 {
		t.Errorf("%d flows, want the file's own and its sub-flow", n)
	}
	if own := set.In("testdata/fleet/replace_readers.yaml"); len(own) != 1 || own[0].Name != "ReplaceReaders" {
		t.Errorf("the file's own flows: %v", own)
	}
	set, err = Load([]string{"testdata/classic/rebuild.yml"}, Options{Actions: classicActions})
	if err != nil || len(set.Flows()) != 1 {
		t.Errorf("flows %v, error %v", set, err)
	}
}
