package main

import (
	"github.com/pawl-dev/pawl/cmd/pawl/internal/library"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/action"
	"github.com/pawl-dev/pawl/workflow/flowfile"
)

// loaded is what files hold, to be looked at and not executed.
type loaded struct{ library.Library }

// loadFiles reads flows and machines whose actions need not be known here.
func loadFiles(paths []string) (loaded, error) {
	lib, err := library.Load(paths, nil, flowfile.Options{Actions: knownActions(), AnyAction: true})
	return loaded{lib}, err
}

// knownActions are all ready-made actions, so that their parameters are checked.
func knownActions() []workflow.Action {
	actions, err := action.Standard(action.Options{Only: []string{"exec", "http", "sleep", "signal", "approval"}})
	if err != nil {
		panic(err) // the options are constant
	}
	return actions
}

func (l loaded) flow(name string) (workflow.Flow, bool) {
	for _, f := range l.Flows {
		if f.Name == name {
			return f, true
		}
	}
	return workflow.Flow{}, false
}
