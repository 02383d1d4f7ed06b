package fdbview

import (
	"fmt"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/view"
)

// Backup is a backup as its status tells it.
type Backup struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Cluster   string `json:"cluster"`
	Tag       string `json:"tag"`
	// State is what the database does: Running, Paused or Stopped.
	State         string `json:"state"`
	Desired       string `json:"desired"` // Running, Stopped or Paused
	Restorable    bool   `json:"restorable"`
	URL           string `json:"url,omitempty"` // without secrets
	PeriodSeconds int    `json:"snapshotPeriodSeconds,omitempty"`
	Agents        int    `json:"agents"`
	DesiredAgents int    `json:"desiredAgents"`
	Reconciled    bool   `json:"reconciled"`
	Reason        string `json:"reason,omitempty"`
	Message       string `json:"message,omitempty"`
}

// Ref names the backup.
func (b Backup) Ref() string { return b.Kind + "/" + b.Namespace + "/" + b.Name }

// Health judges the state of the backup.
func (b Backup) Health() view.Health {
	switch {
	case b.State != b.Desired:
		return view.Progressing
	case b.State == "Stopped":
		return view.Inactive
	}
	return view.HealthOf(b.State)
}

// Describe tells all of a backup.
func (b Backup) Describe(style view.Style) string {
	var t strings.Builder
	fmt.Fprintf(&t, "%s %s/%s\n", b.Kind, b.Namespace, b.Name)
	say := func(name, format string, args ...any) {
		fmt.Fprintf(&t, "  %-12s%s\n", name, fmt.Sprintf(format, args...))
	}
	say("cluster", "%s", b.Cluster)
	state := style.Health(b.Health(), b.State)
	if b.State != b.Desired {
		state += ", wanted: " + b.Desired
	}
	say("state", "%s", state)
	say("tag", "%s", b.Tag)
	say("restorable", "%t", b.Restorable)
	if b.URL != "" {
		say("url", "%s", b.URL)
	}
	if b.PeriodSeconds > 0 {
		say("snapshots", "every %s", time.Duration(b.PeriodSeconds)*time.Second)
	}
	say("agents", "%d of %d", b.Agents, b.DesiredAgents)
	say("reconciled", "%t", b.Reconciled)
	if why := Because(b.Reason, b.Message); why != "" {
		say("waits", "%s", why)
	}
	return t.String()
}
