// Package probe asks a database, and the sidecars of its pods, what they are.
package probe

import (
	"context"
	"errors"
	"slices"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/port"
)

// Tools knows which tools a database is asked with.
type Tools struct {
	// Answers is the version whose tools are expected to reach the coordinators: they did last, or the servers were
	// restarted for it.
	Answers fdb.Version
	turn    int // counts the lines of tools that were tried while nobody answered
}

// Answer is what a database has said.
type Answer struct {
	Status        *fdb.Status // nil: it was not heard
	Silence       string      // why not
	SilenceReason string      // in CamelCase
	Running       string      // the version that runs; empty: the one that is known
}

// Read reads the status document. In an incompatible upgrade the tools of both versions are tried: the one
// whose client reaches the coordinators tells what runs. The other one uses up its time-out, so the tools that are
// expected to answer are asked first. wanted is the version that the cluster is to have in the end.
func (t *Tools) Read(ctx context.Context, database port.Database, c *v1beta2.FoundationDBCluster, wanted string) Answer {
	a := Answer{SilenceReason: fdb.DatabaseSilent}
	at, err := port.EndpointOf(c)
	if err != nil {
		a.Silence = "there is no connection string yet"
		if c.Status.ConnectionString != "" {
			a.Silence = fault.Message(err)
		}
		return a
	}
	limit := port.Long
	if !c.Status.Configured {
		limit = port.Short
	}
	running, tools := at.Version, t.inOrder(c, at.Version, wanted)
	for _, at.Version = range tools {
		s, err := database.Status(ctx, at, limit)
		limit = port.Short
		switch {
		case Quorum(s):
			t.Answers = at.Version
			a = Answer{Status: s, SilenceReason: a.SilenceReason}
			if at.Version != running {
				a.Running = at.Version.String()
			}
			return a
		case at.Version != running:
		case err == nil:
			a.Status = s
		default:
			a.Silence = fault.Message(err)
			if errors.Is(err, port.ToolsMissing) {
				a.SilenceReason = port.ToolsMissing.Reason()
			}
		}
	}
	if len(tools) == 1 && c.Status.Configured {
		if other, ok := t.readOtherwise(ctx, database, at, running); ok {
			return other
		}
	}
	t.Answers = tools[len(tools)-1] // it had less time
	return a
}

// readOtherwise reads the status with the tools of another line, in each pass of the next one, and reports whether it
// was told: servers run a version that nobody asks for, as after an upgrade that was taken back too late.
func (t *Tools) readOtherwise(ctx context.Context, database port.Database, at port.Endpoint, running fdb.Version) (Answer, bool) {
	lines := slices.DeleteFunc(database.Versions(), func(line string) bool { return line == running.Short() })
	if len(lines) == 0 {
		return Answer{}, false
	}
	version, err := fdb.ParseVersion(lines[t.turn%len(lines)] + ".0")
	if err != nil {
		return Answer{}, false
	}
	t.turn++
	at.Version = version
	s, err := database.Status(ctx, at, port.Short)
	if err != nil || !Quorum(s) {
		return Answer{}, false
	}
	counts := map[string]int{}
	for i := range s.Cluster.Processes {
		counts[s.Cluster.Processes[i].Version]++
	}
	runs := fdb.RunningVersion(counts, "")
	if runs == "" {
		return Answer{}, false
	}
	return Answer{Status: s, Running: runs}, true
}

// inOrder are the versions whose tools are asked for the status.
func (t *Tools) inOrder(c *v1beta2.FoundationDBCluster, running fdb.Version, wanted string) []fdb.Version {
	desired, err := fdb.ParseVersion(wanted)
	switch {
	case err != nil || !foundationdb.UpgradesIncompatibly(c):
		return []fdb.Version{running}
	case t.Answers == desired:
		return []fdb.Version{desired, running}
	}
	return []fdb.Version{running, desired}
}

// Quorum reports whether a client reaches the coordinators: those of another protocol do not count.
func Quorum(s *fdb.Status) bool {
	return s != nil && s.Client.Coordinators.QuorumReachable != nil && *s.Client.Coordinators.QuorumReachable
}
