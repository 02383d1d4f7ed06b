package view

import (
	"errors"
	"net/http"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// Exit codes of all verbs of pawl.
const (
	ExitDone   = 0
	ExitFailed = 1 // failed, refused or not found
	ExitUsage  = 2 // usage or bad input
	ExitActive = 3 // still active when the wait ended
	ExitRemedy = 4 // paused or stalled: it needs a remedy
)

// ExitOf returns the exit code of an error. A method ExitCode of the error takes precedence.
func ExitOf(err error) int {
	if err == nil {
		return ExitDone
	}
	var own interface{ ExitCode() int }
	if errors.As(err, &own) {
		return own.ExitCode()
	}
	switch ProblemOf(err).Status {
	case http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusRequestEntityTooLarge,
		http.StatusUnsupportedMediaType, http.StatusPreconditionRequired:
		return ExitUsage
	default:
		return ExitFailed
	}
}

// ExitOfRun returns the exit code of a command that waited for a run.
func ExitOfRun(r Run) int {
	switch {
	case r.Phase == runtype.Succeeded:
		return ExitDone
	case r.Phase == runtype.Cancelled:
		return ExitFailed
	case r.Phase == runtype.Paused, r.Warning != "":
		return ExitRemedy
	default:
		return ExitActive
	}
}

// ExitOfObject returns the exit code of a command that waited for an object to settle.
func ExitOfObject(o control.Object) int {
	s := StateOf(o)
	switch {
	case s.Fault != nil:
		return ExitRemedy
	case s.Progressing || s.Behind:
		return ExitActive
	default:
		return ExitDone
	}
}
