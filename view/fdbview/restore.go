package fdbview

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/view"
)

// Restore is a restore as its status tells it.
type Restore struct {
	Kind        string    `json:"kind"`
	Namespace   string    `json:"namespace"`
	Name        string    `json:"name"`
	Cluster     string    `json:"cluster"`
	Tag         string    `json:"tag,omitempty"`
	State       string    `json:"state"`
	Version     *int64    `json:"backupVersion,omitempty"` // absent: the newest
	Ranges      []string  `json:"keyRanges,omitempty"`     // absent: all keys
	StartedAt   time.Time `json:"startedAt,omitzero"`
	CompletedAt time.Time `json:"completedAt,omitzero"`
	Reason      string    `json:"reason,omitempty"`
	Message     string    `json:"message,omitempty"`
}

// Ref names the restore.
func (r Restore) Ref() string { return r.Kind + "/" + r.Namespace + "/" + r.Name }

// Exit is the exit code of a verb that waited for the restore.
func (r Restore) Exit() int {
	switch fdb.RestoreState(r.State) {
	case fdb.RestoreCompleted:
		return view.ExitDone
	case fdb.RestoreAborted:
		return view.ExitFailed
	}
	return view.ExitActive
}

// Health judges the state of the restore.
func (r Restore) Health() view.Health {
	return map[int]view.Health{view.ExitDone: view.Healthy, view.ExitFailed: view.Degraded, view.ExitActive: view.Progressing}[r.Exit()]
}

// Line is a restore in one line, for a watch.
func (r Restore) Line() string {
	line := fmt.Sprintf("%s/%s  %s", r.Namespace, r.Name, r.State)
	if why := Because(r.Reason, r.Message); why != "" {
		line += "  " + why
	}
	return line + "\n"
}

// Describe tells all of a restore.
func (r Restore) Describe(now time.Time, style view.Style) string {
	var t strings.Builder
	fmt.Fprintf(&t, "%s %s/%s\n", r.Kind, r.Namespace, r.Name)
	say := func(name, format string, args ...any) {
		fmt.Fprintf(&t, "  %-12s%s\n", name, fmt.Sprintf(format, args...))
	}
	say("into", "%s", r.Cluster)
	say("state", "%s", style.Health(r.Health(), r.State))
	say("tag", "%s", cmp.Or(r.Tag, None))
	to := "the newest version"
	if r.Version != nil {
		to = fmt.Sprintf("version %d", *r.Version)
	}
	say("to", "%s", to)
	say("ranges", "%s", cmp.Or(strings.Join(r.Ranges, "; "), "all keys"))
	say("started", "%s", Moment(r.StartedAt, now))
	say("completed", "%s", Moment(r.CompletedAt, now))
	if why := Because(r.Reason, r.Message); why != "" {
		say("waits", "%s", why)
	}
	return t.String()
}
