package fdbview

import (
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/view"
)

// Cluster is a cluster as its status tells it.
type Cluster struct {
	Kind       string    `json:"kind"`
	Namespace  string    `json:"namespace"`
	Name       string    `json:"name"`
	Generation int64     `json:"generation"`
	CreatedAt  time.Time `json:"createdAt,omitzero"`
	// State is Paused, Deleting, New, Refused, Creating, Unavailable, Reconciled or Progressing.
	State   string `json:"state"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`

	Version        string `json:"version"`
	RunningVersion string `json:"runningVersion,omitempty"`

	Ready           bool `json:"ready"` // configured and available, as its condition says
	Reconciled      bool `json:"reconciled"`
	Configured      bool `json:"configured"`
	Available       bool `json:"available"`
	FullReplication bool `json:"fullReplication"`

	DesiredGroups    int `json:"desiredGroups"`
	ReconciledGroups int `json:"reconciledGroups"`
	Problems         int `json:"problems"` // groups with a condition

	// Configuration is that of the database when it was last available, as text of `configure`.
	Configuration string `json:"configuration,omitempty"`
	// DesiredConfiguration is that of the spec, where it differs.
	DesiredConfiguration string        `json:"desiredConfiguration,omitempty"`
	Coordinators         []Coordinator `json:"coordinators"`
	MaintenanceZone      string        `json:"maintenanceZone,omitempty"`
	Classes              []Class       `json:"classes"`
	Plan                 Plan          `json:"plan"`
}

// Coordinator is one of the connection string.
type Coordinator struct {
	Address string `json:"address"`
	Group   string `json:"group,omitempty"` // empty: none of this object
}

// Class are the groups of a class.
type Class struct {
	Name    string `json:"name"`
	Desired int    `json:"desired"`
	Zones   []Zone `json:"zones"`
}

// Zone are the groups of a class in a zone.
type Zone struct {
	Name   string  `json:"name"` // empty: not known yet
	Groups []Group `json:"groups"`
}

// Group is a process group, and in words why it is where it is.
type Group struct {
	ID         string      `json:"id"`
	Addresses  []string    `json:"addresses,omitempty"`
	State      string      `json:"state"` // Serves, Wrong, Draining, Drained or Skipped
	Conditions []Condition `json:"conditions,omitempty"`
	Since      time.Time   `json:"since,omitzero"` // when it was marked for removal
	Plan       []string    `json:"plan,omitempty"` // what the plan has for it
}

// Condition is something about a group that is not as it should be.
type Condition struct {
	Type  string    `json:"type"`
	Since time.Time `json:"since,omitzero"`
}

// The states of groups.
const (
	Serves   = "Serves"
	Wrong    = "Wrong"    // it has a condition
	Draining = "Draining" // marked for removal; data and roles move away
	Drained  = "Drained"  // marked, and safe to delete
	Skipped  = "Skipped"  // marked, and removed without moving its data
)

// Ref names the cluster.
func (c Cluster) Ref() string { return c.Kind + "/" + c.Namespace + "/" + c.Name }

// Exit is the exit code of a verb that waited for the cluster.
func (c Cluster) Exit() int {
	switch c.State {
	case "Reconciled":
		return view.ExitDone
	case "Refused", "Paused":
		return view.ExitRemedy
	}
	if c.Plan.Held() {
		return view.ExitRemedy
	}
	return view.ExitActive
}

// Line is a cluster in one line, for a watch.
func (c Cluster) Line() string {
	line := fmt.Sprintf("%s/%s  %s  %d/%d groups  %s", c.Namespace, c.Name, c.State, c.ReconciledGroups, c.DesiredGroups, c.Versions())
	if why := Because(c.Reason, c.Message); why != "" {
		line += "  " + why
	}
	return line + "\n"
}

// Versions is the version that runs, and the one that is asked for if it is another: "7.3.69 → 7.4.6".
func (c Cluster) Versions() string {
	if c.RunningVersion != "" && c.RunningVersion != c.Version {
		return c.RunningVersion + " → " + c.Version
	}
	return c.Version
}
