// Package action contains the standard actions of steps: exec, http, sleep, signal, approval and
// status.
//
//	actions, err := action.Standard(action.Options{
//		Only:      []string{"exec", "http", "sleep"}, // exec is off unless named
//		HTTPAllow: []string{"10.1.0.0/16"},
//		StateDir:  stateDir,
//	})
//	engine, err := workflow.New(store, flows, workflow.Options{Actions: actions})
//
// A flow file calls them by name:
//
//	steps:
//	- stepName: Dump
//	  uses: exec
//	  with:
//	    command: [pg_dump, --file, "${input.file}", "${input.database}"]
//	    env: {PGPASSWORD: {secret: password}} # the step's secrets name it
//	    faults: {"3": DISK_FULL}
//	- stepName: Notify
//	  uses: http
//	  with: {method: POST, url: "https://hooks.example.org/done", json: {run: "${run.id}"}}
//
// # Descriptor 3 of exec
//
// Every process of an exec step inherits the lock file of the step as descriptor 3. A process that
// keeps it open belongs to the attempt. If the worker was killed, the next attempt ends these
// processes before it starts. So a script that starts a daemon closes the descriptor, leaves the
// process group and closes the pipes:
//
//	setsid etcd --data-dir "$DATA" >>"$DATA/etcd.log" 2>&1 </dev/null 3>&- &
//
// Such a daemon outlives the step and the worker.
//
// # Templates
//
// Every string of `with` may contain ${…}, except the strings that [Params.Literal] lists: shell
// scripts, expressions and schemas. A script receives values through env.
package action

import (
	"crypto/x509"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/action/egress"
)

// Options of the standard actions. The zero value offers all actions except exec, and except
// status, which needs a StatusWriter.
type Options struct {
	Only      []string                    // names of the offered actions (`--actions`); nil: all except exec
	HTTPAllow []string                    // non-public targets that http may reach (`--http-allow`): an address, a CIDR, host[:port], or a URL prefix
	RootCAs   *x509.CertPool              // roots that http trusts; nil: those of the system. The `ca` of a step replaces them
	StateDir  string                      // directory of the lock files of exec; default: pawl in the state directory of the user
	Groups    func(actor string) []string // groups of an actor, for approval; nil: no groups
	Status    StatusWriter                // nil: no status action
}

// Standard returns the standard actions that the options offer.
func Standard(o Options) ([]workflow.Action, error) {
	policy, err := egress.NewPolicy(o.HTTPAllow)
	if err != nil {
		return nil, err
	}
	all := []workflow.Action{
		execAction(o.StateDir),
		httpAction(policy, o.RootCAs),
		sleepAction(),
		signalAction(),
		approvalAction(o.Groups),
	}
	if o.Status != nil {
		all = append(all, statusAction(o.Status))
	}
	return offered(all, o.Only)
}

// Names returns the names of all standard actions.
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
