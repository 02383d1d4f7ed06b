package postgres

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/lease"
)

// AgentStatus is the status that an agent returns: the engine, and what the cluster manager needs
// besides.
type AgentStatus struct {
	port.Status
	Name    string   `json:"name"`
	Node    string   `json:"node,omitempty"`    // on which it runs
	Wanted  bool     `json:"wanted"`            // the engine should run
	Held    bool     `json:"held,omitempty"`    // it receives from nobody, as ordered
	Ahead   bool     `json:"ahead,omitempty"`   // its log may have diverged
	Members int64    `json:"members,omitempty"` // version of the membership that it has
	Sync    []string `json:"sync,omitempty"`    // instances of which one must have a commit, as in effect
	Job     string   `json:"job,omitempty"`     // the job in the background
}

// The calls of agents.
type (
	installCall struct {
		Key  string    `json:"key"`
		From *Upstream `json:"from,omitempty"`

		Restore *port.Restore `json:"restore,omitempty"`
	}
	stopCall struct {
		Mode port.StopMode `json:"mode"`
	}
	promoteCall struct {
		Epoch int64           `json:"epoch"`
		Lease *lease.Sighting `json:"lease,omitempty"` // what the caller knows of the lease of the former writer; nil: nothing
	}
	followCall struct {
		Writer Upstream `json:"writer"`
	}
	applyCall struct {
		Parameters map[string]string `json:"parameters"`
	}
	applyAnswer struct {
		Restart bool `json:"restart"`
	}
)

// problem is the wire form of an error.
type problem struct {
	Code    fault.Code     `json:"code,omitempty"`
	Message string         `json:"message"`
	Details map[string]any `json:"details,omitempty"`
}

func writeJSON(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(mustJSON(value)) // the caller went away
}

func writeProblem(w http.ResponseWriter, err error) {
	kind := fault.Of(err)
	p := problem{Message: fault.Message(err), Details: fault.Details(err)}
	status := http.StatusInternalServerError
	switch {
	case kind == fault.Unknown:
	case kind.Class == fault.Invalid:
		p.Code, status = kind.Code, http.StatusUnprocessableEntity
	case kind.Class == fault.Blocked:
		p.Code, status = kind.Code, http.StatusConflict
	default:
		p.Code, status = kind.Code, http.StatusServiceUnavailable
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_, _ = w.Write(mustJSON(p)) // the caller went away
}

// readProblem returns the error of a response.
func readProblem(status int, body []byte) error {
	var p problem
	if json.Unmarshal(body, &p) != nil || p.Message == "" {
		return fmt.Errorf("it answers %s", http.StatusText(status))
	}
	kind, ok := fault.Lookup(string(p.Code))
	if !ok {
		return errors.New(p.Message)
	}
	err := kind.Errorf("%s", p.Message)
	for key, value := range p.Details {
		_ = err.With(key, value)
	}
	return err
}

func decode(data []byte, out any) error {
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("its answer is none: %w", err)
	}
	return nil
}
