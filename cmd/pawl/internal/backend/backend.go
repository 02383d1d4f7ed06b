// Package backend gives the verbs of pawl access to runs and objects: a store that this process opens, or a server.
//
//	Backend ─┬─ Remote  client ─▶ /v1 of a server
//	         ├─ Local   client ─▶ handler of a server in this process ─▶ engine ─▶ store; works on what is due if nobody else owns the store
//	         └─ Kube    runs and objects of a Kubernetes cluster
package backend

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/machine/driver"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Backend is the interface of the verbs to runs, objects and definitions.
type Backend interface {
	Runs
	Definitions
	Holders
	// Objects are the standalone objects.
	Objects() (control.Objects, error)
	Close() error
}

// Runs are durable runs. Ids may be shortened while they are unique.
type Runs interface {
	Start(ctx context.Context, req workflow.Request) (view.Run, error)
	Run(ctx context.Context, id string) (view.Run, error)
	// Steps returns a page of a run's steps after an offset; a Run holds only the newest.
	Steps(ctx context.Context, id string, after int) (view.Steps, error)
	List(ctx context.Context, q runstore.Query) (view.Runs, error)
	// History returns the events after one, oldest first.
	History(ctx context.Context, id string, after int64, limit int) ([]view.Event, error)
	// Logs calls emit with what the steps of a run have printed, in the order of writing.
	Logs(ctx context.Context, id string, of LogsOf, emit func([]view.LogLine) error) error
	// Request sends a request: durable when it returns nil. A request that is refused at once is an error.
	Request(ctx context.Context, id string, verb runtype.Verb, ask workflow.RunRequest) error
	Send(ctx context.Context, id string, s runtype.Signal) error
	// Changes notifies when a run ("": any object) may have changed, until ctx ends.
	Changes(ctx context.Context, id string) <-chan struct{}
	// Work works on what is due until ctx ends, as long as this process is the
	// one to do it. Without one to do it, it only waits.
	Work(ctx context.Context) error
	// Alone reports that runs continue only while this process works on them.
	Alone() bool
	// Advance works on one run until it rests, if nobody else does.
	Advance(ctx context.Context, id string) error
}

// LogsOf selects the lines of Logs.
type LogsOf struct {
	Step   string    // instance name; empty: all
	Since  time.Time // only lines that are not older
	Tail   int       // begin with so many of the newest lines; 0: with the oldest
	Follow bool      // go on until the run, or the step, has ended, or ctx ends
}

// Definitions are the flows, machines and faults that are loaded.
type Definitions interface {
	Flows(ctx context.Context) ([]view.Flow, error)
	// Flow finds a flow by its name; KIND/NAME is the one that serves subjects of this kind.
	Flow(ctx context.Context, name string) (view.Flow, error)
	Faults(ctx context.Context) ([]view.Kind, error)
	Fault(ctx context.Context, code string) (view.Kind, error)
	Machines(ctx context.Context) ([]view.Machine, error)
	// Machine finds a machine by its name or by the kind that it serves.
	Machine(ctx context.Context, name string) (view.Machine, error)
	PlanFlow(ctx context.Context, flow string, input []byte) (view.Plan, error)
	// Served returns the kinds of objects that machines serve. None: unknown here.
	Served(ctx context.Context) ([]driver.ServedKind, error)
	// PlanObject says what a machine would do with a stored object; with a manifest, were it applied.
	PlanObject(ctx context.Context, ref control.Ref, manifest *control.Object) (machine.Plan, error)
}

// FileLabel is the label of a run that names the file its flow was read from,
// so that a later process finds faults, healers and new definitions there.
const FileLabel = "pawl.dev/file"

// MachineUnknown is the fault of a kind that no machine serves.
var MachineUnknown = machine.Unserved
