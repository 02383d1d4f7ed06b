package machine_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"testing"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

// cluster is a database cluster: what is wanted of it, and what it is.
type cluster struct {
	CloneFrom                                               string
	Class, Version, Writer, Node, Parameters                string
	HasClass, HasVersion, HasWriter, HasNode, HasParameters string
	Readers, HasReaders                                     int
	Restart, Rebuild, AllFailed, Deleting                   bool

	position machine.Position
}

func when(holds func(*cluster) bool) func(*cluster) (bool, error) {
	return func(c *cluster) (bool, error) { return holds(c), nil }
}

// reference is the lifecycle of a database cluster in Go. The
// same in YAML is examples/machines/database.yaml.
func reference() machine.Table[*cluster] {
	type on = []machine.Transition[*cluster]
	work := func(flow string, then machine.State) machine.StateSpec[*cluster] {
		return machine.StateSpec[*cluster]{Flow: flow, Then: then}
	}
	readers := func(c *cluster) (any, error) { return map[string]int{"from": c.HasReaders, "to": c.Readers}, nil }
	return machine.Table[*cluster]{
		Name: "database", Kind: "database", Initial: "Init",
		Any: on{{Event: "delete", To: "Deleting", Why: "deletion was asked for", When: when(func(c *cluster) bool { return c.Deleting })}},
		States: map[machine.State]machine.StateSpec[*cluster]{
			"Init": {On: on{
				{Event: "clone", To: "Cloning", Why: "a clone source is named", When: when(func(c *cluster) bool { return c.CloneFrom != "" })},
				{Event: "create", To: "Creating", Why: "the cluster is new", Params: readers},
			}},
			"Cloning":  work("CloneCluster", "Running"),
			"Creating": work("CreateCluster", "Running"),
			"Running": {On: on{
				{Event: "rebuild", To: "Recreating", Why: "a rebuild was requested, or all instances failed", When: when(func(c *cluster) bool { return c.Rebuild || c.AllFailed })},
				{Event: "switch-writer", To: "Switching", Why: "another writer was requested", When: when(func(c *cluster) bool { return c.Writer != c.HasWriter })},
				{Event: "restart", To: "Restarting", Why: "a restart was requested", When: when(func(c *cluster) bool { return c.Restart })},
				{Event: "move", To: "Migrating", Why: "a move to another node was requested", When: when(func(c *cluster) bool { return c.Node != c.HasNode })},
				{Event: "change-class", To: "ChangingSpecification", Why: "the wanted class differs", When: when(func(c *cluster) bool { return c.Class != c.HasClass })},
				{Event: "upgrade", To: "Upgrading", Why: "the wanted version differs", When: when(func(c *cluster) bool { return c.Version != c.HasVersion })},
				{Event: "modify-parameters", To: "ModifyingParameters", Why: "the parameters are newer than the applied ones", When: when(func(c *cluster) bool { return c.Parameters != c.HasParameters })},
				{Event: "add-readers", To: "Locking", Why: "more readers are wanted than exist", When: when(func(c *cluster) bool { return c.Readers > c.HasReaders }), Params: readers},
			}},
			"ChangingSpecification": work("ModifyClass", "Running"),
			"Migrating":             work("MoveInstance", "Running"),
			"Locking":               work("LockTopology", "ScalingOut"),
			"ScalingOut":            work("AddReaders", "Running"),
			"Switching":             work("SwitchWriter", "Running"),
			"Restarting":            work("RestartCluster", "Running"),
			"Recreating":            work("RebuildCluster", "Running"),
			"ModifyingParameters":   work("ApplyParameters", "Running"),
			"Upgrading":             work("UpgradeCluster", "Running"),
			"Interrupted": {On: on{
				{Event: "rebuild", To: "Recreating", Why: "a rebuild was requested", When: when(func(c *cluster) bool { return c.Rebuild })},
			}},
			"Deleting": {Flow: "DeleteCluster", Then: "Deleted", Else: "Deleting", Abort: "Interrupted"},
			"Deleted":  {},
		},
	}
}

// one keeps a single cluster, and its position in it.
type one struct{ c *cluster }

func (o one) Load(context.Context, control.Ref) (machine.Snapshot[*cluster], error) {
	return machine.Snapshot[*cluster]{Object: o.c}, nil
}
func (o one) Position(c *cluster) (machine.Position, error) { return c.position, nil }
func (o one) Subject(*cluster) string                       { return "database/default/c1" }
func (o one) Write(_ context.Context, c *cluster, move machine.Move) error {
	c.position = move.To // a real one compares the object's version
	return nil
}

func Example() {
	ctx := context.Background()
	c := &cluster{Class: "small", HasClass: "small", Readers: 2}
	full := true
	flow := func(name string, do workflow.Func) workflow.Flow {
		return workflow.Flow{Name: name, Steps: []workflow.Step{{Name: "Work", Do: do}}}
	}
	nothing := func(context.Context, *workflow.Task) outcome.Outcome { return outcome.Done() }
	grow := func(_ context.Context, t *workflow.Task) outcome.Outcome {
		if full {
			return outcome.Fail(workflow.WaitExpired.Errorf("no node has room"))
		}
		var in struct{ To int }
		if err := t.Input(&in); err != nil {
			return outcome.Fail(err)
		}
		c.HasReaders = in.To
		return outcome.Done()
	}
	var flows []workflow.Flow
	for _, place := range reference().States {
		switch place.Flow {
		case "":
		case "AddReaders":
			flows = append(flows, flow(place.Flow, grow))
		default:
			flows = append(flows, flow(place.Flow, nothing))
		}
	}
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	engine, err := workflow.New(runstore.NewMemory(), flows, workflow.Options{Logger: quiet})
	if err != nil {
		fmt.Println(err)
		return
	}
	m, err := machine.New(reference(), machine.Options[*cluster]{Objects: one{c}, Flows: engine, Inline: true, Logger: quiet})
	if err != nil {
		fmt.Println(err)
		return
	}
	ref := control.Ref{Kind: "database", Namespace: "default", Name: "c1"}
	last := machine.State("")
	settle := func() {
		for {
			out := m.Advance(ctx, ref)
			if s := c.position.State; s != last {
				fmt.Println(s)
				last = s
			}
			if out.IsDone() || out.After() == 0 {
				fmt.Println(" ", out)
				return
			}
		}
	}
	settle()
	full = false
	if err := engine.Resume(ctx, c.position.Run, workflow.FromFailed, "", workflow.Actor{Name: "someone on call"}); err != nil {
		fmt.Println(err)
	}
	settle()
	// Output:
	// Creating
	// Running
	// Locking
	// ScalingOut
	// Interrupted
	//   wait 0s WaitExpired: step Work: no node has room
	// ScalingOut
	// Running
	//   done
}

func ExampleDecide() {
	c := &cluster{Class: "big", HasClass: "small", position: machine.Position{State: "Running", Visit: 4}}
	d := machine.Decide(reference(), c, machine.Facts{Position: c.position})
	for _, t := range d.Considered {
		fmt.Printf("%-17s %-21s %s\n", t.Event, t.To, t.Verdict)
	}
	fmt.Println(d.Act, "to", d.Move.To.State, "because", d.Move.To.Message)
	// Output:
	// delete            Deleting              refused
	// rebuild           Recreating            refused
	// switch-writer     Switching             refused
	// restart           Restarting            refused
	// move              Migrating             refused
	// change-class      ChangingSpecification chosen
	// upgrade           Upgrading             not reached
	// modify-parameters ModifyingParameters   not reached
	// add-readers       Locking               not reached
	// move to ChangingSpecification because the wanted class differs
}

// The table in Go and the one in YAML are drawn alike.
func TestReferenceIsTheOneOfTheFile(t *testing.T) {
	want, err := os.ReadFile("machinefile/testdata/database.mmd")
	if err != nil {
		t.Fatal(err)
	}
	if got := reference().Mermaid(); got != string(want) {
		t.Errorf("the drawings differ:\n%s", got)
	}
	if problems := reference().Check(nil); problems != nil {
		t.Error(problems)
	}
}
