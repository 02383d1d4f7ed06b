// Embed is an operator in one file: it keeps a toy database cluster at the requested
// number of members. A member is a file in a folder; the rest is as in a real operator.
//
//	go run ./examples/embed -dir /tmp/toy -members 3
//
// Kill it at any moment and start it again: it continues.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/machine/driver"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/store/sql"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// FolderLocked is a fault with its remedy, which the user sees.
var FolderLocked = fault.Declare(fault.Kind{
	Code: "FOLDER_LOCKED", Class: fault.Blocked,
	Title:  "somebody has locked the folder of the cluster",
	Remedy: "Remove the file named locked from the folder, then resume the run.",
})

// toy is the managed system: a folder with a file for each member.
type toy struct {
	dir  string
	tell io.Writer
}

func (w toy) members() (int, error) {
	files, err := filepath.Glob(filepath.Join(w.dir, "member-*"))
	return len(files), err
}

// flow creates and removes the members of the cluster.
func (w toy) flow() workflow.Flow {
	return workflow.Flow{Name: "Scale", Steps: []workflow.Step{
		{Name: "Members", Do: w.scale},
		{Name: "Note", Uses: "note"},
	}}
}

// scale may be called again after a crash: it checks before it acts.
func (w toy) scale(_ context.Context, t *workflow.Task) outcome.Outcome {
	var in struct{ Members int }
	if err := t.Input(&in); err != nil {
		return outcome.Fail(err)
	}
	if _, err := os.Stat(filepath.Join(w.dir, "locked")); err == nil {
		return outcome.Fail(FolderLocked.Errorf("%s holds a file named locked", w.dir))
	}
	for i := 1; ; i++ {
		name := filepath.Join(w.dir, fmt.Sprintf("member-%d", i))
		_, err := os.Stat(name)
		switch missing := errors.Is(err, os.ErrNotExist); {
		case missing && i > in.Members:
			return outcome.Fail(t.Set(in))
		case missing:
			err = os.WriteFile(name, []byte(t.Key()), 0o600)
		case i > in.Members:
			err = os.Remove(name)
		}
		if err != nil {
			return outcome.Fail(err)
		}
		t.Progress(int64(i), int64(in.Members), "member %d", i)
	}
}

// actions are used by name: note by the flow, count by the machine's observation.
func (w toy) actions(objects control.Objects) []workflow.Action {
	status := driver.Status{Objects: objects}
	return []workflow.Action{
		{Name: "note", Do: func(ctx context.Context, t *workflow.Task) outcome.Outcome {
			var created struct{ Members int }
			if err := t.Output("Members", &created); err != nil {
				return outcome.Fail(err)
			}
			patch := fmt.Sprintf(`{"members": %d, "observed": {"count": %[1]d}}`, created.Members)
			return outcome.Fail(status.PatchStatus(ctx, t.Subject(), json.RawMessage(patch), t.Key()))
		}},
		{Name: "count", Do: func(_ context.Context, t *workflow.Task) outcome.Outcome {
			n, err := w.members()
			return outcome.Fail(errors.Join(err, t.Set(n)))
		}},
	}
}

// facts are the inputs of the machine's decisions.
type facts struct {
	Members  int
	Observed struct{ Count int }
}

func read(o control.Object) (desired, has facts, err error) {
	if err = json.Unmarshal(o.Spec, &desired); err == nil && o.Status != nil {
		err = json.Unmarshal(o.Status, &has)
	}
	return desired, has, err
}

// lifecycle is the machine: a state for each operation on a cluster.
func lifecycle() machine.Standalone {
	when := func(holds func(desired, has facts) bool) func(*machine.Subject) (bool, error) {
		return func(s *machine.Subject) (bool, error) {
			desired, has, err := read(s.Object)
			return err == nil && holds(desired, has), err
		}
	}
	spec := func(s *machine.Subject) (any, error) { return s.Object.Spec, nil }
	return machine.Standalone{
		Table: machine.Table[*machine.Subject]{
			Name: "toy", Kind: "Toy", Initial: "New",
			States: map[machine.State]machine.StateSpec[*machine.Subject]{
				"New": {On: []machine.Transition[*machine.Subject]{{Event: "create", To: "Scaling", Why: "the cluster is new", Params: spec}}},
				"Running": {On: []machine.Transition[*machine.Subject]{
					{Event: "lost", To: "Scaling", Why: "members are gone", Params: spec, When: when(func(_, has facts) bool { return has.Observed.Count < has.Members })},
					{Event: "scale", To: "Scaling", Why: "another size is wanted", Params: spec, When: when(func(desired, has facts) bool { return desired.Members != has.Members })},
				}},
				"Scaling":     {Flow: "Scale", Then: "Running"},
				"Interrupted": {Rests: true},
			},
		},
		Observe: []machine.Observation{{Name: "count", Every: time.Second, Uses: "count", In: []machine.State{"Running"}}},
	}
}

// operate requests a cluster with a number of members and maintains it until ctx ends.
func operate(ctx context.Context, w toy, members int) error {
	store, err := sql.Open(ctx, sql.Options{Path: filepath.Join(w.dir, "toy.db")})
	if err != nil {
		return err
	}
	defer store.Close()
	objects, wake := store.Objects(), &driver.Notifier{}
	quiet := slog.New(slog.DiscardHandler)
	engine, err := workflow.New(store, []workflow.Flow{w.flow()}, workflow.Options{
		Actions: w.actions(objects), Object: driver.Object(objects), Logger: quiet,
		Hooks: []workflow.Hook{wake.Hook(), {Name: "tell", OnEvent: func(_ workflow.RunInfo, e runtype.Event) {
			fmt.Fprintln(w.tell, "  ", e.Kind, e.Step, e.Message)
		}}},
	})
	if err != nil {
		return err
	}
	d, err := driver.New(driver.Options{
		Objects: objects, Engine: engine, Notifier: wake, Machines: []machine.Standalone{lifecycle()}, Actions: w.actions(objects), Logger: quiet,
		Moved: func(ref control.Ref, move machine.Move) { fmt.Fprintln(w.tell, ref, move.To.State, move.To.Event) },
	})
	if err != nil {
		return err
	}
	_, err = objects.Apply(ctx, control.Object{Ref: control.Ref{Kind: "Toy", Namespace: "default", Name: "c1"}, Spec: fmt.Appendf(nil, `{"members": %d}`, members)})
	if err != nil {
		return err
	}
	var both errgroup.Group
	both.Go(func() error { return engine.Serve(ctx) })
	both.Go(func() error { return d.Serve(ctx) })
	return both.Wait()
}

func main() {
	dir := flag.String("dir", "toy", "folder of the cluster and of its store")
	members := flag.Int("members", 3, "members that are wanted")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := errors.Join(os.MkdirAll(*dir, 0o750), operate(ctx, toy{*dir, os.Stdout}, *members))
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
