// Package action holds the ready-made actions of steps: exec, http, sleep, signal, approval and status.
//
//	actions, err := action.Standard(action.Options{
//		Only:      []string{"exec", "http", "sleep"}, // exec is off unless named
//		HTTPAllow: []string{"http://localhost:8080/hooks"},
//		StateDir:  stateDir,
//	})
//	engine, err := workflow.New(store, flows, workflow.Options{Actions: actions})
//
// A flow file uses them by name (workflow.md 3):
//
//   - stepName: Dump
//     uses: exec
//     with:
//     command: [pg_dump, --file, "${input.file}", "${input.database}"]
//     env: {PGPASSWORD: {secret: password}} # the step's secrets name it
//     faults: {"3": DISK_FULL}
//   - stepName: Notify
//     uses: http
//     with: {method: POST, url: "https://hooks.example.org/done", json: {run: "${run.id}"}}
//
// # Descriptor 3 of exec
//
// Every process of an exec step inherits the step's lock file as descriptor 3.
// Whoever keeps it open belongs to the attempt: when the worker was killed, the
// next attempt first ends what still holds it, then starts. So a script that
// starts a daemon closes it, leaves the process group and gives up the pipes:
//
//	setsid etcd --data-dir "$DATA" >>"$DATA/etcd.log" 2>&1 </dev/null 3>&- &
//
// Such a daemon outlives the step and the worker.
//
// # Templates
//
// ${…} stands in any string of `with` but those that [Params.Literal] names: a
// shell script, an expression, a schema. Values reach a script through env.
package action

import (
	"crypto/x509"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/workflow"
)

// Options of the ready-made actions. The zero value offers all but exec (and
// status, which needs a writer).
type Options struct {
	Only      []string                    // names offered (`--actions`); nil: all but exec
	HTTPAllow []string                    // what http may reach besides public addresses (`--http-allow`): an address, a CIDR, host[:port], or the beginning of a URL
	RootCAs   *x509.CertPool              // trusted by http; nil: the system's. A step's `ca` replaces it
	StateDir  string                      // where exec keeps lock files; default: pawl in the user's state folder
	Groups    func(actor string) []string // groups of an actor, for approval; nil: no groups
	Status    StatusWriter                // nil: no status action
}

// Standard gives the ready-made actions that the options offer.
func Standard(o Options) ([]workflow.Action, error) {
	guard, err := newGuard(o.HTTPAllow)
	if err != nil {
		return nil, err
	}
	all := []workflow.Action{
		execAction(o.StateDir),
		httpAction(guard, o.RootCAs),
		sleepAction(),
		signalAction(),
		approvalAction(o.Groups),
	}
	if o.Status != nil {
		all = append(all, statusAction(o.Status))
	}
	return offered(all, o.Only)
}

// Names are those of all ready-made actions.
func Names() []string { return []string{"exec", "http", "sleep", "signal", "approval", "status"} }

func offered(all []workflow.Action, only []string) ([]workflow.Action, error) {
	for _, name := range only {
		if !slices.Contains(Names(), name) {
			return nil, fmt.Errorf("there is no ready-made action %q: choose from %s", name, strings.Join(Names(), ", "))
		}
	}
	return slices.DeleteFunc(all, func(a workflow.Action) bool {
		if only == nil {
			return a.Name == "exec"
		}
		return !slices.Contains(only, a.Name)
	}), nil
}
